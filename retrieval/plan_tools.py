"""The tools that a search plan names (R-Search, section 4.1): News, Academic, General.

Over the run's own documents by default: News searches what is of kind `news`, Academic what is of kind `academic`, and
General all of them, as the web holds the others too. A document is found by its best passage (`passages_of`), which is
shown behind the document's date: without it "on Friday" says nothing.
Over the web instead, as in the paper: GNews and Google News where that has too little, arXiv, Google.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from trailforge.retrieval.backends import BACKENDS, map_here
from trailforge.retrieval.backends.declaration import Item, Result, put_rows
from trailforge.retrieval.backends.vectors import embedded_text
from trailforge.retrieval.base import LazyRetriever, Retriever
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.retrieval.retrievers import WEB, RetrieverConfig, build_over, check_in_memory, open_encoder
from trailforge.retrieval.sentences import split_passages
from trailforge.schemas import Document, InvalidInput, Passage, SourceDocument, SourceKind

if TYPE_CHECKING:
    import numpy as np

Tools = Mapping[str, Retriever]
"""Retrievers by the tool name that a plan uses."""

_KINDS: dict[str, tuple[SourceKind, ...]] = {
    "News": ("news",),
    "Academic": ("academic",),
    "General": ("news", "academic", "general"),
}
_SPARE = 4
NOT_OF_PLANS = ("web_provider", "web_url", "web_pages")
"""Settings of web searches that plans do not use."""


def check_tools(config: RetrieverConfig) -> None:
    """Check that the tools can be opened, as far as that is possible without loading anything.

    The configuration must name a kind. It cannot be a server, which does not tell documents' kinds apart. Raises
    `InvalidInput` for another kind, for options that need a model, for settings that no plan uses, and for a missing
    API key, and `RetrievalError` for a missing package.
    """
    for name in NOT_OF_PLANS:
        if getattr(config, name):
            raise InvalidInput("plans search GNews, Google and arXiv, and read no pages: leave it out", field=name)
    if config.kind == WEB:
        check_web_keys(config)
    elif config.kind in BACKENDS:
        check_in_memory(config, config.kind)
    else:
        what = "a server does not tell news from papers" if config.kind else "nobody says how documents are searched"
        raise InvalidInput(f"{what}; plans search by {', '.join((*BACKENDS, WEB))}: say which", field="kind")


def open_tools(config: RetrieverConfig, documents: Sequence[SourceDocument]) -> Tools:
    """Open the configured tools; `documents` are ignored for the kind `web`.

    Raises what `check_tools` raises, and `RetrievalError` for a missing model.
    """
    check_tools(config)
    return web_tools(config) if config.kind == WEB else local_tools(documents, config)


def web_tools(config: RetrieverConfig) -> Tools:
    """Open the tools for live sources. Raises `InvalidInput` that names the environment variable of a missing key."""
    from trailforge.retrieval.web.http import HttpConfig
    from trailforge.retrieval.web.tools import arxiv_tool, news_tool, serper_tools

    longest = config.longest_web_passage
    check_web_keys(config)
    news, general = serper_tools(http=HttpConfig(interval_s=config.web_interval_s), longest=longest)
    if config.web_news == "gnews":  # few attempts, since another source stands behind it
        news = news_tool(news, http=HttpConfig(interval_s=config.web_interval_s, max_attempts=2), longest=longest)
    return {"News": news, "Academic": arxiv_tool(longest=longest), "General": general}


def check_web_keys(config: RetrieverConfig) -> None:
    """Raise `InvalidInput`, naming the environment variable, when a key that the web's tools need is not set."""
    from trailforge.retrieval.web.http import key_from
    from trailforge.retrieval.web.providers import GNEWS_KEY, SERPER_KEY

    key_from(SERPER_KEY, "Serper")
    if config.web_news == "gnews":
        try:
            key_from(GNEWS_KEY, "GNews")
        except InvalidInput as error:
            raise InvalidInput(f"{error.problem}, or take News from Google alone (web_news: serper)") from None


