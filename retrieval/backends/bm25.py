"""Lexical retrieval (BM25 in Lucene's variant, by the bm25s package): no neural encoder, nothing to download."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trailforge.retrieval.backends.declaration import SEARCHED_AT_ONCE, Backend, FoundPassage, Workbench, passage_of
from trailforge.retrieval.words import words_of
from trailforge.schemas import Document, Passage, RetrievalError

_NO_WORD = ""
"""Stands for the words of a document that has none: it counts as one in lengths, and no query asks for it."""
_STRIPES = 64
"""Rows of a stripe, which lie far from each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bm25Config:
    """Parameters of BM25, by default Lucene's."""

    k1: float = 1.5
    b: float = 0.75


class Bm25Retriever:
    """A BM25 index over titles and texts, which is also a `Retriever`. It does not find passages that share no word
    with the query.
    """

    def __init__(self, documents: Sequence[Document], config: Bm25Config = Bm25Config()) -> None:
        self._documents = documents
        self._index = _index(documents, config)

    @classmethod
    def open(cls, folder: Path, documents: Sequence[Document]) -> Bm25Retriever:
        """Open the files that `save` wrote, memory-mapped. Raises `RetrievalError` for other files."""
        import bm25s

        opened = cls.__new__(cls)
        opened._documents = documents
        try:
            opened._index = bm25s.BM25.load(str(folder / "bm25"), mmap=True)
        except (OSError, ValueError, KeyError) as error:
            raise RetrievalError(f"{folder} holds no BM25 index ({error}): build the index again") from error
        return opened

    def save(self, folder: Path) -> None:
        """Write the index into a folder; see `Index.save`."""
        self._index.save(str(folder / "bm25"), show_progress=False)

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the best `k` passages with reasons; see `Index.find`."""
        return await asyncio.to_thread(self._find, query, k)

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Return the best `k` passages; see `base.Retriever.retrieve`."""
        if len(self._documents) <= SEARCHED_AT_ONCE:
            return self._search(query, k)
        return await asyncio.to_thread(self._search, query, k)

    def scores(self, query: str) -> np.ndarray:
        """Return the scores of all documents, shape (documents,), float32; a score is 0 where no word is in common."""
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
        rounded = {int(row): round(float(scores[row]), 6) for row in near_best(scores, count)}
        best = [row for row in sorted(rounded, key=lambda row: (-rounded[row], row)) if rounded[row] > 0]
        return [passage_of(self._documents[row], rounded[row]) for row in best[:count]]


def near_best(scores: np.ndarray, count: int) -> np.ndarray:
    """Return ascending rows that include the best `count` of non-negative scores and all that equal the last of these
    when rounded to 6 decimals; rows with score 0 are left out.
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


def _index(documents: Sequence[Document], config: Bm25Config) -> Any:
    """An index of bm25s with the scores that its own `index` gives, which holds each word of each text as a text."""
    import bm25s

    vocabulary: dict[str, int] = {}
    words, lengths = array("i"), array("i")
    for document in documents:
        found = words_of(f"{document.title} {document.text}") or [_NO_WORD]
        words.extend([vocabulary.setdefault(word, len(vocabulary)) for word in found])
        lengths.append(len(found))
    index: Any = bm25s.BM25(k1=config.k1, b=config.b)
    index.vocab_dict = vocabulary
    index.unique_token_ids_set = set(vocabulary.values())
    index.nonoccurrence_array = None
    index.scores = _score_words(np.asarray(words), np.asarray(lengths), len(vocabulary), config)
    return index


def _score_words(words: np.ndarray, lengths: np.ndarray, size: int, config: Bm25Config) -> dict[str, Any]:
    """Lucene's scores by word and document, as bm25s keeps them: compressed columns, one for each word.

    `words`: numbers of the words of all documents, one document after the other; `lengths`: words of each.
    """
    rows = len(lengths)
    if not rows:
        nothing = np.zeros(0, np.float32)
        return {"data": nothing, "indices": nothing.astype(np.int32), "indptr": np.zeros(1, np.int64), "num_docs": 0}
    places = words.astype(np.int64)
    places *= rows
    places += np.repeat(np.arange(rows), lengths)
    places.sort()
    starts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
    times = np.diff(starts, append=len(places)).astype(np.float32)
    columns, documents = np.divmod(places[starts], rows)
    del places, starts  # of a large corpus each is a gigabyte
    holders = np.bincount(columns, minlength=size)
    rarities = {count: math.log(1 + (rows - count + 0.5) / (count + 0.5)) for count in np.unique(holders).tolist()}
    rarity = np.array([rarities[count] for count in holders.tolist()], np.float32)
    length = config.k1 * ((1 - config.b) + config.b * lengths / lengths.mean())
    scores = length[documents]
    scores += times
    np.divide(times, scores, out=scores)
    scores *= rarity[columns]
    return {
        "data": scores.astype(np.float32),
        "indices": documents.astype(np.int32),
        "indptr": np.concatenate([[0], np.cumsum(holders)]).astype(np.int64),
        "num_docs": rows,
    }


def _shared_words(asked: set[str], passage: Passage) -> str:
    return f"shares {', '.join(sorted(asked & set(words_of(f'{passage.title} {passage.text}'))))}"


async def _build(documents: Sequence[Document], config: Bm25Config, tools: Workbench) -> Bm25Retriever:
    return await asyncio.to_thread(Bm25Retriever, documents, config)


def _open(folder: Path, documents: Sequence[Document], config: Bm25Config, tools: Workbench) -> Bm25Retriever:
    return Bm25Retriever.open(folder, documents)


BACKEND = Backend(name="bm25", config=Bm25Config, build=_build, open=_open, needs_encoder=False)
