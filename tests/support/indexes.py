"""Indexes in folders, and a server of one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.retrieval.indexes.corpus import read_corpus
from trailforge.retrieval.indexes.store import OpenIndex, build_index
from trailforge.retrieval.scope import corpus_hash
from trailforge.retrieval.service.searching import ServedIndex
from trailforge.retrieval.service.server import SearchServer
from trailforge.schemas import Document


def save_index(
    corpus: Path | Sequence[Document], folder: Path, backend: str = "dense", config: Any = None, **of_encoder: str
) -> Path:
    """An index of a file of passages, or of documents. `of_encoder`: prefixes for the packaged encoder."""
    documents = read_corpus(corpus) if isinstance(corpus, Path) else corpus
    encoder = Encoder(**of_encoder) if of_encoder else None
    asyncio.run(build_index(documents, folder, backend, config, encoder=encoder))
    return folder


@contextmanager
def serving(index: OpenIndex, name: str = "wiki") -> Iterator[str]:
    """The address of a search server, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> web.AppRunner:
        backend, content_hash = index.manifest.backend, corpus_hash(index.folder)
        served = ServedIndex(name, index.index, index.documents, backend=backend, content_hash=content_hash)
        runner = web.AppRunner(SearchServer([served]).application(), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
