"""Triples drawn: those of one search of an episode, and the facts that a question is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import plotly.graph_objects as go

from trailforge.inspector.drawings.boxes import GOLD, GREEN, GREY, Arrow, Box, Point, drawing, hover
from trailforge.inspector.drawings.layers import Place, layered
from trailforge.inspector.visible_text import label
from trailforge.rewards import normalize_answer
from trailforge.schemas import FactChain, KgFact, KgNode, KgStep, KgTriple

_ROW = 40.0
_HEIGHT = 28.0
_WIDTH = 26.0
_BEND = 5.0
"""Per cent beside the middle boxes in which arrows change rows."""
_CHARACTERS = 1.15
"""Of a label, per per cent of width; under the pointer labels are whole."""


@dataclass(slots=True)
class _Edge:
    """All triples between two entities, in the direction of the first one."""

    head: str
    kept: list[KgTriple] = field(default_factory=list)
    offered: list[KgTriple] = field(default_factory=list)

    @property
    def text(self) -> str:
        turned = {True: "", False: "← "}
        names = (turned[t.head == self.head] + t.relation_label for t in (*self.kept, *self.offered))
        return " · ".join(dict.fromkeys(names))

    @property
    def hover(self) -> str:
        return hover(
            *(f"kept: {triple.text}" for triple in self.kept), *(f"offered: {triple.text}" for triple in self.offered)
        )


def step_subgraph(step: KgStep, golds: Sequence[str]) -> go.Figure:
    """What the graph gave to a search: searched entities in the middle, to their right what they lead to, to their
    left what leads to them. Kept triples are solid and green, the others dashed; gold answers have a star.
    """
    edges = _edges(step)
    names = {end: name for t in (*step.triples_offered, *step.triples_kept) for end, name in _ends(t)}
    searched = {
        link.entity_id: link.label or link.mention for link in step.entities if link.is_searched and link.entity_id
    }
    names = searched | names
    grid = _grid(list(edges), list(searched))
    answers = {normalize_answer(gold) for gold in golds}
    found = {end for edge, told in edges.items() if told.kept for end in edge}

    def box(entity: str, at: Point) -> Box:
        is_answer = normalize_answer(names[entity]) in answers
        return Box(
            at=at, width=grid.width, height=_HEIGHT, is_strong=entity in searched,
            text=_starred(names[entity], is_answer, int(grid.width * _CHARACTERS)),
            hover=hover(f"{names[entity]} ({entity})", _told(step, entity)),
            colour=GOLD if is_answer else GREEN if entity in found else GREY,
        )  # fmt: skip

    boxes = {entity: box(entity, at) for entity, at in grid.places.items()}
    arrows = [_arrow(boxes[head], boxes[tail], told, grid) for (head, tail), told in edges.items()]
    return drawing(list(boxes.values()), arrows, grid.rows * _ROW)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Up to three columns: what leads to the middle, the middle, what it leads to."""

    places: dict[str, Point]
    middle: float
    """Its x."""
    width: float
    """Of the boxes."""
    gap: float
    """Between boxes of two columns."""
    rows: int


def _edges(step: KgStep) -> dict[tuple[str, str], _Edge]:
    """By head and tail, those with kept triples first. Triples of both directions are one edge."""
    edges: dict[tuple[str, str], _Edge] = {}

    def edge(triple: KgTriple) -> _Edge:
        there, back = (triple.head, triple.tail), (triple.tail, triple.head)
        return edges.setdefault(back if back in edges else there, _Edge(head=triple.head))

    for triple in step.triples_kept:
        edge(triple).kept.append(triple)
    kept = set(step.triples_kept)
    for triple in step.triples_offered:
        if triple not in kept:
            edge(triple).offered.append(triple)
    return edges


def _ends(triple: KgTriple) -> tuple[tuple[str, str], tuple[str, str]]:
    return (triple.head, triple.head_label), (triple.tail, triple.tail_label)


def _grid(edges: Sequence[tuple[str, str]], searched: Sequence[str]) -> _Grid:
    """Every entity's place; those in the middle are spread over the height of the fuller side."""
    middle = list(searched)
    for head, tail in edges:
        if head not in middle and tail not in middle and (not searched or _is_apart(edges, head, tail, middle)):
            middle.append(head)
    left, right = dict[str, None](), dict[str, None]()
    for head, tail in edges:
        if tail not in middle and tail not in left:
            right[tail] = None
        if head not in middle and head not in right:
            left[head] = None
    columns = [column for column in (list(left), middle, list(right)) if column]
    rows = max(map(len, columns), default=1)
    width = _WIDTH if len(columns) < 3 else _WIDTH * 0.75
    gap = (98 - len(columns) * width) / max(1, len(columns) - 1)
    places: dict[str, Point] = {}
    centre = 50.0
    for number, column in enumerate(columns):
        x = 50.0 if len(columns) == 1 else 1 + width / 2 + number * (width + gap)
        if column is middle:
            centre = x
        apart = rows / len(column) if column is middle else 1.0
        start = 0.0 if column is middle else (rows - len(column)) / 2
        places |= {entity: (x, (start + (row + 0.5) * apart) * _ROW) for row, entity in enumerate(column)}
    return _Grid(places=places, middle=centre, width=width, gap=min(gap, 45.0), rows=rows)


