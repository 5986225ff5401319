"""The search server: corpora, a knowledge graph and the web behind a few HTTP paths, each with limits and counters.

    POST /retrieve  {"queries": [...], "topk": 5, "return_scores": true}     passages, as Search-R1's server gives them
    POST /search    {"queries": [...]}                                       the same as Graph-R1's server gives them
    POST /pages     {"query": "…", "topk": 5}                                passages with page and part
    POST /open      {"page": "an id, a title, or an address", "part": 1}     a page to read on in
    POST /find      {"page": "…", "text": "words"}                           where in a page words stand
    POST /kg        {"entities": [...], "relations": [...], "query": "…"}    triples of the knowledge graph
    GET  /health, GET /stats                                                 what is served; figures

`corpus` names one of several corpora; without it the first is searched.
"""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from sys import getsizeof
from typing import Any

from aiohttp import web

from trailforge.retrieval.backends.declaration import FoundPassage, attach_sources
from trailforge.retrieval.base import Remembered
from trailforge.retrieval.kg import KgTool
from trailforge.retrieval.page_tools import PageHits
from trailforge.retrieval.pages.corpus import search_pages
from trailforge.retrieval.pages.text import PART_WORDS, OpenedPage
from trailforge.retrieval.service import wire
from trailforge.retrieval.service.searching import AT_ONCE, ServedIndex, ServerFigures, Times
from trailforge.retrieval.service.wire import MOST_K, Asked, Callers
from trailforge.retrieval.web.http import site_of
from trailforge.retrieval.web.pages import PageReader
from trailforge.schemas import InvalidInput, NoSuchPage, Passage, ProviderError, RetrievalError

_MOST_PART_WORDS = 20_000
_MOST_PARTS = 1 << 31
_MOST_MENTIONS = 32
_PAGES_KEPT = 64 << 20
"""Bytes of pages of the web: an agent reads on in what it has opened."""
_LONGEST_WAIT_S = 60
_GRACE_S = 10.0
"""For requests that are under way when the server is told to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits of a server on the size, number and duration of requests, queries and replies."""

    k: int = 5
    """Number of passages for a query that does not say how many."""
    timeout_s: float = 120.0
    """Seconds allowed for a request, the reading of its body included."""
    queue: int = 16_384
    """Number of queries that may wait at once, and in one request: trainers send those of a whole batch together."""
    largest_body: int = 1 << 25
    """Largest body of a request, in bytes."""
    passages: int = 1 << 17
    """Largest number of passages of a request: its queries times what each asks for."""
    largest_reply: int = 1 << 27
    """Largest body of a reply, in bytes."""
    idle_s: float = 30.0
    """Seconds that a connection may take to send a request's headers."""


class _Refusal(Exception):
    """A request that is not answered for now."""


class _NotServed(Exception):
    """What a request names is not there."""


