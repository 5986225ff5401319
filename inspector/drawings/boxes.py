"""Boxes joined by labelled arrows: what the drawings of plans, facts and triples are made of.

Places: x in per cent of the drawing's width, y in pixels from its top, so a drawing fits any width and its rows keep
their height.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from trailforge.inspector.visible_text import drawn

GREEN, RED, BLUE, GREY, GOLD = "46,158,91", "209,69,59", "42,111,219", "128,128,128", "214,158,0"
"""Red, green, blue. Boxes are filled with little of them, so text stays readable on light and dark."""
Point = tuple[float, float]
_WIDTH = 900
"""Pixels for which angles are right: the true width is known to the browser alone."""
_HEAD = 14
"""Length of an arrow's head in pixels."""
_HOVER_LINE = 70
_HOVER_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A node."""

    at: Point
    """Its centre."""
    width: float
    """Per cent."""
    height: float
    """Pixels."""
    text: str
    """HTML, made by `lines` or `visible_text.label`; so are all texts below."""
    hover: str
    colour: str
    is_strong: bool = False

    def side(self, of: int) -> Point:
        """The middle of its right side (1) or left side (-1)."""
        return self.at[0] + of * self.width / 2, self.at[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """An edge, along two or more points."""

    points: tuple[Point, ...]
    text: str = ""
    text_at: Point = (0.0, 0.0)
    """The text stands above this point."""
    hover: str = ""
    colour: str = GREY
    is_dashed: bool = False
    is_backward: bool = False
    """The head is at the first point."""


def lines(text: str, width: int, most: int) -> str:
    """Text as HTML in at most so many lines of so many characters, cut with an ellipsis."""
    shown = textwrap.wrap(text, width, max_lines=most, placeholder=" …") if text.strip() else []
    return "<br>".join(map(drawn, shown))


def hover(*parts: str) -> str:
    """Texts as HTML for what is shown under the pointer, each on lines of its own."""
    return "<br>".join(lines(part, _HOVER_LINE, _HOVER_LINES) for part in parts if part.strip())


def drawing(boxes: Sequence[Box], arrows: Sequence[Arrow], height: float) -> go.Figure:
    """The figure, `height` pixels high. Its shapes are the boxes, its last trace has what is under the pointer."""
    spots = [(*box.at, box.hover) for box in boxes] + [(*arrow.text_at, arrow.hover) for arrow in arrows if arrow.hover]
    pointer = {
        "type": "scatter", "mode": "markers", "marker": {"size": 30, "opacity": 0}, "hoverinfo": "text",
        "x": [x for x, _, _ in spots], "y": [y for _, y, _ in spots], "hovertext": [text for *_, text in spots],
    }  # fmt: skip
    heads, texts = [_head(arrow) for arrow in arrows], [_arrow_text(arrow) for arrow in arrows if arrow.text]
    # given all at once: plotly checks a list anew at each thing that is added to it
    return go.Figure(
        data=[*map(_line, arrows), pointer],
        layout={
            "shapes": [_frame(box) for box in boxes],
            "annotations": [*heads, *texts, *map(_box_text, boxes)],
            "height": height, "margin": {"l": 0, "r": 0, "t": 0, "b": 0}, "showlegend": False, "hovermode": "closest",
            "hoverdistance": 60, "dragmode": False, "hoverlabel": {"align": "left"},
            "plot_bgcolor": "rgba(0,0,0,0)", "paper_bgcolor": "rgba(0,0,0,0)",
            "xaxis": {"range": [0, 100], "visible": False, "fixedrange": True},
            "yaxis": {"range": [height, 0], "visible": False, "fixedrange": True},
        },
    )  # fmt: skip


def _frame(box: Box) -> dict[str, Any]:
    (x, y), right, down = box.at, box.width / 2, box.height / 2
    line = {"color": f"rgba({box.colour},{0.95 if box.is_strong else 0.6})", "width": 2.5 if box.is_strong else 1}
    return {
        "type": "rect", "x0": x - right, "x1": x + right, "y0": y - down, "y1": y + down, "layer": "above",
        "fillcolor": f"rgba({box.colour},0.16)", "line": line,
    }  # fmt: skip


def _box_text(box: Box) -> dict[str, Any]:
    text = f"<b>{box.text}</b>" if box.is_strong else box.text
    return {"x": box.at[0], "y": box.at[1], "text": text, "showarrow": False, "font": {"size": 12}, "align": "center"}


def _line(arrow: Arrow) -> dict[str, Any]:
    line = {"color": f"rgba({arrow.colour},0.85)", "width": 2}
    return {
        "type": "scatter", "mode": "lines", "hoverinfo": "skip",
        "x": [x for x, _ in arrow.points], "y": [y for _, y in arrow.points],
        "line": line | {"width": 1.4, "dash": "4px,4px"} if arrow.is_dashed else line,
    }  # fmt: skip


def _head(arrow: Arrow) -> dict[str, Any]:
    """An arrow of its own, as short as its head: annotations cannot be dashed."""
    (from_x, from_y), (x, y) = arrow.points[1::-1] if arrow.is_backward else arrow.points[-2:]
    length = math.hypot((x - from_x) * _WIDTH / 100, y - from_y) or 1.0
    part = min(1.0, _HEAD / length)
    return {
        "x": x, "y": y, "ax": x + (from_x - x) * part, "ay": y + (from_y - y) * part, "text": "", "showarrow": True,
        "xref": "x", "yref": "y", "axref": "x", "ayref": "y",
        "arrowhead": 2, "arrowsize": 1.1, "arrowwidth": 2, "arrowcolor": f"rgba({arrow.colour},0.85)",
    }  # fmt: skip


def _arrow_text(arrow: Arrow) -> dict[str, Any]:
    return {
        "x": arrow.text_at[0], "y": arrow.text_at[1], "text": arrow.text, "showarrow": False, "yshift": 9,
        "font": {"size": 11}, "opacity": 0.75 if arrow.is_dashed else 1.0,
    }  # fmt: skip
