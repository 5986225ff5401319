"""Facts of passages and the phrases that they join, as matrices by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trailforge.retrieval.backends.graph import KnownNames, open_sparse, row_of, save_sparse, sparse
from trailforge.retrieval.backends.texts import MappedDocuments, write_texts
from trailforge.schemas import Document

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_FACTS = "facts.arrow"
_MATRICES = ("about", "facts_of", "stated", "held")


class StatedFact(NamedTuple):
    """That a passage states a fact."""

    passage: int
    """Its row."""
    text: str
    phrases: tuple[str, ...]
    """Keys of what it is about; of a triple subject and object."""


@dataclass(frozen=True, slots=True)
class FactTable:
    """The facts of a corpus by row, each once however many passages state it."""

    phrases: KnownNames
    facts: Sequence[Document]
    """Their texts, kept as those of a corpus are."""
    about: csr_array
    """1 where a fact is about a phrase, shape (facts, phrases)."""
    facts_of: csr_array
    """The same by phrase, shape (phrases, facts)."""
    stated: csr_array
    """How often, shape (facts, passages)."""
    held: csr_array
    """1 where a passage states a fact about a phrase, shape (passages, phrases)."""

    @classmethod
    def of(cls, statements: Iterable[StatedFact], passages: int) -> FactTable:
        """From what so many passages state; rows come in the order in which facts and phrases do."""
        phrases, facts = dict[str, int](), dict[tuple[str, frozenset[str]], int]()
        stated = Counter[tuple[int, int]]()
        for passage, text, about in statements:
            for phrase in about:
                phrases.setdefault(phrase, len(phrases))
            stated[facts.setdefault((text, frozenset(about)), len(facts)), passage] += 1
        places = [(row, phrases[phrase]) for (_, about), row in facts.items() for phrase in about]
        about = sparse(places, np.ones(len(places)), (len(facts), len(phrases)))
        often = sparse(list(stated), np.fromiter(stated.values(), float, len(stated)), (len(facts), passages))
        held = (often.T @ about).tocsr()
        held.data[:] = 1
        texts = [Document(id=str(row), title="", text=text) for row, (text, _) in enumerate(facts)]
        return cls(KnownNames(list(phrases)), texts, about, about.T.tocsr(), often, held)

    def save(self, folder: Path) -> None:
        """To files."""
        self.phrases.save(folder)
        write_texts(self.facts, folder / _FACTS)
        for name in _MATRICES:
            save_sparse(folder, name, getattr(self, name))

    @classmethod
    def open(cls, folder: Path) -> FactTable:
        """What `save` wrote, memory-mapped. Raises `RetrievalError` for what is not that."""
        facts = MappedDocuments.open(folder / _FACTS)
        return cls(KnownNames.open(folder), facts, *(open_sparse(folder, name) for name in _MATRICES))

    def statements(self) -> Iterator[StatedFact]:
        """What it was made of, but for those of a passage that say the same."""
        stating = self.stated.T.tocsr()
        for passage in range(stating.shape[0]):
            for fact in row_of(stating, passage)[0]:
                about: list[int] = row_of(self.about, fact)[0].tolist()
                yield StatedFact(passage, self.facts[fact].text, tuple(self.phrases.keys[row] for row in about))

    def edges(self, synonyms: csr_array) -> tuple[np.ndarray, np.ndarray]:
        """Of the graph, phrases before passages: shape (edges, 2), and weights.

        A fact weighs 1 for each of its phrases, shared among the others; a triple's two have all of it. As in the
        released code, what joins two phrases has an edge from each end, so that it counts twice beside the edge of
        passage and phrase, and being synonyms takes the place of sharing facts.
        """
        from scipy.sparse import diags_array

        others = np.maximum(self.about.sum(axis=1) - 1, 1)
        shared = (self.about.T @ diags_array(self.stated.sum(axis=1) / others) @ self.about).tocsr()
        shared = (shared - shared.multiply(synonyms > 0) + synonyms).tocoo()
        one, other = shared.coords
        is_pair = one != other
        passages, phrases = self.held.nonzero()
        pairs = np.stack([one[is_pair], other[is_pair]], 1), np.stack([passages + len(self.phrases.keys), phrases], 1)
        return np.concatenate(pairs), np.concatenate([shared.data[is_pair], np.ones(len(passages))])


def find_neighbours(matrix: np.ndarray, rows: Sequence[int], least: float, most: int) -> np.ndarray:
    """Rows of unit vectors with others whose cosine is `least` or more, the nearest `most` of each.

    Row, the other and the cosine: shape (pairs, 3), float64.
    """
    scores = matrix[list(rows)] @ matrix.T
    scores[np.arange(len(rows)), rows] = -1
    pairs: list[tuple[int, int, float]] = []
    for row, own in zip(rows, scores, strict=True):
        near = np.flatnonzero(own >= least)
        for at in near[np.argsort(-own[near], kind="stable")[:most]]:
            pairs.append((row, int(at), float(own[at])))
    return np.array(pairs, float).reshape(-1, 3)
