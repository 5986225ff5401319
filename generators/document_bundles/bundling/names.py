"""What the names of documents weigh: whether two speak of the same, and which names say so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from trailforge.generators.document_bundles.bundling.config import BundleConfig
from trailforge.retrieval.entities import CaseCounts, Name, document_frequencies, rarity

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
