"""Graphs of plans, facts and triples: every node and every edge, valid or not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.filters.kg.test_episodes import FIRST, triple
from tests.support.bundle_questions import question
from tests.support.kg_worlds import DUST, chain_to, fact, node
from trailforge.generators.document_bundles.show import plan_graph
from trailforge.generators.kg_questions.show import fact_graph
from trailforge.generators.kg_trajectories.show import subgraph
from trailforge.pipelines.show.parts import Diagram
from trailforge.schemas import EntityLink, KgStep, KgTriple, PlanEdge, PlanNode

NAMES = "ABCDEF"
ENDS = st.sampled_from("abcdefg")
TRIPLES = st.lists(st.builds(triple, ENDS, st.sampled_from(["likes", "fears"]), ENDS), max_size=12, unique=True)


def plan(names: str, *pairs: str, tool: str = "News") -> Diagram:
    """The graph of a plan with so many searches; `AB`: B needs A."""
    nodes = tuple(PlanNode(node_id=name, query="who", tool=tool) for name in names)
    edges = tuple(PlanEdge(src=source, dst=target) for source, target in pairs)
    return plan_graph(question(dag_nodes=nodes, dag_edges=edges))


@given(st.lists(st.sampled_from([a + b for a in NAMES for b in NAMES]), max_size=9, unique=True))
def test_every_search_of_a_plan_has_a_box_and_every_edge_an_arrow(pairs: list[str]) -> None:
    graph = plan(NAMES, *pairs)
    assert [each.id for each in graph.nodes] == list(NAMES)
    assert [each.source + each.target for each in graph.edges] == pairs


@pytest.mark.parametrize(
    ("pairs", "red"), [(("AB", "BC", "AC"), []), (("AB", "BC", "CA"), ["CA"]), (("AA", "BA"), ["AA"])]
)
def test_what_closes_a_circle_is_red(pairs: tuple[str, ...], red: list[str]) -> None:
    graph = plan("ABC", *pairs)
    assert [each.source + each.target for each in graph.edges if each.kind == "wrong"] == red


def test_a_search_that_only_an_edge_names_is_red() -> None:
    missing = plan("A", "NA").nodes[-1]
    assert (missing.lines, missing.kind) == (("N", "not in the plan"), "wrong")


def test_tools_have_their_colours() -> None:
    kinds = {plan("A", tool=tool).nodes[0].kind for tool in ("News", "Academic", "General", "Teapot")}
    assert len(kinds) == 4


def step(kept: list[KgTriple], offered: list[KgTriple], *entities: str) -> KgStep:
    links = tuple(
        EntityLink(mention=name, entity_id=name, label=name, score=0.9, margin=0.1, is_searched=True)
        for name in entities
    )
    return replace(FIRST, entities=links, triples_kept=tuple(kept), triples_offered=tuple(offered))


@given(TRIPLES, st.integers(0, 12), st.lists(ENDS, max_size=3, unique=True))
def test_any_triples_are_drawn_whole(triples: list[KgTriple], kept: int, entities: list[str]) -> None:
    graph = subgraph(step(triples[:kept], triples, *entities), ["b"])
    assert {each.id for each in graph.nodes} == {e for t in triples for e in (t.head, t.tail)} | set(entities)
    hovers = "\n".join(edge.hover for edge in graph.edges)
    for place, each in enumerate(triples):
        assert f"{'kept' if place < kept else 'offered'}: {each.text}" in hovers


def test_kept_triples_are_solid_and_green_offered_ones_dashed() -> None:
    kept, offered = triple("Fritz Lang", "place of birth", "Vienna"), triple("M", "director", "Fritz Lang")
    graph = subgraph(step([kept], [kept, offered], "Fritz Lang"), ["Vienna"])
    assert [(edge.kind, edge.is_dashed) for edge in graph.edges] == [("right", False), ("", True)]
    looks = {each.lines[0]: (each.kind, each.is_strong) for each in graph.nodes}
    assert looks == {"Fritz Lang": ("right", True), "★ Vienna": ("gold", False), "M": ("", False)}


def test_a_fact_that_is_followed_backwards_points_to_where_it_comes_from() -> None:
    backward = fact("Angola", "first president", "Agostinho Neto", backward=True)
    chain = chain_to(node("Angola"), backward, starts=(node("Agostinho Neto", "person"),))
    (edge,) = fact_graph(chain).edges
    assert (edge.source, edge.target, edge.is_backward) == (backward.known, backward.found, True)


def test_a_chain_shows_starts_bridges_and_the_answer() -> None:
    graph = fact_graph(DUST)
    texts = [line for each in graph.nodes for line in each.lines]
    for text in ("start: film", "bridge: person, film director", "★ Elmton"):
        assert text in texts
    assert {edge.text for edge in graph.edges} == {"director", "place of birth"}
    assert any("also Elm City" in each.hover for each in graph.nodes)
