"""How well a bundle holds together, how large bundles are, and what a bundle is about."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from trailforge.generators.document_bundles.bundling.config import Bundling
from trailforge.generators.document_bundles.bundling.content import COMMON_WORDS
from trailforge.retrieval.words import words_of

_FEWEST_LETTERS = 3
_SAY_NOTHING = frozenset().union(*COMMON_WORDS.values())


def cohesion(vectors: np.ndarray) -> float:
    """Mean cosine over all pairs of a bundle's vectors, shape (k, d), k at least 2, length 1."""
    count = len(vectors)
    total = vectors.sum(axis=0, dtype=np.float64)
    own = np.einsum("kd,kd->", vectors, vectors, dtype=np.float64)
    return float((total @ total - own) / (count * (count - 1)))


def size_counts(bundling: Bundling) -> dict[int, int]:
    """How many bundles have two, three and four documents."""
    return dict(sorted(Counter(map(len, bundling.bundles)).items()))


def document_frequencies(texts: Iterable[str]) -> Counter[str]:
    """In how many of the texts each word stands; counters of parts add up."""
    return Counter(word for text in texts for word in set(words_of(text)))


def theme_words(texts: Sequence[str], frequencies: Mapping[str, int], documents: int, count: int = 5) -> list[str]:
    """Words that the bundle's texts share and others rarely have, the most telling first: a class-based tf-idf.

    The bundle is one class. A word of at least two of its texts weighs its mean share of a text's words, times the
    share of the texts that have it, times ln(`documents` / its document frequency). `frequencies`: of all documents,
    by `document_frequencies`.
    """
    counts = [Counter(words_of(text)) for text in texts]
    held_by = Counter(word for each in counts for word in each)

    def weight(word: str) -> float:
        share = sum(each[word] / each.total() for each in counts if each) / len(counts)
        return share * held_by[word] / len(counts) * math.log(documents / max(frequencies.get(word, 1), 1))

    telling = [word for word, held in held_by.items() if held >= 2 and _says_something(word)]
    return sorted(telling, key=lambda word: (-weight(word), word))[:count]


def _says_something(word: str) -> bool:
    return len(word) >= _FEWEST_LETTERS and word.isalpha() and word not in _SAY_NOTHING