def local_tools(documents: Sequence[SourceDocument], config: RetrieverConfig, encoder: Encoder | None = None) -> Tools:
    """Open tools over these documents, by a back end. Each is indexed by its first search.

    `encoder`: the configured one, where it is open already. A tool without documents finds nothing.
    """
    corpus = _Corpus(documents, config, encoder or open_encoder(config, config.kind))
    return {name: LazyRetriever(lambda kinds=kinds: corpus.over(kinds)) for name, kinds in _KINDS.items()}


class _Nothing:
    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Nothing."""
        return []


class _Piece(NamedTuple):
    passage: Document
    home: SourceDocument


class _Corpus:
    """Documents as passages, cut and embedded once for all tools."""

    def __init__(self, documents: Sequence[SourceDocument], config: RetrieverConfig, encoder: Encoder | None) -> None:
        self._documents, self._config, self._encoder = documents, config, encoder
        self._lock = asyncio.Lock()
        self._pieces: list[_Piece] | None = None
        self._rows: dict[str, int] = {}
        """Of what is embedded of each piece, in `_vectors`."""
        self._vectors: np.ndarray | None = None
        """Of all pieces; None before the first search that wants one."""

    async def over(self, kinds: Sequence[SourceKind]) -> Retriever:
        """A retriever over the documents of these kinds."""
        async with self._lock:
            if self._pieces is None:
                self._pieces = await asyncio.to_thread(_cut, self._documents, self._config.longest_passage)
            chosen = [piece for piece in self._pieces if piece.home.kind in kinds]
            if not chosen:
                return _Nothing()
            passages = [piece.passage for piece in chosen]
            found = await build_over(passages, self._config, self._config.kind, self._encoder, self._map)
            return BestPassages(found, {piece.passage.id: piece.home for piece in chosen})

    async def _map(
        self,
        name: str,
        work: Callable[[Sequence[Item]], Awaitable[Result]],
        items: Sequence[Item],
        per_shard: int,
        into: np.ndarray | None = None,
    ) -> list[Result]:
        """A `ShardMap` that has pieces embedded all at once, for the tool that comes first and for the others."""
        encoder = self._encoder
        if encoder is None or work != encoder.documents:
            return await map_here(name, work, items, per_shard, into)
        if self._vectors is None:
            texts = [embedded_text(piece.passage) for piece in self._pieces or ()]
            self._rows = {text: row for row, text in enumerate(texts)}
            self._vectors = await encoder.documents(texts)
        rows = [self._rows[str(item)] for item in items if str(item) in self._rows]
        if len(rows) < len(items):  # other texts than those of pieces
            return await map_here(name, work, items, per_shard, into)
        found: Any = self._vectors[rows]
        if into is not None:
            put_rows(into, found)
            return []
        return [found[start : start + per_shard] for start in range(0, len(rows), per_shard)]


def _cut(documents: Sequence[SourceDocument], longest: int) -> list[_Piece]:
    return [
        _Piece(Document(id=f"{document.id} {number}", title=document.title, text=text), document)
        for document in documents
        for number, text in enumerate(split_passages(document.text, longest))
    ]


class BestPassages:
    """A retriever over documents that searches their passages."""

    def __init__(self, passages: Retriever, home_of: Mapping[str, SourceDocument]) -> None:
        """`home_of`: id of each passage -> its document."""
        self._passages, self._home_of = passages, home_of

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Return the best passage of each of the best `k` documents, under the document's id and behind its date.

        A passage without a positive score has nothing in common with the query, and is not found.
        """
        width = k * _SPARE
        while True:
            found = await self._passages.retrieve(query, width)
            best: dict[str, Passage] = {}
            for passage in found:
                if passage.score > 0:
                    home = self._home_of[passage.id]
                    best.setdefault(home.id, replace(passage, id=home.id, text=_dated(passage.text, home)))
            if len(best) >= k or len(found) < width or found[-1].score <= 0:
                return list(best.values())[:k]
            width *= _SPARE


def _dated(text: str, document: SourceDocument) -> str:
    return f"{document.published[:10]}: {text}" if document.published else text
