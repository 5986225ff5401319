"""What passages show beside what is followed, and whether a thought says why it does not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trailforge.filters.ways.branches import find_passed_over, is_left_open, rules_out
from trailforge.filters.ways.ranking import rank_way
from trailforge.filters.ways.way import AskedSearch, Way
from trailforge.schemas import Passage


def passage(title: str, text: str) -> Passage:
    return Passage(id=title, title=title, text=text, score=1.0)


DANI = passage(
    "Dani Roth",
    "# Dani Roth ## Family The brothers of Dani Roth are Olin Marr, Egil Marr. The mother of Dani Roth is Nana Marr. "
    "## Friends The friends of Dani Roth are Otto Fenn, Ada Lund.",
)
OLIN = passage("Olin Marr", "The sister of Olin Marr is Dani Roth. The daughter of Olin Marr is Sif Marr.")
EGIL = passage("Egil Marr", "The sister of Egil Marr is Dani Roth. The wife of Egil Marr is Ida Fenn.")
LOOKED = (
    AskedSearch(thought="I need the brothers of Dani Roth.", query="Dani Roth", passages=(DANI,)),
    AskedSearch(thought="Her brothers are Olin Marr and Egil Marr.", query="Olin Marr", passages=(OLIN, EGIL)),
)
FOUND = "The daughter of Olin Marr is Sif Marr."


def way(last: str = "", question: str = "Who is the niece of Dani Roth?") -> Way:
    return Way(question=question, answer="Sif Marr", searches=LOOKED, last_thought=f"{last} {FOUND}".strip())


@pytest.mark.parametrize(
    "last",
    [
        "Egil has no daughter.",
        "Egil Marr has a wife and no children.",
        "Olin has a daughter while Egil Marr's page lists none.",
        "Olin and not Egil Marr has a daughter.",
        "Egil Marr: married to Ida Fenn.",
        "Egil Marr (a wife, Ida Fenn).",
        "By his page, Ida Fenn is the wife of Egil Marr.",
    ],
)
def test_a_branch_is_closed_by_what_a_thought_says_of_it(last: str) -> None:
    assert find_passed_over(way(last)) == []


@pytest.mark.parametrize(
    "last",
    [
        "",
        "Her brothers are Olin Marr and Egil Marr.",
        "I have looked at both of them, with care, one page after the other, to see which of the two it is.",
        "Of Olin Marr and Egil Marr the first is the one that I need.",
        "The brother Egil is a brother.",
    ],
)
def test_a_branch_that_is_passed_over_or_only_listed_is_open(last: str) -> None:
    assert find_passed_over(way(last)) == ["Egil Marr"]


def test_of_the_one_that_is_followed_nothing_has_to_be_said() -> None:
    """It is left where the others are ruled out; else it alone is asked about."""
    plain = replace(way("Egil Marr has no daughter."), answer="1950")
    left = replace(plain, last_thought="Egil Marr has no daughter. So it is 1950.")
    assert find_passed_over(left) == []
    asked = [replace(LOOKED[1], query=query) for query in ("Olin Marr", "the other brother", "Olin Marr, Egil Marr")]
    silent = [replace(left, searches=(LOOKED[0], each), last_thought="So it is 1950.") for each in asked]
    both = {"Olin Marr", "Egil Marr"}
    assert [set(find_passed_over(each)) for each in silent] == [{"Egil Marr"}, both, both]


def test_what_is_said_before_it_was_shown_closes_nothing() -> None:
    early = replace(LOOKED[0], thought="I need the brothers of Dani Roth; Egil Marr has no daughter.")
    assert find_passed_over(replace(way(), searches=(early, LOOKED[1]))) == ["Egil Marr"]


def test_a_kind_that_nobody_follows_is_no_branch() -> None:
    """Her friends; and of parents those that the question does not mean."""
    assert find_passed_over(way("Egil has no daughter.")) == []
    friend = way("Egil has no daughter. I pass by her friend Otto Fenn, a baker.")
    assert find_passed_over(friend) == ["Ada Lund"]


def test_those_beside_a_name_that_the_question_has_are_none() -> None:
    assert find_passed_over(way(question="Who is the daughter of Dani Roth's brother Olin Marr?")) == []


def test_for_an_uncle_both_parents_are_branches_and_for_a_mothers_brother_they_are_not() -> None:
    nana = passage("Nana Marr", "The brother of Nana Marr is Kurt Lund.")
    child = passage("Dani Roth", "The mother of Dani Roth is Nana Marr. The father of Dani Roth is Sten Marr.")
    searches = (
        AskedSearch(thought="I need her parents.", query="Dani Roth", passages=(child,)),
        AskedSearch(thought="Her mother is Nana Marr.", query="Nana Marr", passages=(nana,)),
    )
    asked = Way(question="", answer="Kurt Lund", searches=searches, last_thought="Nana Marr's brother is Kurt Lund.")
    assert find_passed_over(replace(asked, question="Who is the uncle of Dani Roth?")) == ["Sten Marr"]
    assert find_passed_over(replace(asked, question="Who is the brother of the mother of Dani Roth?")) == []


def test_all_of_whom_passages_say_what_the_question_asks_for_are_branches() -> None:
    shown = tuple(
        passage(name, f"The hobby of {name} is chess. {name} is a baker.") for name in ("Ada Lund", "Bo Lund")
    )
    searches = (AskedSearch(thought="Whose hobby is chess?", query="hobby chess", passages=shown),)
    told = "Ada Lund's hobby is chess, and she is Kurt's wife."
    one = Way(question="Who is the husband of the person whose hobby is chess?", answer="Kurt", searches=searches)
    assert find_passed_over(replace(one, last_thought=told)) == ["Bo Lund"]
    assert find_passed_over(replace(one, last_thought=f"{told} Bo Lund has no husband.")) == []
    assert find_passed_over(replace(one, last_thought=told, question="Who is the husband of Nana's daughter?")) == []


def test_who_closes_a_branch_is_ranked_before_who_needs_fewer_words_and_searches() -> None:
    idle = replace(LOOKED[1], query="Egil Marr", thought="Egil next.", is_needless=True)
    closing = replace(way("Egil has no daughter."), searches=(*LOOKED, idle))
    assert rank_way(closing) < rank_way(way())
    assert rank_way(way("Egil has no daughter.")) < rank_way(closing)


@pytest.mark.parametrize(
    ("last", "name", "is_out"),
    [
        ("Egil has no daughter.", "Egil Marr", True),
        ("It is not Egil Marr.", "Egil Marr", True),
        ("Egil has a daughter. Olin has none.", "Egil Marr", False),
        ("Nobody has one.", "Egil Marr", False),
        ("For Egil Marr nothing was shown.", "Egil Marr", False),
        ("Egil Marr could not be looked at.", "Egil Marr", False),
        ("No daughter of Egil Marr was shown.", "Egil Marr", True),
    ],
)
def test_a_name_is_ruled_out_by_a_clause_that_denies_something_of_it(last: str, name: str, is_out: bool) -> None:
    assert rules_out(way(last), name) is is_out


@pytest.mark.parametrize(
    ("name", "last", "is_open"),
    [
        ("Egil Marr", "", True),
        ("Ada Lund", "Her brothers are Olin Marr and Egil Marr.", True),
        ("Egil Marr", "Egil has no daughter.", False),
        ("Egil Mar", "", False),  # nothing shows such a name
        ("Sif Marr", "", False),  # the answer
        ("Dani Roth", "", False),  # the question's own
    ],
)
def test_what_a_model_holds_open_is_shown_and_denied_nothing(name: str, last: str, is_open: bool) -> None:
    assert is_left_open(way(last), name) is is_open
