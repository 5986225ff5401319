"""Lexical retrieval (BM25 in Lucene's variant, by the bm25s package): no neural encoder, nothing to download."""

from __future__ import annotations

from collections.abc import Sequence

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
        scores = self._scores(words_of(query))
        best = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[: max(k, 0)]
        return [self._passage(row, scores[row]) for row in best]

    def _scores(self, words: list[str]) -> list[float]:
        if not words:
            return [0.0] * len(self._documents)
        return [round(float(score), 6) for score in self._index.get_scores(words)]

    def _passage(self, row: int, score: float) -> Passage:
        document = self._documents[row]
        return Passage(id=document.id, title=document.title, text=document.text, score=score)
