"""Bars and histograms hold the numbers they are drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from trailforge.inspector.drawings.figures import bars, funnel, histogram, stacked

from trailforge.schemas import Count, StageCount


def traces(figure: Any) -> tuple[Any, ...]:
    """What is drawn: Plotly's types do not tell."""
    return figure.data


def test_the_funnel_shows_shares_and_counts() -> None:
    rest = {"rejected": (Count(reason="r", count=2),), "failed": (Count(reason="f", count=3),)}
    books = (
        StageCount(name="solve", inputs=34, accepted=27, rejected=(Count(reason="r", count=7),)),
        StageCount(name="empty", inputs=0, accepted=0),
        StageCount(name="filter", inputs=10, accepted=5, **rest),
    )
    figure = funnel(books)
    assert [(bar.name, list(bar.text)) for bar in traces(figure)] == [
        ("passed on", ["27", "5"]), ("rejected", ["7", "2"]), ("failed", ["", "3"]),
    ]  # fmt: skip
    shares = np.sum([bar.x for bar in traces(figure)], axis=0)
    assert np.allclose(shares, 1.0)


def test_bars_stand_by_size_and_show_names_as_text() -> None:
    (bar,) = traces(bars({"a": 1, "<b>": 3}))
    assert list(bar.y) == ["&lt;b&gt;", "a"] and list(bar.x) == [3, 1] and list(bar.customdata) == ["<b>", "a"]


def test_parts_of_a_bar_are_counted_by_name() -> None:
    kept, lost = traces(stacked({"kept": ("green", {"x": 2}), "rejected": ("red", {"x": 1, "y": 4})}))
    assert (list(kept.y), list(kept.x), list(lost.x)) == (["x", "y"], [2, 0], [1, 4])


@given(arrays.arrays(np.float64, st.integers(1, 50), elements=st.floats(-1e6, 1e6)), st.integers(0, 3))
def test_every_value_is_in_one_bar(values: np.ndarray, missing: int) -> None:
    (bar,) = traces(histogram(np.append(values, [np.nan] * missing), "tokens"))
    assert sum(bar.y) == len(values)


def test_few_whole_numbers_get_a_bar_each() -> None:
    (bar,) = traces(histogram(np.array([2.0, 2.0, 5.0]), "hops"))
    assert (list(bar.x), list(bar.y)) == ([2, 3, 4, 5], [2, 0, 0, 1])
