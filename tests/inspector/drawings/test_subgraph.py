"""Triples drawn: kept ones apart from offered ones, entities apart from each other."""

from __future__ import annotations

from dataclasses import replace

import plotly.graph_objects as go
from hypothesis import given
from hypothesis import strategies as st
from trailforge.inspector.drawings.boxes import GOLD, GREEN, GREY
from trailforge.inspector.drawings.subgraph import fact_chain, step_subgraph

from tests.filters.kg.test_reasons import FIRST, triple
from tests.inspector.drawings.support import (
    EVIL,
    arrows_of,
    boxes_of,
    check_boxes,
    hovers_of,
    labels_of,
    shapes_of,
    tags_in,
)
from tests.support.kg_worlds import DUST, chain_to, fact, node
from trailforge.schemas import EntityLink, KgStep, KgTriple

ENDS = st.sampled_from("abcdefg")
TRIPLES = st.lists(st.builds(triple, ENDS, st.sampled_from(["likes", "fears"]), ENDS), max_size=12, unique=True)


def searched(*entities: str) -> tuple[EntityLink, ...]:
    return tuple(
        EntityLink(mention=name, entity_id=name, label=name, score=0.9, margin=0.1, is_searched=True)
        for name in entities
    )


def step(kept: list[KgTriple], offered: list[KgTriple], *entities: str) -> KgStep:
    return replace(FIRST, entities=searched(*entities), triples_kept=tuple(kept), triples_offered=tuple(offered))


@given(TRIPLES, st.integers(0, 12), st.lists(ENDS, max_size=3, unique=True))
def test_any_triples_are_drawn_whole(triples: list[KgTriple], kept: int, entities: list[str]) -> None:
    figure = step_subgraph(step(triples[:kept], triples, *entities), ["b"])
    check_boxes(figure)
    names = {end for each in triples for end in (each.head, each.tail)} | set(entities)
    assert len(boxes_of(figure)) == len(names)
    hovers = "\n".join(hovers_of(figure))
    for place, each in enumerate(triples):
        assert f"{'kept' if place < kept else 'offered'}: {each.text}" in hovers


def test_kept_triples_are_solid_and_green_offered_ones_dashed() -> None:
    kept, offered = triple("Fritz Lang", "place of birth", "Vienna"), triple("M", "director", "Fritz Lang")
    figure = step_subgraph(step([kept], [kept, offered], "Fritz Lang"), ["Vienna"])
    lines = [trace.line for trace in figure.data if trace.mode == "lines"]
    assert [(GREEN in line.color, line.dash is None) for line in lines] == [(True, True), (False, False)]
    colours = {text: shape.fillcolor for text, shape in zip(_boxed(figure), shapes_of(figure), strict=True)}
    assert GOLD in colours["★ Vienna"] and GREEN in colours["<b>Fritz Lang</b>"] and GREY in colours["M"]
    left, _, right = sorted(boxes_of(figure))
    assert _boxed(figure)[boxes_of(figure).index(left)] == "M"
    assert _boxed(figure)[boxes_of(figure).index(right)] == "★ Vienna"


def test_both_directions_are_one_arrow_with_both_names() -> None:
    there, back = triple("a", "capital", "b"), triple("b", "capital of", "a")
    figure = step_subgraph(step([], [there, back], "a"), [])
    assert sum(trace.mode == "lines" for trace in figure.data) == 1
    assert "capital · ← capital of" in labels_of(figure)


def test_a_fact_that_is_followed_backwards_points_to_where_it_comes_from() -> None:
    chain = chain_to(
        node("Angola"), fact("Angola", "first president", "Agostinho Neto", backward=True),
        starts=(node("Agostinho Neto", "person"),),
    )  # fmt: skip
    figure = fact_chain(chain)
    start, answer = boxes_of(figure)
    assert start[1] < answer[0]
    (arrow,) = arrows_of(figure)
    assert arrow.x == start[1] and arrow.ax > arrow.x


def test_a_chain_shows_starts_bridges_and_the_answer() -> None:
    figure = fact_chain(DUST)
    check_boxes(figure)
    texts = " ".join(labels_of(figure))
    for said in ("start: film", "bridge: person, film director", "★ Elmton", "director", "place of birth"):
        assert said in texts
    assert any("also Elm City" in text for text in hovers_of(figure))


def test_chains_that_meet_have_rows_of_their_own() -> None:
    chain = chain_to(
        node("z"), fact("a", "r", "b"), fact("b", "r", "z"), fact("c", "r", "z"),
        starts=(node("a"), node("c")), bridges=(node("b"),),
    )  # fmt: skip
    check_boxes(fact_chain(chain))
    assert len(boxes_of(fact_chain(chain))) == 4


def test_texts_command_nothing() -> None:
    evil = step([triple(EVIL, EVIL, "b")], [], EVIL)
    chain = chain_to(node("x", EVIL, EVIL, EVIL), fact("x", EVIL, EVIL), starts=(node(EVIL),))
    for figure in (step_subgraph(evil, [EVIL]), fact_chain(chain)):
        texts = [*labels_of(figure), *hovers_of(figure)]
        assert tags_in(texts) <= {"b", "/b", "br"}
        assert not {"\x1b", "\u202e"} & set("".join(texts))


def _boxed(figure: go.Figure) -> list[str]:
    """Texts of the boxes, in the order of the boxes."""
    return labels_of(figure)[-len(boxes_of(figure)) :]
