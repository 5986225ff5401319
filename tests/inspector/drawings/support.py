"""What the tests of drawings ask of a figure."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import plotly.graph_objects as go

EVIL = '<b onmouseover=alert(1)>bold</b> <a href="javascript:x">l</a> \x1b[31m \u202e “q" & 1 < 2'
"""Nothing of it may act in a label."""


def layout_of(figure: go.Figure) -> Any:
    """Type checkers do not know its parts."""
    return figure.layout


def shapes_of(figure: go.Figure) -> list[Any]:
    """The frames of the boxes."""
    return list(layout_of(figure).shapes)


def arrows_of(figure: go.Figure) -> list[Any]:
    """The heads of the arrows."""
    return [note for note in layout_of(figure).annotations if note.showarrow]


def boxes_of(figure: go.Figure) -> list[tuple[float, float, float, float]]:
    """Left, right, top and bottom of each box."""
    return [(shape.x0, shape.x1, shape.y0, shape.y1) for shape in shapes_of(figure)]


def check_boxes(figure: go.Figure) -> None:
    """They are apart, and inside of the drawing."""
    for (x0, x1, y0, y1), (u0, u1, v0, v1) in combinations(boxes_of(figure), 2):
        assert x1 <= u0 or u1 <= x0 or y1 <= v0 or v1 <= y0
    for x0, x1, y0, y1 in boxes_of(figure):
        assert 0 <= x0 < x1 <= 100 and 0 <= y0 < y1 <= layout_of(figure).height


def labels_of(figure: go.Figure) -> list[str]:
    """Texts that are drawn."""
    return [note.text for note in layout_of(figure).annotations if note.text]


def hovers_of(figure: go.Figure) -> list[str]:
    """Texts that are shown under the pointer."""
    return [text for trace in figure.data if trace.hovertext is not None for text in trace.hovertext]


def tags_in(texts: list[str]) -> set[str]:
    """HTML that acts in the texts."""
    return {part.split(">")[0] for text in texts for part in text.split("<")[1:]}