class SearchServer:
    """Answers searches over HTTP, as an aiohttp application."""

    def __init__(
        self,
        corpora: Sequence[ServedIndex],
        *,
        kg: KgTool | None = None,
        reader: PageReader | None = None,
        limits: ServerLimits | None = None,
        callers: Callers | None = None,
    ) -> None:
        """`reader`: of pages of the web, where these may be opened. `callers`: None for those of a server that listens
        on loopback.
        """
        self.limits, self.figures = limits or ServerLimits(), ServerFigures()
        self._corpora = {each.name: each for each in corpora}
        self._kg, self._reader, self._callers = kg, reader, callers or Callers("127.0.0.1")
        self._kg_times = Times()
        self._kg_slots = asyncio.Semaphore(AT_ONCE)
        self._web_pages: Remembered[str, str] = Remembered(_PAGES_KEPT)

    def application(self) -> web.Application:
        """Return the aiohttp application, for one start of one server."""
        app = web.Application(client_max_size=self.limits.largest_body, middlewares=[self._guard])
        paths = {
            wire.RETRIEVE: self._retrieve,
            wire.SEARCH: self._search,
            wire.PAGES: self._search_pages,
            wire.OPEN: self._open,
            wire.FIND: self._find,
            wire.KG: self._search_kg,
        }
        for path, answer in paths.items():
            app.router.add_post(path, _reading(answer, self.limits.largest_reply))
        app.router.add_get(wire.HEALTH, self._health)
        app.router.add_get(wire.STATS, self._stats)
        return app

    @property
    def is_busy(self) -> bool:
        """Tell whether a search is running that cannot be interrupted."""
        return any(each.is_busy for each in self._corpora.values())

    # Errors and limits

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Whatever goes wrong becomes a status with one line, within the time limit."""
        problem = self._callers.problem_of(request.headers.getall("Host", ()), request.headers.getall("Origin", ()))
        if problem is not None:
            return self._describe(web.HTTPForbidden(reason=problem))
        if request.path in (wire.HEALTH, wire.STATS) and request.method == "GET":
            return await handler(request)
        response: web.StreamResponse | None = None
        with self.figures.request():
            try:
                async with asyncio.timeout(self.limits.timeout_s):
                    response = await handler(request)
                    await response.prepare(request)
                    await response.write_eof()
            except asyncio.CancelledError:
                self.figures.count("abandoned")  # whoever asked has gone
                raise
            except Exception as error:
                if response is None:
                    return self._describe(error)
                # Whoever asked does not read on, or has gone.
                self.figures.count("timed_out" if isinstance(error, TimeoutError) else "abandoned")
                if request.transport is not None:
                    request.transport.abort()
            return response

    def _describe(self, error: Exception) -> web.Response:
        headers: dict[str, str] = {}
        match error:
            case _Refusal():
                status, what = 429, "refused"
                usual_s = max((each.times.usual_s for each in self._corpora.values()), default=0.0)
                wait_s = self.figures.waiting * usual_s / AT_ONCE
                headers["Retry-After"] = str(min(_LONGEST_WAIT_S, max(1, math.ceil(wait_s))))
            case TimeoutError():
                status, what = 504, "timed_out"
                error = TimeoutError(f"no answer within {self.limits.timeout_s:g} s")
            case web.HTTPRequestEntityTooLarge():
                status, what = error.status, "refused"
                error = InvalidInput(
                    f"the request is larger than {self.limits.largest_body} bytes; send fewer queries at a time"
                )
            case web.HTTPException():
                status, what = error.status, "refused"
            case _NotServed() | NoSuchPage():
                status, what = 404, "refused"
            case InvalidInput():
                status, what = 400, "refused"
            case RetrievalError():  # which comes again, unlike what a gateway's status says
                status, what = 424, "failed"
            case ProviderError():
                status, what = 502, "failed"
            case _:
                status, what = 500, "failed"
        self.figures.count(what)
        line = " ".join(str(error).split()) or type(error).__name__
        if what == "failed":
            self.figures.last_error = f"{type(error).__name__}: {line}"
        problem = {"error": line} | ({"reason": error.reason} if isinstance(error, NoSuchPage) else {})
        return web.json_response(problem, status=status, headers=headers)

    @contextmanager
    def _admitted(self, queries: int) -> Iterator[None]:
        """Count them as waiting. Raises `_Refusal` when too many do; one request alone is always taken."""
        if self.figures.waiting and self.figures.waiting + queries > self.limits.queue:
            raise _Refusal(f"{self.figures.waiting} queries wait already; come back later")
        self.figures.waiting += queries
        try:
            yield
        finally:
            self.figures.waiting -= queries

    # Passages

    async def _retrieve(self, asked: Asked) -> bytes:
        """As Search-R1's server: documents with scores, or bare."""
        with_scores, with_details = asked.flag("return_scores"), asked.flag(wire.DETAILS)

        def encode(found: list[FoundPassage]) -> bytes:
            return wire.encode_json(wire.detailed_rows(found) if with_details else wire.plain_rows(found, with_scores))

        return b'{"result":[' + b",".join(await self._find_all(asked, encode)) + b"]}"

    async def _search(self, asked: Asked) -> bytes:
        """As Graph-R1's server: for each query JSON as a text."""
        texts = await self._find_all(asked, lambda found: wire.encode_json(wire.knowledge_rows(found)))
        return wire.encode_json([text.decode("utf-8") for text in texts])

    async def _find_all(self, asked: Asked, encode: Callable[[list[FoundPassage]], bytes]) -> list[bytes]:
        """What all queries of a request find, encoded. A request searches only as many at once as are worth it, so that
        a large one lets others come between.
        """
        queries, k = asked.texts("queries", self.limits.queue), asked.number("topk", self.limits.k, MOST_K)
        if len(queries) * k > self.limits.passages:
            most = f"at most {self.limits.passages} passages in a request: send several"
            raise InvalidInput(f"{len(queries)} queries of {k} passages each; {most}", field="topk")
        served = self._corpus(asked)
        places, results, room = iter(enumerate(queries)), [b""] * len(queries), self.limits.largest_reply

        async def work() -> None:
            nonlocal room
            for place, query in places:
                results[place] = encode(await served.find(query, k))
                room -= len(results[place])
                if room < 0:
                    raise _too_large(self.limits.largest_reply)

        with self._admitted(len(queries)):
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(served.width, len(queries))):
                        group.create_task(work())
            except ExceptionGroup as failed:
                raise failed.exceptions[0] from None
        return results

    def _corpus(self, asked: Asked) -> ServedIndex:
        name = asked.text("corpus", "")
        if not self._corpora:
            raise _NotServed("no corpus is served here: begin serve-search with the folder of an index")
        if name and name not in self._corpora:
            raise _NotServed(f"no corpus {name!r} is served here; there are {', '.join(self._corpora)}")
        return self._corpora[name] if name else next(iter(self._corpora.values()))

    # Pages

    async def _search_pages(self, asked: Asked) -> bytes:
        query, k = asked.text("query"), asked.number("topk", self.limits.k, MOST_K)
        served = self._corpus(asked)

        async def retrieve(query: str, k: int) -> list[Passage]:
            return attach_sources(await served.find(query, k), dict)

        with self._admitted(1), served.files.reading():
            hits = await search_pages(retrieve, served.pages, query, k)
        return wire.encode_json(asdict(PageHits(hits=tuple(hits))))

    async def _open(self, asked: Asked) -> bytes:
        page, number = await self._page(asked), asked.said_number("part", _MOST_PARTS)
        return wire.encode_json(asdict(await asyncio.to_thread(page.part, number)))

    async def _find(self, asked: Asked) -> bytes:
        page, words = await self._page(asked), asked.text("text")
        return wire.encode_json(asdict(await asyncio.to_thread(page.find, words)))

    async def _page(self, asked: Asked) -> OpenedPage:
        name, words = asked.text("page"), asked.said_number("words", _MOST_PART_WORDS)
        with self._admitted(1):
            if site_of(name) and self._reader is not None:
                return OpenedPage(name, "", await self._web_text(name, self._reader), words or PART_WORDS)
            served = self._corpus(asked)
            if served.pages is None:
                raise NoSuchPage(f"there is no page {name[:200]!r}: {served.name} has no pages to open")
            async with served.slots:
                with served.files.reading():
                    return await asyncio.to_thread(served.pages.find, name, words)

    async def _web_text(self, url: str, reader: PageReader) -> str:
        if (text := self._web_pages.get(url)) is None:
            text = await reader.text(url)
            self._web_pages.keep(url, text, getsizeof(url) + getsizeof(text))
        return text

    # The graph

    async def _search_kg(self, asked: Asked) -> bytes:
        if self._kg is None:
            raise _NotServed("no knowledge graph is served here")
        mentions = asked.texts("entities", _MOST_MENTIONS)
        relations = asked.texts("relations", _MOST_MENTIONS, is_needed=False)
        query = asked.text("query", "")
        with self._admitted(1), self._kg_times.around():
            async with self._kg_slots:
                found = await asyncio.to_thread(self._kg.search, mentions, relations, query)
        return wire.encode_json(asdict(found))

    # What it is and does

    async def _health(self, request: web.Request) -> web.Response:
        corpora = {
            each.name: {"backend": each.backend, "passages": len(each.documents)}
            | ({"hash": each.content_hash} if each.content_hash else {})
            for each in self._corpora.values()
        }
        served: dict[str, Any] = {"status": "ok", "corpora": corpora, "k": self.limits.k}
        return web.json_response({**served, "kg": self._kg is not None, "web_pages": self._reader is not None})

    async def _stats(self, request: web.Request) -> web.Response:
        corpora = {
            each.name: {"queries": each.hits + each.searches, "cache_hits": each.hits, "ms": each.times.report()}
            for each in self._corpora.values()
        }
        graph = {"kg": {"ms": self._kg_times.report()}} if self._kg is not None else {}
        queries = sum(each["queries"] for each in corpora.values())
        return web.json_response({**self.figures.report(), "queries": queries, "corpora": corpora, **graph})


