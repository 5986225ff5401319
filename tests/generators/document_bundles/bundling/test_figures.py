"""Figures of sentences, by their kinds."""

from __future__ import annotations

import pytest

from tests.support.growth import is_linear
from trailforge.generators.document_bundles.bundling.figures import figures_of


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("Norlin got $2.5 million, or 40% of it.", [("sums", "$2.5 million"), ("shares", "40%")]),
        ("On May 4, 2021 and 5 June it sailed.", [("dates", "may 4, 2021"), ("dates", "5 june")]),
        ("It has 3 new ships and seven crews.", [("ships", "3 ships"), ("crews", "seven crews")]),
        ("It raised 1,200 dollars in 2020.", [("dollars", "1,200 dollars")]),
        ("It is said that Section 4 restores it, as Table 2 shows.", []),
        ("The company was 10 this year.", []),
        (
            "Of five cats some were seen, and (3 dogs) with 4 dogs, 5 goats.",
            [("cats", "five cats"), ("dogs", "3 dogs"), ("dogs", "4 dogs"), ("goats", "5 goats")],
        ),
        ("Mara Lind, 34, and a 7-year-old met 12, 13.", [("ages", "34"), ("ages", "7-year-old")]),
        (
            "By v1.2.3 it is .5 % or 1.5% of all; 10 percent stay.",
            [("shares", "5 %"), ("shares", "1.5%"), ("shares", "10 percent")],
        ),
    ],
)
def test_kinds(sentence: str, found: list[tuple[str, str]]) -> None:
    assert [(figure.kind, figure.text) for figure in figures_of(sentence)] == found


@pytest.mark.parametrize("piece", ["1.", "1,", "a", "A(", "$1 a ", "two ", "1 a-", "3 ships a "])
def test_the_time_grows_as_the_text(piece: str) -> None:
    assert is_linear(lambda size: piece * (size // len(piece)), figures_of, 16_000)
