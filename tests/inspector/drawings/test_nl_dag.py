"""A search plan drawn: every search and every edge, valid or not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from trailforge.inspector.drawings.nl_dag import TOOLS, nl_dag

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
from trailforge.schemas import PlanEdge, PlanNode

NAMES = "ABCDEF"


def node(name: str, query: str = "who", tool: str = "News") -> PlanNode:
    return PlanNode(node_id=name, query=query, tool=tool)


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=9, unique=True))
def test_every_search_has_a_box_and_every_edge_an_arrow(pairs: list[tuple[str, str]]) -> None:
    figure = nl_dag([node(name) for name in NAMES], [PlanEdge(src=src, dst=dst) for src, dst in pairs])
    assert len(boxes_of(figure)) == len(NAMES)
    check_boxes(figure)
    assert len(arrows_of(figure)) == len(pairs)


def test_a_query_is_whole_under_the_pointer() -> None:
    query = "which " + "very " * 30 + "long query"
    figure = nl_dag([node("A", query), node("B")], [PlanEdge(src="A", dst="B")])
    assert query in " ".join(hovers_of(figure)[0].split("<br>"))
    assert "…" in labels_of(figure)[0] and "long query" not in labels_of(figure)[0]


def test_tools_have_their_colours() -> None:
    tools = [*TOOLS, "Teapot"]
    figure = nl_dag([node(name, tool=tool) for name, tool in zip(NAMES, tools, strict=False)], [])
    assert len({shape.fillcolor for shape in shapes_of(figure)}) == len(tools)


def test_a_search_that_is_missing_is_said() -> None:
    figure = nl_dag([node("A")], [PlanEdge(src="N9", dst="A")])
    assert any("N9" in text and "not in the plan" in text for text in labels_of(figure))
    check_boxes(figure)


def test_texts_command_nothing() -> None:
    figure = nl_dag([node(EVIL, EVIL, EVIL)], [])
    texts = [*labels_of(figure), *hovers_of(figure)]
    assert tags_in(texts) <= {"b", "/b", "br"}
    assert not {"\x1b", "\u202e"} & set("".join(texts))
