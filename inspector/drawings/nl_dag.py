"""A search plan (NL-DAG of R-Search, section 3.2) drawn: searches by column, an arrow where one needs another."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from trailforge.inspector.drawings.boxes import GREY, RED, Arrow, Box, Point, drawing, hover, lines
from trailforge.inspector.drawings.layers import Place, layered
from trailforge.inspector.visible_text import label
from trailforge.schemas import PlanEdge, PlanNode

TOOLS = {"News": "232,150,62", "Academic": "59,117,175", "General": "80,158,61"}
"""Colours by tool; others are grey."""
_ROW = 118.0
"""Pixels from one row to the next."""
_HEIGHT = 98.0
_FILLED = 0.76
"""Of a column's width."""
_WIDEST = 46.0
_CHARACTERS = 0.62
"""Per per cent of width."""


def nl_dag(nodes: Sequence[PlanNode], edges: Sequence[PlanEdge]) -> go.Figure:
    """The plan, whether it is valid or not: searches that edges name and the plan lacks, and circles, are red."""
    known = {node.node_id: node for node in nodes}
    keys = list(dict.fromkeys([*known, *(end for edge in edges for end in (edge.src, edge.dst))]))
    layers = layered(keys, list(dict.fromkeys((edge.src, edge.dst) for edge in edges)))
    wide = min(_WIDEST, _FILLED * 100 / layers.columns)

    def at(place: Place) -> Point:
        return (place[0] + 0.5) * 100 / layers.columns, (place[1] + layers.rows / 2) * _ROW

    boxes = {key: _box(key, known.get(key), at(layers.places[key]), wide) for key in keys}
    arrows = []
    for (src, dst), route in layers.routes.items():
        is_turned = (src, dst) in layers.turned
        ends = boxes[src].side(-1 if is_turned else 1), boxes[dst].side(1 if is_turned else -1)
        points = (ends[0], *map(at, route[1:-1]), ends[1])
        arrows.append(Arrow(points=points, colour=RED if is_turned else GREY))
    return drawing(list(boxes.values()), arrows, max(1, layers.rows) * _ROW)


def _box(name: str, node: PlanNode | None, at: Point, width: float) -> Box:
    if node is None:
        text, told, colour = f"<b>{label(name, 12)}</b><br>not in the plan", hover(f"{name} is not in the plan"), RED
    else:
        query = lines(node.query, max(12, int(width * _CHARACTERS)), 4)
        text = f"<b>{label(node.node_id, 12)} · {label(node.tool, 20)}</b><br>{query}"
        told, colour = hover(f"{node.node_id} · {node.tool}", node.query), TOOLS.get(node.tool, GREY)
    return Box(at=at, width=width, height=_HEIGHT, text=text, hover=told, colour=colour)