def _reading(
    answer: Callable[[Asked], Awaitable[bytes]], largest: int
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        # Browsers send other types wherever a page tells them to, and ask us first before they send this one.
        if not (request.content_type == "application/json" or request.content_type.endswith("+json")):
            raise web.HTTPUnsupportedMediaType(reason="the body has to be of the type application/json")
        body = await answer(Asked(await request.read()))
        if len(body) > largest:
            raise _too_large(largest)
        return web.Response(body=body, content_type="application/json")

    return handle


def _too_large(most: int) -> InvalidInput:
    return InvalidInput(f"the answer is larger than {most} bytes; ask for less in a request")


def make_runner(server: SearchServer, grace_s: float = _GRACE_S) -> web.AppRunner:
    """Return the runner that listens for a server, once; silent connections are closed."""
    return web.AppRunner(
        server.application(),
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=grace_s,
        handle_signals=False,
        keepalive_timeout=server.limits.idle_s,
        lingering_time=min(_GRACE_S, server.limits.idle_s),
    )


async def listen(server: SearchServer, host: str, port: int, *, tell: Callable[[str], None] = print) -> None:
    """Answer requests until SIGINT or SIGTERM; then finish what was asked, within `_GRACE_S` seconds, and accept
    nothing more. `port` 0 chooses a free one, which `tell` reports. Raises `InvalidInput` when it cannot listen there.
    """
    runner = make_runner(server)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, backlog=1024).start()
        except OSError as error:
            what = error.strerror or str(error)
            raise InvalidInput(f"cannot listen at {host}:{port} ({what}); give another --port or --host") from None
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        if not wire.is_loopback(host):
            tell(f"warning: whoever reaches this machine at {host} can search; nothing asks for a key")
        tell(f"ready: http://{_shown(host)}:{runner.addresses[0][1]}{wire.RETRIEVE}")
        await stopped.wait()
        for number in (signal.SIGINT, signal.SIGTERM):  # a second one does not wait
            asyncio.get_running_loop().remove_signal_handler(number)
        tell(f"stopping: {server.figures.in_flight} requests are finished first, for {_GRACE_S:g} s at most")
    finally:
        await runner.cleanup()


def _shown(host: str) -> str:
    if host in ("0.0.0.0", "::", ""):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
