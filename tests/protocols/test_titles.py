"""Titles and texts of passages, read back from what the agent was given to read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trailforge.protocols import GRAPH_R1, KG_SEARCH, REACT, SEARCH_R1, kg_search, nl_dag, search_r1
from trailforge.protocols.base import passages_of_result
from trailforge.protocols.turns import Labels, Observation
from trailforge.schemas import Passage, PlanNode

NODE = PlanNode(node_id="A", query="q", tool="News")


def _plan_result(passages: tuple[Passage, ...]) -> str:
    return nl_dag.render_results([nl_dag.NodeResult(node=NODE, status="found", passages=passages)])


def _observed(render: Callable[[Observation], str]) -> Callable[[tuple[Passage, ...]], str]:
    return lambda passages: render(Observation(passages=passages))


WAYS = {
    "react": (_observed(REACT.render_result), passages_of_result),
    "graph_r1": (_observed(GRAPH_R1.render_result), passages_of_result),
    "kg_search": (_observed(KG_SEARCH.render_result), kg_search.read_passages),
    "search_r1": (_observed(SEARCH_R1.render_result), search_r1.read_passages),
    "r_search": (_plan_result, nl_dag.read_passages),
}
PIECES = st.sampled_from(
    ["Oslo", "(film)", "M", "(a (b))", "1.", "Doc 1(Title: x)", "Title:", "<answer>", "|", "\n", "  "]
)
TITLES = st.lists(PIECES, max_size=4).map(" ".join)


def passage(title: str, text: str) -> Passage:
    return Passage(id="0", title=title, text=text, score=0.0)


@pytest.mark.parametrize("way", WAYS)
@given(st.lists(st.tuples(TITLES, TITLES), max_size=4))
def test_what_was_written_is_read(way: str, shelf: list[tuple[str, str]]) -> None:
    """White space aside; whatever stands in the texts."""
    write, read = WAYS[way]
    assume(way != "r_search" or all(title.strip() for title, _ in shelf))
    found = read(write(tuple(passage(title, text) for title, text in shelf)))
    plain = [(" ".join(title.split()), " ".join(text.split())) for title, text in shelf]
    assert [(title.strip(), text.strip()) for title, text in found] == plain


@pytest.mark.parametrize("way", WAYS)
def test_where_nothing_was_found_there_are_no_titles(way: str) -> None:
    write, read = WAYS[way]
    assert read(write(())) == read("") == read("Triples:\n") == []


def test_triples_are_no_passages() -> None:
    fact = Labels("Lang", "born in", "Vienna")
    told = Observation(passages=(passage("Lang", "x"),), triples=(fact,))
    assert kg_search.read_passages(KG_SEARCH.render_result(told)) == [("Lang", "x")]
    assert kg_search.read_passages(KG_SEARCH.render_result(Observation(triples=(fact,)))) == []


def test_a_bracket_that_nobody_closes_takes_the_line() -> None:
    assert passages_of_result("1. (Smile :( (song) text") == [("Smile :( (song) text", "")]
