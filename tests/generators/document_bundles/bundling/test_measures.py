"""Measures against what can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trailforge.generators.document_bundles.bundling.config import Bundling, Leftover
from trailforge.generators.document_bundles.bundling.measures import (
    adjusted_rand,
    cohesion,
    document_frequencies,
    leftover_share,
    mean_cohesion,
    size_counts,
    source_counts,
    theme_words,
)

VECTORS = np.array([[1, 0], [0.6, 0.8], [0, 1], [-1, 0], [1, 0]], np.float32)
BUNDLING = Bundling(bundles=((0, 1, 2), (3, 4)), leftovers=())
OTHER = Bundling(bundles=((0, 1),), leftovers=tuple(Leftover(row, "alone") for row in (2, 3, 4)))
NONE = Bundling(bundles=(), leftovers=())


def test_cohesion() -> None:
    """Mean over the pairs: 0.6, 0.8 and 0, and -1 in the other bundle."""
    assert cohesion(VECTORS[:3]) == pytest.approx(1.4 / 3)
    assert mean_cohesion(VECTORS, BUNDLING) == pytest.approx((1.4 / 3 - 1) / 2)
    assert math.isnan(mean_cohesion(VECTORS, NONE))


def test_counts() -> None:
    """Bundles by size and by number of sources, and the share left over."""
    assert size_counts(BUNDLING) == {2: 1, 3: 1}
    assert source_counts(BUNDLING, ["a", "b", "b", "a", "c"]) == {2: 2}
    assert (leftover_share(BUNDLING), leftover_share(OTHER), leftover_share(NONE)) == (0.0, 0.6, 0.0)


def test_adjusted_rand() -> None:
    """1 with itself; with the other one of four pairs in common: (1 - 0.4) / (2.5 - 0.4)."""
    assert adjusted_rand(BUNDLING, BUNDLING) == 1.0
    assert adjusted_rand(BUNDLING, OTHER) == pytest.approx((1 - 0.4) / (2.5 - 0.4))


def test_theme_words() -> None:
    """What all share before what two share; nothing common, short, numeric, or of one document only."""
    bundle = [
        "The Volcano erupted in 2025 and flights were cancelled. Volcano ash in the air.",
        "Flights resume after volcano ash clears; the report is out in 2025.",
        "A volcano on the island: what the report says of tourism in 2025.",
    ]
    others = ["The report on the budget is out.", "A report on schools.", "The flights of birds."] * 5
    frequencies = document_frequencies(bundle + others)
    assert frequencies["volcano"] == 3
    words = theme_words(bundle, frequencies, documents=len(bundle + others))
    assert words[0] == "volcano"
    assert set(words) == {"volcano", "ash", "flights", "report"} | (set(words) & {"out"})
    assert words.index("ash") < words.index("report")
    assert theme_words(bundle, frequencies, 18, count=1) == ["volcano"]
    assert theme_words(["", "one two"], {}, 2) == []
