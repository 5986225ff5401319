"""The client of a search server: ours, or one with the interface of Search-R1's.

    client = connect("http://127.0.0.1:8990")                 or .../?corpus=wiki, of a server with several
    passages = await client.retrieve("Who directed …?", 5)

A search ends within a time that is set, with passages or with `RetrievalError`, whatever becomes of the server.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from trailforge.inference import LoopThread
from trailforge.inference.provider import check_server_url, first_line, retry_after
from trailforge.retrieval.backends.declaration import FoundPassage, attach_sources
from trailforge.retrieval.base import Passing
from trailforge.retrieval.kg import KgResult
from trailforge.retrieval.page_tools import PageHit, PageHits, PagePart
from trailforge.retrieval.pages.text import FoundWords
from trailforge.retrieval.service import wire
from trailforge.schemas import InvalidInput, NoSuchPage, Passage, RetrievalError, SearchFailed, from_dict, parse_json

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

_PASSING = {408, 425, 429, 500, 502, 503, 504}
_LARGEST_REPLY = 1 << 28
_MOST_CONNECTIONS = 64
"""Open at once; more requests wait for one."""
_LONGEST_PAUSE_S = 5.0
NO_KEY = "as search servers are asked without one"
"""The mend for an address with a key in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchClientConfig:
    """How a search server is called: time limits and retries."""

    timeout_s: float = 30.0
    """Seconds allowed for one attempt."""
    limit_s: float = 60.0
    """Seconds allowed for a search with all its attempts and pauses."""
    backoff_s: float = 0.2
    """Seconds before the second attempt where the server names no time; doubles each time up to 5 s, with jitter."""
    is_check: bool = False
    """Whether to fail at once where nobody listens: before a run there is nothing to wait for."""

    def __post_init__(self) -> None:
        for name in ("timeout_s", "limit_s", "backoff_s"):
            if getattr(self, name) <= 0:
                raise InvalidInput("has to be above 0", field=name)


def connect(url: str, *, corpus: str = "", config: SearchClientConfig | None = None) -> SearchClient:
    """Return a client of a search server, which is a `Retriever`; nothing is sent yet, `SearchClient.health` checks
    that it answers.

    `url` is where it listens, with or without `/retrieve`; `?corpus=NAME` names one of several corpora. Raises
    `InvalidInput` for text that is no address, and for one that contains a key.
    """
    check_server_url(url, None, NO_KEY)
    if not _is_whole(url):
        raise InvalidInput(f"{url!r} is no address of a search server, as http://127.0.0.1:{wire.PORT} is")
    parts = urlsplit(url.strip())
    named = parse_qs(parts.query).get("corpus", [""])[0]
    path = parts.path.rstrip("/").removesuffix(wire.RETRIEVE)
    return SearchClient(f"{parts.scheme}://{parts.netloc}{path}", corpus or named, config or SearchClientConfig())


def is_address(text: str) -> bool:
    """Tell whether a text, which may otherwise name an index's folder, is a server's address."""
    return text.startswith(("http://", "https://"))


def _is_whole(url: str) -> bool:
    try:
        parts = urlsplit(url.strip())
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        return False


