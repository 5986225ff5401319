"""Two ways that differ in nothing but words."""

from __future__ import annotations

import pytest

from trailforge.filters.ways.twins import ask_about_the_same, is_reworded
from trailforge.filters.ways.way import AskedSearch, Way


def way(*queries: str, entities: tuple[str, ...] = ()) -> Way:
    searches = tuple(AskedSearch(thought="", query=query, entities=entities) for query in queries)
    return Way(question="Where was the director of Sunken Bells born?", answer="Tarvik", searches=searches)


ONE = way("Who directed Sunken Bells?", "Where was Ida Marr born?")


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (way("Sunken Bells film: director", "birthplace of Marr"), True),
        (way("Sunken Bells director and where Ida Marr was born"), True),
        (way("Sunken Bells", entities=("Ida Marr",)), True),
        (way("Who directed Sunken Bells?"), False),
        (way("Who directed Sunken Bells?", "Where was Otto Fenn born?"), False),
        (way("who made it"), False),
    ],
)
def test_ways_are_told_apart_by_the_names_that_they_ask_about(other: Way, is_same: bool) -> None:
    assert ask_about_the_same(ONE, other) is ask_about_the_same(other, ONE) is is_same


@pytest.mark.parametrize(
    ("query", "other", "is_same"),
    [
        ("Where was Ida Marr born?", "Ida Marr birthplace", True),
        ("Where was Ida Marr born?", "Where was Otto Fenn born?", False),
        ("Where was Ida Marr born?", "where was she born", False),
        ("which town has the oldest bell", "the town that has the oldest bell", True),
        ("which town has the oldest bell", "which river has the longest bridge", False),
    ],
)
def test_a_query_is_reworded_where_it_asks_about_the_same(query: str, other: str, is_same: bool) -> None:
    assert is_reworded(query, other) is is_reworded(other, query) is is_same
