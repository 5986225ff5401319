"""The command that serves indexes, a knowledge graph and the web over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from trailforge.commands.options import (
    SERVED_MODEL,
    ModelServer,
    ServerModel,
    ServerParameters,
    ServerThoughts,
    ServerUrl,
    ThoughtsPlace,
    ask_server,
)
from trailforge.schemas import InvalidInput

if TYPE_CHECKING:
    from trailforge.inference import Asker
    from trailforge.retrieval.kg import KgTool
    from trailforge.retrieval.service import ServedIndex
    from trailforge.retrieval.web import PageReader

_WEB_AT_ONCE = 16
"""Searches of the web, which wait for others' servers."""
_AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        help="A further name of this server, as behind a proxy; pages of it may ask, too. '*': any. Repeatable.",
        metavar="NAME",
    ),
]
SERVE_SEARCH_EPILOG = """Examples:\n
    trailforge serve-search indexes/wiki\n
    trailforge serve-search indexes/wiki news=indexes/2026 --kg kgs/wikidata5m --port 8000\n
    trailforge serve-search passages.jsonl             a file of passages, by BM25 in memory\n
    trailforge serve-search --web                      live pages by Tavily, and /open of any public page\n
    curl -s 127.0.0.1:8990/retrieve --json '{"queries": ["Who directed Metropolis?"], "topk": 3}'\n
    Search-R1's trainers are pointed at it by retriever.url=http://127.0.0.1:8990/retrieve; presets and commands of
    this package take http://127.0.0.1:8990 (of several corpora: …:8990/?corpus=news) in place of an index."""


_Web = Annotated[bool, typer.Option("--web", help="Live pages as the corpus 'web', and /open of any page.")]
_WebProvider = Annotated[
    str, typer.Option(help="With --web: tavily, serper, zhipu, searxng, or a YAML file that describes a search.")
]
_WebUrl = Annotated[str, typer.Option(help="Its address, where that is not the provider's own.")]


def serve_search(
    indexes: Annotated[
        list[str] | None,
        typer.Argument(
            help="Folders that `trailforge index build` made, files of passages, or other servers. NAME=INDEX names "
            "one; the first is searched where a request names none.",
            metavar="[NAME=]INDEX...",
        ),
    ] = None,
    kg: Annotated[Path | None, typer.Option(help="Folder of a knowledge graph, for /kg.")] = None,
    web: _Web = False,
    web_provider: _WebProvider = "",
    web_url: _WebUrl = "",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8990,
    host: Annotated[str, typer.Option(help="Address to listen on. Any but loopback opens it to the network.")] = (
        "127.0.0.1"
    ),
    k: Annotated[int, typer.Option(min=1, help="Passages per query when the request does not say.")] = 5,
    timeout: Annotated[float, typer.Option(min=0.1, help="Time limit of a request in seconds.")] = 120.0,
    queue: Annotated[
        int, typer.Option(min=1, help="Queries that may wait; further ones get status 429 with Retry-After.")
    ] = 16_384,
    cached: Annotated[int, typer.Option(min=0, help="MiB of passages cached per index; 0 caches none.")] = 64,
    at_once: Annotated[
        int | None, typer.Option(min=1, help="Concurrent searches per index. Default: one per core.")
    ] = None,
    model: ServerUrl = None,
    model_name: ServerModel = SERVED_MODEL,
    reasoning: ServerThoughts = ThoughtsPlace.SEPARATE,
    parameters: ServerParameters = "",
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="Encode each query alone, so that scores are equal to the last digit.")
    ] = False,
    allow_host: _AllowHost = None,
) -> None:
    """Serve search over HTTP, as Search-R1's retrieval server does: /retrieve, /open, /find, /kg, /health, /stats."""
    from trailforge.retrieval.service import AT_ONCE, Callers, SearchServer, ServerLimits, listen

    if not indexes and kg is None and not web:
        raise InvalidInput("nothing to serve: give an index, --kg or --web")
    named, limits = _by_name(indexes or []), ServerLimits(k=k, timeout_s=timeout, queue=queue)
    options: dict[str, Any] = {"cached": cached << 20, "at_once": at_once or AT_ONCE, "is_together": not one_by_one}
    model_server = ModelServer.of(model, model_name, reasoning, "", seed=0, parameters=parameters)

    async def run() -> None:
        async with _open_corpora(named, model_server, options) as corpora:
            found, reader = _open_web(web_provider, web_url, cached << 20) if web else (None, None)
            graph = _open_graph(kg) if kg else None
            callers = Callers(host, allow_host or ())
            served = [*corpora, *filter(None, [found])]
            server = SearchServer(served, kg=graph, reader=reader, limits=limits, callers=callers)
            await listen(server, host, port, tell=_print_line)
        if server.is_busy:  # its threads would be waited for
            sys.stdout.flush()
            os._exit(0)

    asyncio.run(run())


