"""The command that puts indexes, a knowledge graph and the web behind HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trailforge.retrieval.kg import KgStore
    from trailforge.retrieval.service.searching import ServedIndex

_WEB_AT_ONCE = 16
"""Searches of the web, which wait for others' servers."""
SERVE_SEARCH_EPILOG = """Examples:\n
    trailforge serve-search indexes/wiki\n
    trailforge serve-search indexes/wiki news=indexes/2026 --kg kgs/wikidata5m --port 8000\n
    trailforge serve-search passages.jsonl             a file of passages, by BM25 in memory\n
    trailforge serve-search --web                      live pages by Tavily, and /open of any public page\n
    curl -s 127.0.0.1:8990/retrieve -d '{"queries": ["Who directed Metropolis?"], "topk": 3, "return_scores": true}'\n
    Search-R1's trainers are pointed at it by retriever.url=http://127.0.0.1:8990/retrieve; presets and commands of
    this package take http://127.0.0.1:8990 (of several corpora: …:8990/?corpus=news) in place of an index."""


def serve_search(
    indexes: Annotated[
        list[str] | None,
        typer.Argument(
            help="Folders that `trailforge index build` made, or files of passages. NAME=FOLDER names one; the first "
            "is searched where a request names none.",
            metavar="[NAME=]INDEX...",
        ),
    ] = None,
    kg: Annotated[Path | None, typer.Option(help="Folder of a knowledge graph, for /kg.")] = None,
    web: Annotated[
        bool, typer.Option("--web", help="Live pages as the corpus 'web' (TAVILY_API_KEY), and /open of any page.")
    ] = False,
    web_url: Annotated[str, typer.Option(help="A search that speaks as Tavily's, in its place.")] = "",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8990,
    host: Annotated[str, typer.Option(help="Address to listen at. Others than loopback open it to the network.")] = (
        "127.0.0.1"
    ),
    k: Annotated[int, typer.Option(min=1, help="Passages of a query that does not say how many.")] = 5,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds of a request, whatever it waits for.")] = 120.0,
    queue: Annotated[
        int, typer.Option(min=1, help="Queries that may wait; more get status 429 with Retry-After.")
    ] = 16_384,
    cached: Annotated[int, typer.Option(min=0, help="Queries of each index that are kept with their passages.")] = (
        10_000
    ),
    at_once: Annotated[
        int | None, typer.Option(min=1, help="Searches of an index beside each other. Default: one a core.")
    ] = None,
) -> None:
    """Search over HTTP, as Search-R1's retrieval server and more: /retrieve, /open, /find, /kg, /health, /stats."""
    from trailforge.retrieval.kg import KgTool
    from trailforge.retrieval.service.searching import AT_ONCE, RankedIndex, ServedIndex
    from trailforge.retrieval.service.server import SearchServer, ServerLimits, listen
    from trailforge.schemas import InvalidInput

    if not indexes and kg is None and not web:
        raise InvalidInput("nothing to serve: give an index, --kg or --web")

    async def run() -> None:
        names = _named(indexes or [])
        corpora = [_open(name, path, cached, at_once or AT_ONCE) for name, path in names.items()]
        reader = None
        if web:
            from trailforge.retrieval.scope import RetrievalConfig, open_web
            from trailforge.retrieval.web.pages import PageReader

            found = RankedIndex(open_web(RetrievalConfig(kind="web", web_url=web_url)), "the web")
            corpora.append(ServedIndex("web", found, backend="web", cached=cached, at_once=_WEB_AT_ONCE))
            reader = PageReader()
        graph = KgTool(_open_graph(kg)) if kg else None
        limits = ServerLimits(k=k, timeout_s=timeout, queue=queue)
        server = SearchServer(corpora, kg=graph, reader=reader, limits=limits)
        await listen(server, host, port, tell=_tell)
        if server.is_busy:  # its threads would be waited for
            sys.stdout.flush()
            os._exit(0)

    asyncio.run(run())


def _named(indexes: list[str]) -> dict[str, Path]:
    """Paths by name: the one that is given, else the file's or folder's own."""
    from trailforge.schemas import InvalidInput

    found: dict[str, Path] = {}
    for each in indexes:
        given, mark, path = each.partition("=")
        name, path = (given, Path(path)) if mark and "/" not in given else ("", Path(each))
        name = name or path.resolve().name.partition(".")[0]
        if not path.exists():
            raise InvalidInput("no such index; `trailforge index build` makes one", file=path)
        if name in found:
            raise InvalidInput(f"two indexes are called {name!r}: name them, as in wiki=indexes/a news=indexes/b")
        found[name] = path
    return found


def _open(name: str, path: Path, cached: int, at_once: int) -> ServedIndex:
    from trailforge.retrieval.backends.bm25 import Bm25Retriever
    from trailforge.retrieval.backends.store import open_index
    from trailforge.retrieval.corpus import read_corpus
    from trailforge.retrieval.service.searching import ServedIndex
    from trailforge.schemas import InvalidInput

    began = time.monotonic()
    _tell(f"opening {name}: {path}")
    if path.is_dir():
        opened = open_index(path)
        index, documents, backend = opened.index, opened.documents, opened.manifest.backend
    else:
        documents = list(read_corpus(path))
        if not documents:
            raise InvalidInput("holds no passages", file=path)
        index, backend = Bm25Retriever(documents), "bm25"
    _tell(f"opened {name}: {backend}, {len(documents):,} passages, {time.monotonic() - began:.1f} s")
    return ServedIndex(name, index, documents, backend=backend, cached=cached, at_once=at_once)


def _open_graph(folder: Path) -> KgStore:
    from trailforge.retrieval.kg import KgStore

    store = KgStore.open(folder)
    store.check_once()
    _tell(f"opened the graph {folder}: {store.stats.entities:,} entities, {store.stats.triples:,} triples")
    return store


def _tell(line: str) -> None:
    print(line, flush=True)


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("serve-search", epilog=SERVE_SEARCH_EPILOG)(serve_search)