def _is_apart(edges: Sequence[tuple[str, str]], head: str, tail: str, middle: Sequence[str]) -> bool:
    """Does neither end have an edge with the middle? Then nothing would place them beside it."""
    near = {end for edge in edges if edge[0] in middle or edge[1] in middle for end in edge}
    return head not in near and tail not in near


def _arrow(head: Box, tail: Box, told: _Edge, grid: _Grid) -> Arrow:
    """Level at the outer box, where its text stands; at the middle box it changes rows."""
    longest = int((grid.gap - _BEND) * _CHARACTERS)
    if tail.at[0] == head.at[0]:  # beside the boxes of their column
        start, end = head.side(1), tail.side(1)
        out = start[0] + _BEND * 0.7
        points: tuple[Point, ...] = (start, (out, start[1]), (out, end[1]), end)
        text_at = (out, (start[1] + end[1]) / 2)
    else:
        way = 1 if tail.at[0] > head.at[0] else -1
        start, end = head.side(way), tail.side(-way)
        if head.at[0] == grid.middle:
            knee = (start[0] + way * _BEND, end[1])
            text_at = ((knee[0] + end[0]) / 2, end[1])
        else:
            knee = (end[0] - way * _BEND, start[1])
            text_at = ((start[0] + knee[0]) / 2, start[1])
        points = (start, knee, end)
    is_kept = bool(told.kept)
    return Arrow(
        points=points, text=label(told.text, longest), text_at=text_at, hover=told.hover,
        colour=GREEN if is_kept else GREY, is_dashed=not is_kept,
    )  # fmt: skip


def _told(step: KgStep, entity: str) -> str:
    links = [link for link in step.entities if link.entity_id == entity]
    return "; ".join(
        f"matched “{link.mention}” with {link.score:.3f}" for link in links if link.score is not None
    )  # fmt: skip


def _starred(name: str, is_answer: bool, longest: int) -> str:
    return f"★ {label(name, longest - 2)}" if is_answer else label(name, longest)


_CHAIN_ROW = 92.0
_CHAIN_HEIGHT = 52.0


def fact_chain(chain: FactChain) -> go.Figure:
    """A question's facts: from the starts that it names, over the bridges, to the answer, from left to right. An
    arrow leads from a fact's head to its tail, so one that points left is followed against its direction.
    """
    nodes = {node.id: node for node in (*chain.starts, *chain.bridges, chain.answer)}
    facts: dict[tuple[str, str], list[KgFact]] = {}
    for fact in chain.facts:
        facts.setdefault((fact.known, fact.found), []).append(fact)
    layers = layered(list(nodes), list(facts))
    share = 100 / layers.columns

    def at(place: Place) -> Point:
        return (place[0] + 0.5) * share, (place[1] + layers.rows / 2) * _CHAIN_ROW

    wide = min(_WIDTH, share * 0.54)
    kinds = {node.id: "start" for node in chain.starts} | {node.id: "bridge" for node in chain.bridges}
    boxes = {key: _station(node, kinds.get(key, "answer"), at(layers.places[key]), wide) for key, node in nodes.items()}
    arrows = []
    for (known, found), route in layers.routes.items():
        some = facts[known, found]
        points = (boxes[known].side(1), *map(at, route[1:-1]), boxes[found].side(-1))
        (x, y), (to_x, to_y) = points[:2]
        arrows.append(
            Arrow(
                points=points, text_at=((x + to_x) / 2, (y + to_y) / 2), is_backward=not some[0].is_forward,
                text=label(" · ".join(fact.triple.relation_label for fact in some), max(12, int(share * 0.9))),
                hover=hover(*(fact.triple.text for fact in some)),
            )
        )  # fmt: skip
    return drawing(list(boxes.values()), arrows, max(1, layers.rows) * _CHAIN_ROW)


def _station(node: KgNode, part: str, at: Point, width: float) -> Box:
    kind = ", ".join(filter(None, (node.kind, node.role)))
    longest = int(width * 1.6)
    name = _starred(node.label, part == "answer", longest)
    text = f"{name}<br>{part}{': ' + label(kind, max(8, longest - len(part))) if kind else ''}"
    aliases = f"also {', '.join(node.aliases)}" if node.aliases else ""
    return Box(
        at=at, width=width, height=_CHAIN_HEIGHT, text=text, is_strong=part == "start",
        colour=GOLD if part == "answer" else GREEN if part == "start" else GREY,
        hover=hover(f"{node.label} ({node.id})", kind, aliases),
    )  # fmt: skip