class SearchClient:
    """The client of a search server: a `Retriever`, and an `Index` that cannot be saved. It can be used from any number
    of threads and event loops.
    """

    def __init__(self, url: str, corpus: str, config: SearchClientConfig) -> None:
        """`url`: without a path of the server's. See `connect`."""
        self.url, self.corpus = url, corpus
        self._config = config

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Return the best `k` passages, as `base.Retriever.retrieve` does. Raises `RetrievalError` within the time
        limit.
        """
        return attach_sources(await self.find(query, k), dict)

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the best `k` passages with reasons, as `Index.find` does. Raises what `retrieve` raises."""
        return (await self.find_many([query], k))[0]

    async def find_many(self, queries: Sequence[str], k: int) -> list[list[FoundPassage]]:
        """Run `find` for several queries in one request. Raises what `retrieve` raises."""
        if k < 1 or not queries:
            return [[] for _ in queries]
        asked = {"queries": list(queries), "topk": k, "return_scores": True, wire.DETAILS: True}
        reply = await self._ask(wire.RETRIEVE, asked)
        rows = reply.get("result") if isinstance(reply, dict) else None
        if not isinstance(rows, list) or len(rows) != len(queries) or not all(isinstance(row, list) for row in rows):
            raise RetrievalError(
                f"{self.url}{wire.RETRIEVE}: what it answers is no result for {len(queries)} queries; "
                "is this a search server?"
            )
        try:
            return [wire.read_rows(row) for row in rows]
        except ValueError as error:
            raise RetrievalError(
                f"{self.url}{wire.RETRIEVE}: its answer holds {error}; is this a search server of this version?"
            ) from None

    async def search_pages(self, query: str, k: int) -> tuple[PageHit, ...]:
        """Return the best `k` passages with their pages. Raises what `retrieve` raises."""
        return (await self._record(PageHits, wire.PAGES, {"query": query, "topk": k})).hits if k > 0 else ()

    async def open_page(self, page: str, part: int | None = None) -> PagePart:
        """Return a part of a page, which is named by id, title or address; None is the first part, or that of the
        passage with this id. Raises what `retrieve` raises, and `NoSuchPage` with the server's message.
        """
        return await self._record(PagePart, wire.OPEN, {"page": page, "part": part})

    async def find_in_page(self, page: str, words: str) -> FoundWords:
        """Return where words occur in a page. Raises what `open_page` raises."""
        return await self._record(FoundWords, wire.FIND, {"page": page, "text": words})

    async def search_kg(self, mentions: Sequence[str], relations: Sequence[str] = (), query: str = "") -> KgResult:
        """Search the server's knowledge graph, as `KgTool.search` does. Raises what `retrieve` raises."""
        asked = {"entities": list(mentions), "relations": list(relations), "query": query}
        return await self._record(KgResult, wire.KG, asked)

    async def _record(self, record: type[T], path: str, asked: dict[str, Any]) -> T:
        try:
            return from_dict(record, await self._ask(path, asked))
        except InvalidInput as error:
            raise RetrievalError(
                f"{self.url}{path}: what it answers has another form than a search server's ({error}); "
                "is this one, of this version?"
            ) from None

    async def health(self) -> dict[str, Any]:
        """Return what the server reports of itself, above all its corpora. Raises `RetrievalError` when it does not
        answer.
        """
        reply = await self._ask(wire.HEALTH, None)
        if not isinstance(reply, dict):
            raise RetrievalError(
                f"{self.url}{wire.HEALTH}: what it answers is no JSON object; is this a search server?"
            )
        return reply

    async def _ask(self, path: str, asked: dict[str, Any] | None) -> Any:
        """POST, or GET where nothing is asked, until an answer comes or the time is over."""
        if asked is not None and self.corpus:
            asked["corpus"] = self.corpus
        body = None if asked is None else wire.encode_json(asked)
        line = _line()
        return await asyncio.wrap_future(line.soon(line.ask(f"{self.url}{path}", body, self._config)))


