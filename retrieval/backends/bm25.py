"""Lexical retrieval (BM25 in Lucene's variant, by the bm25s package): no neural encoder, nothing to download."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from trailforge.retrieval.backends.declaration import Backend, FoundPassage, Workbench
from trailforge.retrieval.words import words_of
from trailforge.schemas import Document, Passage, RetrievalError

_NO_WORD = ""
"""Stands for the words of a document that has none: bm25s cannot index an empty list, and no query asks for it."""
_SEARCHED_AT_ONCE = 2_000
"""Documents that are searched within a tenth of a millisecond, less than another thread takes to come to it."""

_STRIPES = 64
"""Rows of a stripe, which lie far from each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bm25Config:
    """Lucene's numbers."""

    k1: float = 1.5
    b: float = 0.75


class Bm25Retriever:
    """BM25 over titles and texts; an `Index` and a `Retriever`."""

    def __init__(self, documents: Sequence[Document], config: Bm25Config = Bm25Config()) -> None:
        """Index the documents."""
        import bm25s

        self._documents = documents
        self._index: Any = bm25s.BM25(k1=config.k1, b=config.b)
        words = [words_of(f"{d.title} {d.text}") or [_NO_WORD] for d in documents]
        self._index.index(words, show_progress=False)

    @classmethod
    def open(cls, folder: Path, documents: Sequence[Document]) -> Bm25Retriever:
        """What `save` wrote, memory-mapped. Raises `RetrievalError` for what is not that."""
        import bm25s

        opened = cls.__new__(cls)
        opened._documents = documents
        try:
            opened._index = bm25s.BM25.load(str(folder / "bm25"), mmap=True)
        except (OSError, ValueError, KeyError) as error:
            raise RetrievalError(f"{folder} holds no BM25 index ({error}): build the index again") from error
        return opened

    def save(self, folder: Path) -> None:
        """See `Index`."""
        self._index.save(str(folder / "bm25"), show_progress=False)

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """See `Index`."""
        return await asyncio.to_thread(self._find, query, k)

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """See `base.Retriever`."""
        if len(self._documents) <= _SEARCHED_AT_ONCE:
            return self._search(query, k)
        return await asyncio.to_thread(self._search, query, k)

    def scores(self, query: str) -> np.ndarray:
        """Of all documents, shape (documents,), float32; 0: no word in common."""
        words = words_of(query)
        return self._index.get_scores(words) if words else np.zeros(len(self._documents), np.float32)

    def _find(self, query: str, k: int) -> list[FoundPassage]:
        asked = set(words_of(query))
        return [
            FoundPassage(passage=passage, why=_shared_words(asked, passage), sources=(passage.id,))
            for passage in self._search(query, k)
        ]

    def _search(self, query: str, k: int) -> list[Passage]:
        count = min(max(k, 0), len(self._documents))
        if not count:
            return []
        scores = self.scores(query)
        near = near_best(scores, count)
        rounded = {int(row): round(float(scores[row]), 6) for row in near}
        best = [row for row in sorted(rounded, key=lambda row: (-rounded[row], row))[:count] if rounded[row] > 0]
        others = (row for row in range(len(self._documents)) if rounded.get(row, 0.0) == 0.0)
        return [self._passage(row, rounded.get(row, 0.0)) for row in [*best, *islice(others, count - len(best))]]

    def _passage(self, row: int, score: float) -> Passage:
        document = self._documents[row]
        return Passage(id=document.id, title=document.title, text=document.text, score=score)


def near_best(scores: np.ndarray, count: int) -> np.ndarray:
    """Rows, rising, among which are the best `count` of scores from 0 on, and all that equal the last of these when
    they are rounded to 6 decimals; none whose score is 0.
    """
    least = _at_least(scores, count)
    near = np.flatnonzero(scores >= np.float32(least)) if least > 0 else np.flatnonzero(scores)
    if len(near) <= count:
        return near
    found = scores[near].astype(np.float64)
    # What is equal when rounded is 1e-6 apart at most.
    return near[found >= np.partition(found, -count)[-count] - 2e-6]


def _at_least(scores: np.ndarray, count: int) -> float:
    """What the best `count` have at least, or 0: so many stripes of the scores have their best there. Putting these in
    order instead of all scores, most of which are equal, is a small part of the work.
    """
    width = len(scores) // _STRIPES
    if width < count:
        return 0.0
    best = scores[: width * _STRIPES].reshape(_STRIPES, width).max(axis=0)
    return float(np.partition(best, -count)[-count]) * (1 - 1e-6) - 2e-6


def _shared_words(asked: set[str], passage: Passage) -> str:
    shared = sorted(asked & set(words_of(f"{passage.title} {passage.text}")))
    return f"shares {', '.join(shared)}" if shared else "shares no word"


async def _build(documents: Sequence[Document], config: Bm25Config, tools: Workbench) -> Bm25Retriever:
    return await asyncio.to_thread(Bm25Retriever, documents, config)


def _open(folder: Path, documents: Sequence[Document], config: Bm25Config, tools: Workbench) -> Bm25Retriever:
    return Bm25Retriever.open(folder, documents)


BACKEND = Backend(name="bm25", config=Bm25Config, build=_build, open=_open, needs_encoder=False)
