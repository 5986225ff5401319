"""Nodes of a tree lie apart, under their parents, and say what they are; nothing in a plan acts."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("plotly")

from hypothesis import given
from hypothesis import strategies as st

from tests.inspector.test_terminal import EVIL
from trailforge.inspector.tree_chart import path_to, positions, tree_chart
from trailforge.pipelines.show.parts import ShownNode, TreeDiagram, TreePath

RED = "#d1453b"
SHAPES = {"policy": ("circle", "by the policy"), "rule": ("square", "by rules"), "oracle": ("diamond", "gold plan")}
ROOT = ShownNode(
    id=0, parent=None, depth=0, visits=2, value=0.5, origin="policy", title="0", steps=("Who directed Metropolis?",)
)
LEAF = replace(ROOT, id=1, parent=0, depth=1)


def grown(size: int, seed: int) -> tuple[ShownNode, ...]:
    """A tree of so many nodes."""
    rng = random.Random(seed)
    nodes = [ROOT]
    for number in range(1, size):
        parent = rng.choice(nodes)
        nodes.append(
            replace(
                parent, id=number, parent=parent.id, depth=parent.depth + 1, visits=rng.choice([0, 1, 9]), value=0.25,
                origin=rng.choice(["policy", "rule", "oracle"]),
            )
        )  # fmt: skip
    return tuple(nodes)


def traces(nodes: tuple[ShownNode, ...], *paths: TreePath) -> list[Any]:
    """What the figure of such a tree is made of."""
    figure: Any = tree_chart(TreeDiagram(head="", nodes=nodes, paths=paths, behind=lambda id: (), origins=SHAPES))
    return list(figure.data)


def drawn(nodes: tuple[ShownNode, ...]) -> dict[int, tuple[float, float]]:
    """By node, where the figure has it."""
    points = [trace for trace in traces(nodes) if trace.mode == "markers+text"]
    return {
        node: (x, y) for each in points for node, x, y in zip(each.customdata, each.x, each.y, strict=True)
    }  # fmt: skip


@given(st.integers(1, 120), st.integers(0, 9))
def test_nodes_of_a_depth_lie_apart_and_children_under_their_parent(size: int, seed: int) -> None:
    nodes = grown(size, seed)
    places = positions(nodes)
    assert set(places) == set(range(size))
    for depth in range(size):
        level = sorted(places[node.id][0] for node in nodes if node.depth == depth)
        assert all(right - left >= 1 for left, right in pairwise(level))
    for node in nodes:
        below = [places[each.id][0] for each in nodes if each.parent == node.id]
        assert places[node.id][1] == -node.depth
        if below:
            assert min(below) <= places[node.id][0] <= max(below)


@pytest.mark.parametrize("size", [1, 2, 40, 200])
def test_each_node_is_drawn_once_and_at_a_place_of_its_own(size: int) -> None:
    places = drawn(grown(size, 3))
    assert set(places) == set(range(size))
    assert len(set(places.values())) == size


def test_a_crowded_tree_puts_neighbours_in_several_rows() -> None:
    root = ROOT
    for count, rows in ((5, 1), (90, 3)):
        leaves = tuple(replace(root, id=number, parent=0, depth=1) for number in range(1, count + 1))
        places = drawn((root, *leaves))
        assert len({places[leaf.id][1] for leaf in leaves}) == rows


def test_visits_and_values_are_told() -> None:
    nodes = (
        replace(ROOT, visits=8, value=0.5),
        replace(LEAF, visits=2, value=0.125),
        replace(LEAF, id=2, visits=0, origin="oracle"),
    )
    rolled, unseen = (trace for trace in traces(nodes) if trace.mode == "markers+text")
    assert [text.split() for text in rolled.text] == [["V", "0.50<br>", "n", "8"], ["V", "0.12<br>", "n", "2"]]
    assert list(rolled.marker.color) == [0.5, 0.125]
    assert rolled.marker.size[0] > rolled.marker.size[1]
    assert (list(unseen.marker.symbol), unseen.text[0].strip()) == (["diamond"], "n 0")
    assert "no rollout" in unseen.hovertext[0]
    assert isinstance(unseen.marker.color, str)  # no colour of the scale: it has no value


def test_the_way_to_a_plan_is_drawn_in_its_colour() -> None:
    nodes = grown(30, 1)
    leaf = max(nodes, key=lambda node: node.depth)
    way = path_to(nodes, leaf.id)
    assert (way[0], way[-1], len(way)) == (0, leaf.id, leaf.depth + 1)
    paths = [TreePath(leaf.id, "wrong rollout 1", "wrong"), TreePath(99, "lost", "mended")]
    found = traces(nodes, *paths)
    (line,) = (trace for trace in found if trace.mode == "lines" and trace.line.color == RED)
    assert line.x.count(None) == leaf.depth
    rings = [trace for trace in found if trace.marker.symbol == "circle-open"]
    assert [(ring.name, ring.customdata[0]) for ring in rings] == [("wrong rollout 1", leaf.id)]


def test_no_text_of_a_plan_acts() -> None:
    plan = (EVIL, 'It\'s "Oslo"', '<a href="javascript:alert(1)">x</a><b>bold</b> &lt;')
    nodes = tuple(replace(node, steps=plan) for node in (ROOT, LEAF))
    found = traces(nodes, TreePath(1, "<b>row</b>", "wrong"))
    told = [text for trace in found for text in (trace.hovertext or ())]
    assert told and all("<a" not in text and "\x1b" not in text and "\u202e" not in text for text in told)
    assert all('It\'s "Oslo"' in text for text in told)  # Plotly shows &quot; as it stands
    assert all(text.count("<b>") == 1 for text in told)  # our own, around the node's number
    assert all("<b>" not in (trace.name or "") for trace in found)
