"""What one document singles out of several things that another tells of."""

from __future__ import annotations

import pytest

from tests.support.growth import is_linear
from trailforge.generators.document_bundles.bundling.measures import AllDocuments
from trailforge.generators.document_bundles.bundling.singled import (
    DocumentThings,
    Singled,
    count_singled,
    prepare,
    singled_out,
)

BILLS = (
    "Three bills are before the House. The Harbour Repair Act lends each yard up to $4 million. "
    "The Deep Quay Act lends up to $9 million. The Slipway Act lends up to $1.5 million."
)
VISIT = "At the burned yard in Visby Mara Lund promised to vote for the Harbour Repair Act."
NAMED = (
    "The judge met Ada Moe, 34, in court. Moe said that she saw the Swede. Tom Berg, 51, who heard Shots, came late. "
    "Nils Dahl, 27, ran to Slite. Rain fell. It fell all day. The court waits. Nobody came."
)


def told(*texts: str, titles: tuple[str, ...] = ("Bills", "A visit"), is_paper: bool = False) -> list[DocumentThings]:
    return prepare(list(zip(titles, texts, strict=True)), [is_paper] * len(texts))


def archive(*few: str, documents: int = 100, **frequencies: int) -> AllDocuments:
    return AllDocuments(name_words=set(), few=set(few), documents=documents, frequencies=frequencies)


def test_a_thing_with_a_figure_is_one_of_several_with_figures_of_the_kind() -> None:
    bills, visit = told(BILLS, VISIT)
    found = list(singled_out(visit, bills))
    assert [(each.name, each.kind, each.weight) for each in found] == [
        ("harbour repair act", "sums", 1.0),
        ("harbour repair act", "acts", 0.5),
    ]
    assert found[0].said == VISIT and found[0].answer == "The Harbour Repair Act lends each yard up to $4 million."
    assert dict(found[0].others) == {
        "deep quay act": "The Deep Quay Act lends up to $9 million.",
        "slipway act": "The Slipway Act lends up to $1.5 million.",
    }
    assert list(singled_out(bills, visit)) == [], "the visit tells of one bill"
    assert count_singled(bills, visit, archive("harbour repair act")) == 1.0
    assert count_singled(visit, bills, archive("harbour repair act")) == 1.0
    assert count_singled(bills, visit, archive("mara lund")) == 0.0


@pytest.mark.parametrize(
    ("text", "other", "titles"),
    [
        (BILLS, VISIT, ("The Harbour Repair Act", "A visit")),  # its reader thinks of that first
        ("The Harbour Repair Act lends $4 million.", VISIT, ("Bills", "A visit")),  # it has one sum
        (BILLS, "The Harbour Repair Act lends each yard up to $4 million.", ("Bills", "A visit")),  # it says no more
        (BILLS, "In Visby Mara Lund saw the Harbour and the Repair.", ("Bills", "A visit")),  # and does not name it
    ],
)
def test_nothing_is_singled_out(text: str, other: str, titles: tuple[str, str]) -> None:
    several, one = told(text, other, titles=titles)
    assert list(singled_out(one, several)) == []


def test_people_are_known_by_what_stands_beside_their_names() -> None:
    people, other = told(NAMED, "The house of Ada Moe in Klinte burned. Moe was away.")
    assert people.kinds == dict.fromkeys(("ada moe", "tom berg", "nils dahl"), "persons")
    found = {each.kind: each for each in singled_out(other, people)}
    assert set(found) == {"ages", "persons"}
    assert [name for name, _ in found["ages"].others] == ["tom berg", "nils dahl"]


def test_what_somebody_says_tells_nothing_of_him() -> None:
    people, other = told(NAMED, "The Fire in Klinte began at 7, said Ada Moe. It was 8, Ms. Moe told the King in Lund.")
    assert other.told("ada moe") == ""
    assert list(singled_out(other, people)) == []


def test_a_list_of_names_tells_of_none_of_them() -> None:
    listed = "In Visby met Mara Lund, Ada Moe, Tom Berg, Nils Dahl and the Harbour Repair Act of Slite."
    bills, names = told(BILLS, listed)
    assert list(singled_out(names, bills)) == []


LISTED = "It pays\n$5 million for ferry boats\n$3 million for fish ladders\n$9 million for roads\n$2 million for all"


def test_of_a_list_of_sums_two_words_say_which_one_the_other_document_tells_of() -> None:
    several, one = told(LISTED, "In Klinte the Norlin line waits for its ferry boats.")
    (found,) = singled_out(one, several)
    assert (found.name, found.kind, found.answer) == ("ferry boats", "sums", "$5 million for ferry boats")
    assert [figure for figure, _ in found.others] == ["$3 million", "$9 million", "$2 million"]
    assert count_singled(one, several, archive(ferry=10, boats=99)) == 1.0
    assert count_singled(one, several, archive(ferry=11, boats=99)) == 0.0, "all speak of it"
    known, _ = told("It gives $5,000,000 for ferry boats in Klinte.", LISTED)
    assert list(singled_out(known, several)) == [], "it says the sum"


def test_works_and_systems_are_things_of_papers_alone() -> None:
    text = "Wahlin (1999) reports 3 trees. Dahlin (2001) cuts 5 trees. Sundin et al. (2003) saw 7 trees."
    other = "Wahlin (1999) parses Swedish by hand."
    for is_paper in (True, False):
        several, one = told(text, other, is_paper=is_paper)
        assert ("works" in several.kinds.values()) == is_paper
        assert {each.kind for each in singled_out(one, several)} == ({"trees", "works"} if is_paper else set())


def test_of_two_the_one_that_the_document_is_not_about_is_asked_for() -> None:
    text = "Tom Berg, 51, who heard Shots, ran. Ada Moe, 34, died in Lund."
    other = "The house of Ada Moe in Klinte burned."
    for title, weights in (("Tom Berg is heard", [0.5, 0.25]), ("A hearing", [])):
        several, one = told(text, other, titles=(title, "Fire"))
        assert [each.weight for each in singled_out(one, several)] == weights


@pytest.mark.parametrize("piece", ["A b. ", "Mara Lund, 3. ", "Act ", "a" * 8 + " ", "$1 "])
def test_the_time_grows_as_the_text(piece: str) -> None:
    def find(text: str) -> list[Singled]:
        first, second = told(text, text)
        return list(singled_out(first, second))

    assert is_linear(lambda size: piece * (size // len(piece)), find, 8_000)