@contextlib.asynccontextmanager
async def _open_corpora(
    named: Mapping[str, str], model: ModelServer | None, options: Mapping[str, Any]
) -> AsyncIterator[list[ServedIndex]]:
    """All of them, with who asks the model for each index."""
    from trailforge.retrieval.service import is_address

    async with contextlib.AsyncExitStack() as stack:
        corpora = []
        for name, what in named.items():
            is_folder = not is_address(what) and Path(what).is_dir()
            asker = await stack.enter_async_context(ask_server(model if is_folder else None, Path(what)))
            corpora.append(_open_corpus(name, what, asker, options))
        yield corpora


def _open_corpus(name: str, what: str, asker: Asker | None, options: Mapping[str, Any]) -> ServedIndex:
    from trailforge.retrieval import corpus_hash
    from trailforge.retrieval.service import ServedIndex, is_address

    began = time.monotonic()
    _print_line(f"opening {name}: {what}")
    served = _open(what, asker)
    content_hash = "" if is_address(what) else corpus_hash(Path(what))
    number = len(served.get("documents", ()))
    _print_line(f"opened {name}: {served['backend']}, {number:,} passages, {time.monotonic() - began:.1f} s")
    return ServedIndex(name, content_hash=content_hash, **served, **options)


def _by_name(indexes: list[str]) -> dict[str, str]:
    """What to open, by name: the one that is given, else the folder's, the file's or the server's own."""
    from trailforge.inference.provider import check_server_url
    from trailforge.retrieval.service import NO_KEY, is_address
    from trailforge.schemas import InvalidInput

    found: dict[str, str] = {}
    for each in indexes:
        check_server_url(each, None, NO_KEY)
        name, mark, what = each.partition("=")
        if not mark or "/" in name:  # an `=` of a path or an address
            name, what = "", each
        check_server_url(what, None, NO_KEY)
        if is_address(what):
            name = name or urlsplit(what).hostname or what
        elif not Path(what).exists():
            raise InvalidInput("no such index; `trailforge index build` makes one", file=what)
        else:
            name = name or Path(what).resolve().name.partition(".")[0]
        if name in found:
            raise InvalidInput(f"two indexes are called {name!r}: name them, as in wiki=indexes/a news=indexes/b")
        found[name] = what
    return found


def _open(what: str, asker: Asker | None) -> dict[str, Any]:
    """An index, its documents, how it searches, its pages and its files, as `ServedIndex` takes them."""
    from trailforge.retrieval.backends import Bm25Retriever
    from trailforge.retrieval.indexes import open_index, read_corpus
    from trailforge.retrieval.service import connect, is_address
    from trailforge.schemas import InvalidInput

    if is_address(what):
        return {"index": connect(what), "backend": "server"}
    if Path(what).is_dir():
        opened = open_index(Path(what), asker=asker)
        found = {"index": opened.index, "documents": opened.documents, "backend": opened.manifest.backend}
        return {**found, "pages": opened.pages, "files": opened.files}
    documents = list(read_corpus(Path(what)))
    if not documents:
        raise InvalidInput(
            "holds no passages to search; give an index (`trailforge index build`), or a file of passages", file=what
        )
    return {"index": Bm25Retriever(documents), "documents": documents, "backend": "bm25"}


def _open_graph(folder: Path) -> KgTool:
    from trailforge.retrieval.kg import KgStore, KgTool

    store = KgStore.open(folder)
    store.check_once()
    _print_line(f"opened the graph {folder}: {store.stats.entities:,} entities, {store.stats.triples:,} triples")
    return KgTool(store)


def _open_web(provider: str, url: str, cached: int) -> tuple[ServedIndex, PageReader]:
    from trailforge.retrieval import RetrieverConfig, open_web
    from trailforge.retrieval.service import RankedIndex, ServedIndex
    from trailforge.retrieval.web import PageReader

    found = RankedIndex(open_web(RetrieverConfig(kind="web", web_provider=provider, web_url=url)), "the web")
    return ServedIndex("web", found, backend="web", cached=cached, at_once=_WEB_AT_ONCE), PageReader()


def _print_line(line: str) -> None:
    print(line, flush=True)


def register(root: typer.Typer) -> None:
    """Add the command `serve-search`."""
    root.command("serve-search", epilog=SERVE_SEARCH_EPILOG)(serve_search)
