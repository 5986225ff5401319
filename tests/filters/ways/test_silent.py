"""Clauses of a question that an agent never heeds, and namesakes between which it chooses without a word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trailforge.filters.ways.silent import dropped_clause, find_dropped, judge_silence, untold_namesakes
from trailforge.filters.ways.way import AskedSearch, Way
from trailforge.schemas import Passage

PERSON = Passage(id="2", title="Ida Marr", text="Ida Marr, born in Tarvik in 1931, made Sunken Bells.", score=1.0)


def way(question: str, query: str = "Where was Ida Marr born?", *passages: Passage, thought: str = "") -> Way:
    asked = AskedSearch(thought=thought, query=query, passages=passages or (PERSON,))
    return Way(question=question, answer="Tarvik", searches=(asked,), last_thought="She was born in Tarvik.")


DROPPED = {
    "Where was Ida Marr, who won the Osk Medal, born?": ["Osk Medal"],
    "Where was Ida Marr, who won a medal in 1962, born?": ["1962"],
    'Where was Ida Marr, who wrote "the quiet of the fens", born?': ["the quiet of the fens"],
    "Of Ida Marr and Otto Fenn, where was the elder born?": ["Otto Fenn"],
}
HEEDED = [
    "Where was Ida Marr born?",
    "Where was the maker of the 1962 film Sunken Bells born?",  # which film is plain without the year
    "Where was the Norwegian director Ida Marr born?",
    "Where was Ida Maria Marr born?",
    "Where was Ida Marr of Tarwik born?",
    "Where was the CEO Ida Marr born?",
    "Whiich is the town where Ida Marr was born?",
    'Where was the maker of "Sunken Bells" born?',
    "Was Ida Marr born in Tarvik or in Osk?",
    "Where was she born?",
]


@pytest.mark.parametrize("question", DROPPED)
def test_a_clause_that_nothing_heeds_rejects(question: str) -> None:
    verdict = dropped_clause(way(question))
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "dropped_clause", 1.0)
    assert list(find_dropped(way(question))) == DROPPED[question] and DROPPED[question][0] in verdict.detail


@pytest.mark.parametrize("question", HEEDED)
def test_what_stands_anywhere_or_beside_what_does_is_heeded(question: str) -> None:
    assert dropped_clause(way(question)).keep


@pytest.mark.parametrize("question", DROPPED)
def test_a_thought_or_a_passage_heeds_it(question: str) -> None:
    (name,) = DROPPED[question]
    assert dropped_clause(way(question, thought=f"Nothing tells of {name}.")).keep
    told = replace(PERSON, id="3", title="On her", text=f"It is about {name}.")
    assert dropped_clause(way(question, "Where was Ida Marr born?", PERSON, told)).keep


OLD = Passage(id="4", title="True Bells (1931 film)", text="True Bells is a film by Ida Marr.", score=1.0)
NEW = replace(OLD, id="5", title="True Bells (1990 film)")
BOOK = replace(OLD, id="6", title="True Bells (novel)")
PEOPLE = [replace(PERSON, id=str(n), title=title) for n, title in enumerate(("Ida Marr", "Ida Marr (1880–1931)"))]


@pytest.mark.parametrize("passages", [(OLD, NEW), PEOPLE])
def test_of_two_of_one_name_it_has_to_say_which(passages: list[Passage]) -> None:
    name = "True Bells" if OLD in passages else "Ida Marr"
    silent = way(f"Who made {name}?", f"Who made {name}?", *passages)
    verdict = untold_namesakes(silent)
    assert (verdict.keep, verdict.score) == (False, 1.0) and passages[1].title in verdict.detail
    assert untold_namesakes(way(f"Who made {name}?", f"Who made {name}?", passages[0])).keep
    assert untold_namesakes(replace(silent, last_thought="It is that of 1931, and no other.")).keep
    assert untold_namesakes(replace(silent, question=f"Who made {name} in 1931?")).keep


def test_no_namesakes_are_things_of_other_kinds_and_names_that_nobody_looked_for() -> None:
    assert untold_namesakes(way("Who made True Bells?", "Who made True Bells?", OLD, BOOK)).keep
    assert untold_namesakes(way("Who made Sunken Bells?", "Who made Sunken Bells?", OLD, NEW)).keep
    longer = "Who made True Bells of Tarvik?"
    assert untold_namesakes(way(longer, longer, OLD, NEW)).keep
    seasons = [replace(OLD, id=str(n), title=f"True Bells (season {n})") for n in (1, 2)]
    assert untold_namesakes(way("Who made True Bells?", "Who made True Bells?", *seasons)).keep


def test_both_are_asked() -> None:
    assert [verdict.reason for verdict in judge_silence(way("Where?"))] == ["dropped_clause", "untold_namesakes"]
