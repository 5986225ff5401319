"""Of two ways to one answer the better one, and what speaks against the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trailforge.filters.ways.ranking import find_early_requests, find_leaps, find_named, rank_way
from trailforge.filters.ways.relations import names_relation
from trailforge.filters.ways.way import AskedSearch, Way
from trailforge.schemas import Hop, Passage

HOPS = (
    Hop(question="Who directed Sunken Bells?", answer="Ida Marr"),
    Hop(question="Where was #1 born?", answer="Tarvik"),
)
FILM = Passage(id="1", title="Sunken Bells", text="Sunken Bells is a film by Ida Marr.", score=1.0)
PERSON = Passage(id="2", title="Ida Marr", text="Ida Marr, born in Tarvik in 1931, made films.", score=1.0)


def search(thought: str, entity: str, *relations: str, **changes: Any) -> AskedSearch:
    return AskedSearch(thought=thought, query=f"{entity}?", entities=(entity,), relations=relations, **changes)


FIRST = search("I need the director of Sunken Bells.", "Sunken Bells", "director", passages=(FILM,))
SECOND = search("Ida Marr made it. Where was she born?", "Ida Marr", "place of birth", passages=(PERSON,))
GOOD = Way(
    question="Where was the director of Sunken Bells born?",
    answer="Tarvik",
    hops=HOPS,
    searches=(FIRST, SECOND),
    last_thought="Ida Marr was born in Tarvik.",
)


def with_first(**changes: Any) -> Way:
    return replace(GOOD, searches=(replace(FIRST, **changes), SECOND))


WORSE = {
    "asks for what no thought has named": with_first(relations=("director", "cast member")),
    "asks for somebody whom no thought has named": with_first(entities=("Sunken Bells", "Otto Fenn")),
    "asks a film where it was born": with_first(
        thought="I need the director of Sunken Bells and a place of birth.", relations=("director", "place of birth")
    ),
    "thinks of whom it has not read of": with_first(thought="The director of Sunken Bells: was it Fenn?"),
    "has a number from nowhere": with_first(thought="I need the director of Sunken Bells, of 1962."),
    "asks for what nothing has": with_first(unused=1),
    "searches without need": with_first(is_needless=True),
    "names nothing that it rests on": replace(GOOD, last_thought="She was born in Tarvik."),
    "is wordier": replace(GOOD, last_thought="Ida Marr was born in Tarvik, as the second passage plainly says."),
    "answers in more words": replace(GOOD, answer="the town of Tarvik"),
}


def test_what_the_question_names_and_what_was_not_shown_yet_is_not_named_by_a_thought() -> None:
    early = replace(SECOND, thought="Ida Marr made Sunken Bells.")
    assert list(find_named(GOOD)) == ["Ida Marr"]
    assert not list(find_named(replace(GOOD, searches=(FIRST, early), last_thought="She was born in Tarvik.")))


@pytest.mark.parametrize("name", WORSE)
def test_the_other_way_is_the_better_one(name: str) -> None:
    assert rank_way(GOOD)[:4] == (0, 0, 0, 0)
    assert rank_way(GOOD) < rank_way(WORSE[name])


def test_the_gravest_comes_first() -> None:
    """Whatever the others have against them."""
    names = ["asks for what no thought has named", "thinks of whom it has not read of", "asks for what nothing has",
             "searches without need", "is wordier"]  # fmt: skip
    ranks = [rank_way(WORSE[name]) for name in names]
    assert sorted(ranks, reverse=True) == ranks


def test_what_it_was_given_and_the_answer_are_seen() -> None:
    way = replace(GOOD, last_thought="Doc 2 says that Ida Marr is of Tarvik, Passage 1 and Doc 3 do not.")
    assert rank_way(way).unseen == 0
    assert rank_way(replace(way, searches=(FIRST,), answer="Tarvik")).unseen == 0
    assert rank_way(replace(way, searches=(FIRST,), answer="unknown")).unseen == 1


def test_a_request_is_early_where_it_names_only_what_an_earlier_hop_is_of() -> None:
    early = WORSE["asks a film where it was born"]
    assert [phrase for _, phrase in find_early_requests(early)] == ["place of birth"]
    both = replace(early.searches[0], entities=("Sunken Bells", "Ida Marr"))
    assert find_early_requests(replace(early, searches=(both, SECOND))) == []
    assert find_early_requests(replace(early, hops=())) == [], "nobody knows what the hops are"


def test_two_of_one_place_are_two() -> None:
    hops = (
        Hop(question="Who is the father of Egil of Ost?", answer="Sten of Ost"),
        Hop(question="Where was #1 born?", answer="Ost"),
    )
    asked = search("I need the father, and where he was born.", "Egil of Ost", "father", "place of birth")
    way = Way(question="Where was the father of Egil of Ost born?", answer="Ost", hops=hops, searches=(asked,))
    assert [phrase for _, phrase in find_early_requests(way)] == ["place of birth"]
    assert list(find_leaps(way)) == []


def test_a_relation_of_both_hops_is_that_of_the_first_one() -> None:
    hops = (
        Hop(question="Who is the father of Olin Marr?", answer="Egil Marr"),
        Hop(question="Who is the father of #1?", answer="Sten Marr"),
    )
    asked = search("I need the father of Olin Marr.", "Olin Marr", "father")
    way = Way(question="Who is Olin Marr's grandfather?", answer="Sten Marr", hops=hops, searches=(asked,))
    assert find_early_requests(way) == [] and list(find_leaps(way)) == []


@pytest.mark.parametrize(
    ("text", "relation", "is_named"),
    [
        ("I compare when they came out.", "publication date", True),
        ("Now her nationality.", "country of citizenship", True),
        ("Where is she buried?", "place of burial", True),
        ("Who was his wife?", "spouse", True),
        ("Whose son was he?", "child", True),
        ("I need the country of both.", "country of origin", True),
        ("I need the countries of both.", "country", True),
        ("I need the county of both.", "country", False),
        ("I need the country of both.", "located in", False),
        ("Who directed it?", "cast member", False),
        ("Let me look it up.", "director", False),
    ],
)
def test_a_relation_is_named_in_forms_that_say_the_same(text: str, relation: str, is_named: bool) -> None:
    assert names_relation(text, relation) is is_named


def test_what_a_thought_has_planned_it_need_not_say_again() -> None:
    planned = with_first(thought="I need the director of Sunken Bells, then where that director was born.")
    later = replace(SECOND, thought="It is Ida Marr.")
    assert list(find_leaps(replace(planned, searches=(planned.searches[0], later)))) == []
    assert list(find_leaps(replace(GOOD, searches=(FIRST, later)))) == ["relation 'place of birth'"]
