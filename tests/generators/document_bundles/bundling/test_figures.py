"""Figures by the name that they stand beside, and what two documents have to offer by them."""

from __future__ import annotations

import pytest

from tests.support.growth import is_linear
from trailforge.generators.document_bundles.bundling.figures import (
    FigureChoice,
    FigureSides,
    ToldFigures,
    choices,
    comparisons,
    figures_of,
)


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
    assert is_linear(lambda size: piece * (size // len(piece)), lambda text: told(text).beside("a"), 16_000)


def told(text: str, title: str = "Yards") -> ToldFigures:
    return ToldFigures.of(title, text)


LIST = told("Turku got $5 million.\nRostock got $3 million, Gdansk $2 million.\nNobody spoke of it.")


def test_of_several_figures_in_a_sentence_the_nearest_is_the_name_s() -> None:
    near, others = LIST.beside("gdansk")
    assert near["sums"] == {"$2 million"} and others["sums"] == {"$3 million", "$5 million"}
    assert not any(told("Turku is fine. It got $2 million.").beside("turku")[0].values())


def test_a_figure_is_chosen_by_a_name_where_there_are_others_of_its_kind() -> None:
    plain = told("Norlin builds in Turku.")
    assert choices(plain, LIST, ["turku"]) == [
        FigureChoice("turku", "sums", "$5 million", ("$2 million", "$3 million"))
    ]
    assert choices(LIST, plain, ["turku"]) == [], "it has no figures"
    assert choices(plain, told("Turku got $5 million."), ["turku"]) == [], "whoever has it has the answer"
    assert choices(told("Turku got $5 million."), LIST, ["turku"]) == [], "both say it"
    about = ToldFigures.of("A yard in Turku", "Turku got $5 million. Others got $3 million.")
    assert choices(plain, about, ["turku"]) == [], "of what it is about it says all"


def test_two_sides_are_compared_where_each_has_its_own() -> None:
    one, other = told("The fund gave Turku $5 million."), told("The fund gave Gdansk $2 million on May 4.")
    assert comparisons(one, other, ["fund"]) == [FigureSides("fund", "sums", ("$5 million",), ("$2 million",))]
    assert comparisons(one, one, ["fund"]) == [] == comparisons(one, other, ["turku"])
    assert comparisons(told("The fund met on May 3."), other, ["fund"]) == [], "dates are no sides"
