"""What is measured of documents by their words and vectors: what joins two, how a bundle holds together, its theme."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from trailforge.generators.document_bundles.bundling.config import BundleConfig, Bundling
from trailforge.generators.document_bundles.bundling.content import COMMON_WORDS
from trailforge.retrieval.entities import CaseCounts, Name, document_frequencies, rarity
from trailforge.retrieval.words import words_of

_MOST_NAMES = 64
"""Of a document, those with the greatest weight."""
_ALWAYS_RARE = 10
"""A name in so many documents may join them, however few there are."""
_IN_PASSING = 0.5
"""Of a name that stands once."""


def name_weights(
    documents: Sequence[Sequence[Name]], config: BundleConfig, counts: CaseCounts
) -> list[dict[str, float]]:
    """For each document the names that it may be joined by, with weights: two share the sum of the products.

    A weight is the root of the name's rarity, half of it where the document names it in passing. What its title names
    is what it is about, and joins nothing: two reports on one thing tell the same, or each has alone what it tells;
    questions over both lead through what they name besides. (Of 78 bundles of three runs with a played model, 15 of the
    50 joined by such names gave a question that was kept, and 3 of the 28 others.) Neither does a field's word, by
    `counts`: texts on SQL speak of nothing in common.
    """
    total, frequencies = len(documents), document_frequencies(documents)
    most = max(_ALWAYS_RARE, config.max_name_share * total)
    return [
        {
            name.key: math.sqrt(rarity(name.key, frequencies, total)) * (1.0 if name.count > 1 else _IN_PASSING)
            for name in names
            if not name.is_in_title and 2 <= frequencies[name.key] <= most and not counts.is_field_word(name.text)
        }
        for names in documents
    ]


def name_arrays(documents: Sequence[Mapping[str, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and weights of the names, both of shape (documents, most names of one); see `Documents`."""
    chosen = [sorted(names.items(), key=lambda item: (-item[1], item[0]))[:_MOST_NAMES] for names in documents]
    numbers = {name: number for number, name in enumerate(sorted({name for names in chosen for name, _ in names}))}
    shape = (len(documents), max(map(len, chosen), default=0))
    numbered, weights = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
    for row, names in enumerate(chosen):
        for place, (name, weight) in enumerate(names):
            numbered[row, place], weights[row, place] = numbers[name], weight
    return numbered, weights


def shared_names(first: Mapping[str, float], second: Mapping[str, float]) -> list[tuple[str, float]]:
    """The names that both have, with what each adds, the most telling first."""
    both = [(name, weight * second[name]) for name, weight in first.items() if name in second]
    return sorted(both, key=lambda item: (-item[1], item[0]))


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
