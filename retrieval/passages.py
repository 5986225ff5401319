"""Long documents as passages, and a search that gives each document once, by its best passage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trailforge.retrieval.base import Retriever
from trailforge.retrieval.sentences import split_sentences
from trailforge.schemas import Passage

LONGEST_PASSAGE = 250
"""Words: most abstracts are shorter (of 1,831 of arXiv, 96 in 100), most news articles longer."""
_SPARE = 4


def passages_of(text: str, longest: int = LONGEST_PASSAGE) -> list[str]:
    """The text when it has at most so many words; else windows of whole sentences with at most so many.

    The last sentence of a window begins the next one where it fits, so that neighbours stand together somewhere. A
    sentence that is too long by itself is cut between words.
    """
    if len(text.split()) <= longest:
        return [text]
    windows: list[str] = []
    window: list[str] = []
    for sentence in (part for whole in split_sentences(text) for part in _cut_sentence(whole, longest)):
        if _words(*window, sentence) > longest:
            windows.append(" ".join(window))
            window = window[-1:] if _words(window[-1], sentence) <= longest else []
        window.append(sentence)
    return [*windows, " ".join(window)]


class BestPassages:
    """A retriever over documents by way of one over their passages."""

    def __init__(self, passages: Retriever, document_of: Mapping[str, str]) -> None:
        """`document_of`: id of each passage -> id of its document."""
        self._passages, self._document_of = passages, document_of

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """The best passage of each of the best `k` documents, under the document's id.

        A passage without a positive score has nothing in common with the query, and is not found.
        """
        width = k * _SPARE
        while True:
            found = await self._passages.retrieve(query, width)
            best: dict[str, Passage] = {}
            for passage in found:
                if passage.score > 0:
                    document = self._document_of[passage.id]
                    best.setdefault(document, replace(passage, id=document))
            if len(best) >= k or len(found) < width or found[-1].score <= 0:
                return list(best.values())[:k]
            width *= _SPARE


def _cut_sentence(sentence: str, longest: int) -> list[str]:
    words = sentence.split()
    if len(words) <= longest:
        return [sentence]
    return [" ".join(words[start : start + longest]) for start in range(0, len(words), longest)]


def _words(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)
