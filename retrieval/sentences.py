"""The sentences of passages that are nearest to a question: a short context for a small model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from retrieval.encoder import Encoder
from schemas import Passage

if TYPE_CHECKING:
    import numpy as np

Scored = tuple[float, Passage, str]

_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|Inc|Ltd|Co|Corp|No|vs|etc|approx|ca|c|b|d|Gen|Col|Capt|Lt|Rev|Hon|Mt|Ft)"
    r"|\b[A-Z]|\b(?:[A-Za-z]\.)+[A-Za-z])\.$"
)
_WORD = re.compile(r"\w+")
_CACHED_PASSAGES = 4096


def split_sentences(text: str) -> list[str]:
    """Sentences by rule: a full stop, and a capital or a figure after it, but not after an abbreviation or an initial."""
    sentences: list[str] = []
    start = 0
    for end in _END.finditer(text):
        piece = text[start : end.start()]
        if not _ABBREVIATION.search(piece):
            sentences.append(text[start : end.end()].strip())
            start = end.end()
    rest = text[start:].strip()
    return [*sentences, rest] if rest else sentences


class SentenceReader:
    """Ranks sentences by cosine, or by shared words when there is no encoder."""

    def __init__(self, encoder: Encoder | None) -> None:
        self._encoder = encoder
        self._vectors: dict[tuple[str, str], np.ndarray] = {}

    async def best(self, query: str, passages: Sequence[Passage], n: int) -> list[tuple[Passage, str]]:
        """The `n` nearest sentences with their passages, nearest first; ties in reading order."""
        scored: list[Scored] = []
        for passage in passages:
            sentences = split_sentences(passage.text)
            scores = await self._scores(query, passage, sentences)
            scored += [(s, passage, sentence) for s, sentence in zip(scores, sentences, strict=True)]
        scored.sort(key=lambda item: -item[0])
        return [(passage, sentence) for _, passage, sentence in scored[:n]]

    async def _scores(self, query: str, passage: Passage, sentences: list[str]) -> list[float]:
        if not sentences:
            return []
        if self._encoder is None:
            return [_overlap(query, f"{passage.title} {sentence}") for sentence in sentences]
        vectors = await self._sentence_vectors(passage, sentences)
        return (vectors @ await self._encoder.query(query)).round(6).tolist()

    async def _sentence_vectors(self, passage: Passage, sentences: list[str]) -> np.ndarray:
        """A passage's sentences as one batch, always the same one: see `Encoder`."""
        assert self._encoder is not None
        key = (passage.title, passage.text)
        if key not in self._vectors:
            if len(self._vectors) >= _CACHED_PASSAGES:
                del self._vectors[next(iter(self._vectors))]
            titled = [f"{passage.title}. {sentence}" for sentence in sentences]
            self._vectors[key] = await self._encoder.documents(titled)
        return self._vectors[key]


def _overlap(query: str, text: str) -> float:
    asked = set(_WORD.findall(query.casefold()))
    return len(asked & set(_WORD.findall(text.casefold()))) / (len(asked) or 1)
