"""What is measured of documents by their words and vectors: how a bundle holds together, its theme, what can be asked.

A question over two documents starts from what both name, and asks for what only one of them says of it. Two reports of
one event that each say all of it carry no such question, however near they are; two on one programme or person, each
with figures and names of its own, do.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from trailforge.generators.document_bundles.bundling.config import Bundling
from trailforge.generators.document_bundles.bundling.content import COMMON_WORDS
from trailforge.retrieval.sentences import split_sentences
from trailforge.retrieval.words import words_of

_FEWEST_LETTERS = 3
_SAY_NOTHING = frozenset().union(*COMMON_WORDS.values())
_FIGURE = re.compile(r"\d")
_MOST_FACTS = 8
"""Facts of a document beside another that count: a long one is not better for being long."""


def cohesion(vectors: np.ndarray) -> float:
    """Mean cosine over all pairs of a bundle's vectors, shape (k, d), k at least 2, length 1."""
    count = len(vectors)
    total = vectors.sum(axis=0, dtype=np.float64)
    own = np.einsum("kd,kd->", vectors, vectors, dtype=np.float64)
    return float((total @ total - own) / (count * (count - 1)))


def size_counts(bundling: Bundling) -> dict[int, int]:
    """How many bundles have two, three and four documents."""
    return dict(sorted(Counter(map(len, bundling.bundles)).items()))


def word_frequencies(texts: Iterable[str]) -> Counter[str]:
    """In how many of the texts each word stands; counters of parts add up."""
    return Counter(word for text in texts for word in set(words_of(text)))


def theme_words(texts: Sequence[str], frequencies: Mapping[str, int], documents: int, count: int = 5) -> list[str]:
    """Words that the bundle's texts share and others rarely have, the most telling first: a class-based tf-idf.

    The bundle is one class. A word of at least two of its texts weighs its mean share of a text's words, times the
    share of the texts that have it, times ln(`documents` / its document frequency). `frequencies`: of all documents,
    by `word_frequencies`.
    """
    counts = [Counter(words_of(text)) for text in texts]
    held_by = Counter(word for each in counts for word in each)

    def weight(word: str) -> float:
        share = sum(each[word] / each.total() for each in counts if each) / len(counts)
        return share * held_by[word] / len(counts) * math.log(documents / max(frequencies.get(word, 1), 1))

    telling = [word for word, held in held_by.items() if held >= 2 and _is_specific(word)]
    return sorted(telling, key=lambda word: (-weight(word), word))[:count]


def _is_specific(word: str) -> bool:
    return len(word) >= _FEWEST_LETTERS and word.isalpha() and word not in _SAY_NOTHING


@dataclass(frozen=True, slots=True)
class ToldFacts:
    """A document as it is looked through for facts."""

    sentences: tuple[frozenset[str], ...]
    """The words of each."""
    words: frozenset[str]
    """Of the whole, its title included."""

    @classmethod
    def of(cls, title: str, text: str) -> ToldFacts:
        """Of a document's title and text."""
        sentences = tuple(frozenset(words_of(sentence)) for sentence in split_sentences(text))
        return cls(sentences, frozenset(words_of(title)).union(*sentences))

    def own(self, other: ToldFacts, shared: Sequence[Collection[str]], names: Collection[str]) -> int:
        """Sentences on something that both name, with a figure or a word of a name that the other lacks, 8 at most.

        `shared`: the words of each name that both have; `names`: all words of names, of any document.
        """
        told = (
            sentence
            for sentence in self.sentences
            if any(sentence.issuperset(name) for name in shared)
            and any(word in names or _FIGURE.search(word) for word in sentence - other.words)
        )
        return min(_MOST_FACTS, sum(1 for _ in told))


def count_askable(facts: Sequence[ToldFacts], shared: Sequence[Sequence[str]], names: Collection[str]) -> int:
    """The best pair's own facts, of the document that has fewer: 0 where one says all that another does, 8 at most.

    `shared`: the names of each pair of documents, in the order of `itertools.combinations`; `names`: as of
    `ToldFacts.own`.
    """
    best = 0
    for (first, second), both in zip(combinations(facts, 2), shared, strict=True):
        named = [frozenset(words_of(name)) for name in both]
        best = max(best, min(first.own(second, named, names), second.own(first, named, names)))
    return best