class _Line(LoopThread):
    """The thread that all clients of a process send from: a session lives on one loop, and agents have many."""

    def __init__(self) -> None:
        super().__init__("search")
        self.process = os.getpid()
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, url: str, body: bytes | None, config: SearchClientConfig) -> Any:
        """The JSON that comes. Raises `RetrievalError` for a refusal, and `SearchFailed` when the time is over."""
        clock = asyncio.get_running_loop().time
        began, attempts, failure = clock(), 0, Passing("no reply in time")
        try:
            async with asyncio.timeout(config.limit_s):
                while True:
                    attempts += 1
                    try:
                        return await self._attempt(url, body, config)
                    except Passing as passing:
                        failure = passing
                    left = began + config.limit_s - clock()
                    pause = _pause_s(attempts, failure, config)
                    if pause >= left or (failure.is_unreachable and config.is_check):
                        break
                    await asyncio.sleep(pause)
        except TimeoutError:
            pass
        spent = f"{attempts} attempt{'s' if attempts > 1 else ''} in {clock() - began:.1f} s"
        raise SearchFailed(f"{url}: {failure} ({spent}); is the search server up, and not overloaded?")

    async def _attempt(self, url: str, body: bytes | None, config: SearchClientConfig) -> Any:
        import aiohttp

        from trailforge.retrieval.web.http import read_up_to

        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_MOST_CONNECTIONS))
        options: dict[str, Any] = {"timeout": aiohttp.ClientTimeout(total=config.timeout_s), "allow_redirects": False}
        if body is not None:
            options |= {"data": body, "headers": {"Content-Type": "application/json"}}
        try:
            async with self._session.request("GET" if body is None else "POST", url, **options) as response:
                content = await read_up_to(response, _LARGEST_REPLY)
                status, wait_s = response.status, retry_after(response.headers)
        except TimeoutError:
            raise Passing("no reply in time") from None
        except aiohttp.InvalidURL:
            raise RetrievalError(f"{url}: this is no address of a server; give one as http://HOST:PORT") from None
        except (aiohttp.ClientError, OSError) as error:
            is_unreachable = isinstance(error, aiohttp.ClientConnectorError)
            raise Passing(first_line(str(error)) or type(error).__name__, is_unreachable=is_unreachable) from None
        if len(content) > _LARGEST_REPLY:
            raise RetrievalError(f"{url}: its answer is larger than {_LARGEST_REPLY >> 20} MiB; ask for less at a time")
        if status in _PASSING:
            raise Passing(f"status {status}{_message(content)}", wait_s)
        if status == 404 and (said := _page_missing(content)):
            raise NoSuchPage(said)
        if status != 200:
            raise RetrievalError(f"{url}: refused with status {status}{_message(content)}")
        try:
            return parse_json(content)
        except ValueError as error:
            raise RetrievalError(f"{url}: what it answers is no JSON ({error})") from None

    def close(self) -> None:
        """End sessions and loop, at the end of the process that began them."""
        if os.getpid() == self.process:
            self.end(self._close_session)

    async def _close_session(self) -> None:
        if self._session is not None:
            await self._session.close()


_opening = threading.Lock()
_lines: list[_Line] = []
"""The process's own, once somebody asks."""


def _line() -> _Line:
    with _opening:
        if not _lines:
            _lines.append(_Line())
            atexit.register(_lines[0].close)
        return _lines[0]


def _leave_to_parent() -> None:
    """A forked child, in which the thread does not live on, gets a line of its own. It must not take the parent's apart
    when it ends, either: they share what the sockets are watched by, and the parent would hear of no more replies.
    """
    global _opening
    _opening = threading.Lock()
    for line in _lines:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(line))
    _lines.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


def _pause_s(attempt: int, failure: Passing, config: SearchClientConfig) -> float:
    if failure.wait_s is not None:
        return failure.wait_s + random.random() * config.backoff_s
    return min(_LONGEST_PAUSE_S, config.backoff_s * 2 ** min(attempt - 1, 30)) * (0.5 + random.random() / 2)


def _page_missing(content: bytes) -> str:
    """What a server of ours says of a page that there is not; empty where it says something else."""
    try:
        problem = parse_json(content)
    except ValueError:
        return ""
    is_ours = isinstance(problem, dict) and problem.get("reason") == NoSuchPage.reason
    return first_line(str(problem.get("error"))) if is_ours else ""


def _message(content: bytes) -> str:
    """What an error's body says, in brackets; empty where it says nothing that can be read."""
    try:
        problem = parse_json(content)
    except ValueError:
        return ""
    said = (problem.get("error") or problem.get("detail")) if isinstance(problem, dict) else None
    return f" ({first_line(str(said))})" if said else ""
