"""Lexical retrieval (BM25, by the bm25s package): no neural encoder, nothing to download."""

from __future__ import annotations

import re
from collections.abc import Sequence

from schemas import Document, Passage

_WORD = re.compile(r"\w+")


class Bm25Retriever:
    """BM25 over titles and texts."""

    def __init__(self, documents: Sequence[Document]) -> None:
        import bm25s

        self._documents = tuple(documents)
        self._index = bm25s.BM25()
        words = [_words(f"{d.title} {d.text}") or [""] for d in documents]
        self._index.index(words, show_progress=False)

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """See `base.Retriever`."""
        scores = self._index.get_scores(_words(query) or [""]).tolist()
        best = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:k]
        return [self._passage(row, scores[row]) for row in best]

    def _passage(self, row: int, score: float) -> Passage:
        document = self._documents[row]
        return Passage(id=document.id, title=document.title, text=document.text, score=round(score, 6))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
