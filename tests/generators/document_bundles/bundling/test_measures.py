"""Measures against what can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from trailforge.generators.document_bundles.bundling.config import Bundling
from trailforge.generators.document_bundles.bundling.measures import (
    cohesion,
    document_frequencies,
    size_counts,
    theme_words,
)

VECTORS = np.array([[1, 0], [0.6, 0.8], [0, 1], [-1, 0], [1, 0]], np.float32)


def test_cohesion() -> None:
    """Mean over the pairs: 0.6, 0.8 and 0, and -1 of the other two."""
    assert cohesion(VECTORS[:3]) == pytest.approx(1.4 / 3)
    assert cohesion(VECTORS[3:]) == pytest.approx(-1)


def test_bundles_are_counted_by_size() -> None:
    assert size_counts(Bundling(bundles=((0, 1, 2), (3, 4)), leftovers=())) == {2: 1, 3: 1}


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
