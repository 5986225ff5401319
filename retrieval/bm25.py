"""Lexical retrieval (BM25 in Lucene's variant, by the bm25s package): no neural encoder, nothing to download."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trailforge.retrieval.words import words_of
from trailforge.schemas import Document, Passage

_NO_WORD = ""
"""Stands for the words of a document that has none: bm25s cannot index an empty list, and no query asks for it."""


class Bm25Retriever:
    """BM25 over titles and texts, held in memory."""

    def __init__(self, documents: Sequence[Document]) -> None:
        """Index the documents."""
        import bm25s

        self._documents = tuple(documents)
        self._index = bm25s.BM25()
        words = [words_of(f"{d.title} {d.text}") or [_NO_WORD] for d in documents]
        self._index.index(words, show_progress=False)

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """See `base.Retriever`."""
        count = min(max(k, 0), len(self._documents))
        if not count:
            return []
        words = words_of(query)
        scores = self._index.get_scores(words) if words else np.zeros(len(self._documents), np.float32)
        # Only what may be among the best is rounded and sorted: what is equal when rounded is 1e-6 apart at most.
        last = float(np.partition(scores, -count)[-count])
        near = np.flatnonzero(scores.astype(np.float64) >= last - 2e-6)
        rounded = {int(row): round(float(scores[row]), 6) for row in near}
        best = sorted(rounded, key=lambda row: (-rounded[row], row))[:count]
        return [self._passage(row, rounded[row]) for row in best]

    def _passage(self, row: int, score: float) -> Passage:
        document = self._documents[row]
        return Passage(id=document.id, title=document.title, text=document.text, score=score)
