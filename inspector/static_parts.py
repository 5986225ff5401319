"""Write the view of a row as HTML that needs no server: what is a widget on the page is folded, drawn or listed
here.
"""

from __future__ import annotations

import html as markup
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trailforge.inspector.charts import point_map
from trailforge.inspector.tree_chart import tree_chart
from trailforge.inspector.views.html import html_of, is_static, line_of
from trailforge.inspector.visible_text import escape_text, label
from trailforge.pipelines.show import (
    Columns,
    DataTable,
    DecideLink,
    Diagram,
    DiagramEdge,
    DiagramNode,
    Fold,
    Map,
    Part,
    Parts,
    SearchOn,
    Selector,
    Tabs,
    TreeDiagram,
)

_MOST_NODES = 60
"""Nodes of a search tree of which what is behind them is written."""
_LETTER, _LINE, _GAP = 6.6, 16, 70
"""Width of a letter, height of a line, and space between boxes, in pixels."""
_LONGEST_LINE = 44
_COLOURS = {
    "right": "#2e9e5b", "gold": "#d69e00", "wrong": "#d1453b", "mended": "#2a6fdb", "hop0": "#509e3d",
    "hop1": "#3b75af", "hop2": "#e8963e",
}  # fmt: skip


class StaticDrawing:
    """Writes the parts of one page as HTML; charts are numbered in the order in which they come."""

    def __init__(self) -> None:
        self._charts = itertools.count()

    def write(self, parts: Parts) -> str:
        """Write parts under each other."""
        return "".join(html_of(part) if is_static(part) else self._writers[type(part)](self, part) for part in parts)

    def chart(self, figure: Any) -> str:
        """Write a chart, which Plotly's file beside the pages draws."""
        import plotly.io

        figure.update_layout(
            paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(128,128,128,.06)", font={"color": "#888"}
        )
        return plotly.io.to_html(
            figure, include_plotlyjs=False, full_html=False, config={"displayModeBar": False},
            div_id=f"chart{next(self._charts)}", default_height=f"{figure.layout.height or 400}px",
        )  # fmt: skip

    def _tabs(self, part: Tabs) -> str:
        return "".join(_folded(tab.title, self.write(tab.parts()), number == 0) for number, tab in enumerate(part.tabs))

    def _selector(self, part: Selector) -> str:
        return "".join(
            _folded(_title(option.title, option.cells), self.write(option.parts()), number == part.first)
            for number, option in enumerate(part.options)
        )

    def _columns(self, part: Columns) -> str:
        widths = " ".join(f"minmax(0,{width:g}fr)" for width in part.widths or [1] * len(part.columns))
        cells = "".join(f"<div>{self.write(parts)}</div>" for parts in part.columns)
        return f'<div class="columns" style="grid-template-columns:{widths}">{cells}</div>'

    def _fold(self, part: Fold) -> str:
        return _folded(part.title, self.write(part.parts), part.is_open)

    def _tree(self, part: TreeDiagram) -> str:
        nodes = "".join(
            _fold_html(line_of(node.title), self.write(part.behind(number)))
            for number, node in enumerate(part.nodes[:_MOST_NODES])
        )
        rest = len(part.nodes) - _MOST_NODES
        more = f'<p class="quiet">and {rest:,} more nodes, which the page of `trailforge inspect` shows</p>'
        return f'<div class="quiet">{line_of(part.head)}</div>{self.chart(tree_chart(part))}{nodes}{more * (rest > 0)}'

    def _map(self, part: Map) -> str:
        figure = point_map(part.points, part.chosen, by_group=False, height=370)
        return f'{self.chart(figure)}<p class="quiet">{escape_text(part.caption)}</p>'

    _writers: Mapping[type[Part], Callable[[Any, Any], str]] = {
        Tabs: _tabs,
        Selector: _selector,
        Columns: _columns,
        Fold: _fold,
        TreeDiagram: _tree,
        Map: _map,
        DataTable: lambda self, part: table_of(part.rows),
        Diagram: lambda self, part: diagram(part),
        DecideLink: lambda self, part: "",
        SearchOn: lambda self, part: "",
    }


def table_of(rows: Sequence[Mapping[str, Any]], links: Sequence[str] = ()) -> str:
    """Write rows of plain values as an HTML table. `links` has for each row the target of its first cell."""
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{escape_text(name.replace('_', ' '))}</th>" for name in names)
    lines = []
    for number, row in enumerate(rows):
        cells = [_cell(row.get(name)) for name in names]
        if links:
            cells[0] = f'<a href="{markup.escape(links[number])}">{cells[0] or "–"}</a>'
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return f'<table class="rows"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else escape_text(str(value), 400)


def _folded(title: str, content: str, is_open: bool) -> str:
    return _fold_html(escape_text(title), content, is_open)


def _fold_html(title: str, content: str, is_open: bool = False) -> str:
    opened = " open" if is_open else ""
    return f'<details class="fold"{opened}><summary>{title}</summary><div>{content}</div></details>'


def _title(title: str, cells: Mapping[str, Any]) -> str:
    return " · ".join(str(value) for value in cells.values()) if cells else title


def diagram(part: Diagram) -> str:
    """Draw boxes and arrows as SVG, each box to the right of those that lead to it."""
    layers = list(_layers(part.nodes, part.edges))
    sizes = {node.id: _size(node) for node in part.nodes}
    places: dict[str, tuple[float, float]] = {}
    texts = (min(len(edge.text), _LONGEST_LINE) for edge in part.edges)
    gap = _GAP if part.is_downward else _GAP + _LETTER * max(texts, default=0)
    along = 10.0
    for layer in layers:
        across = 10.0
        for node in layer:
            width, height = sizes[node.id]
            places[node.id] = (across, along) if part.is_downward else (along, across)
            across += (width if part.is_downward else height) + 24
        along += max(sizes[node.id][1 if part.is_downward else 0] for node in layer) + gap
    width = max((x + sizes[each][0] for each, (x, _) in places.items()), default=0) + 10
    height = max((y + sizes[each][1] for each, (_, y) in places.items()), default=0) + 10
    edges = "".join(_edge(each, places, sizes, part.is_downward) for each in part.edges)
    boxes = "".join(_box(node, places[node.id], sizes[node.id]) for node in part.nodes)
    tip = (
        '<defs><marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto-start-reverse">'
        '<path d="M0,0 L9,4 L0,8 z" fill="currentColor"/></marker></defs>'
    )
    return (
        f'<svg class="diagram" role="img" aria-label="{escape_text(part.alt, 400)}" viewBox="0 0 {width:.0f} '
        f'{height:.0f}" style="width:{width:.0f}px;max-width:100%">{tip}{edges}{boxes}</svg>'
    )


def _layers(nodes: Sequence[DiagramNode], edges: Sequence[DiagramEdge]) -> Iterator[list[DiagramNode]]:
    """Nodes by the number of steps from where nothing leads to; of a circle the first node comes first."""
    before: dict[str, set[str]] = defaultdict(set)
    for edge in edges:
        if edge.source != edge.target:
            before[edge.target].add(edge.source)
    left = {node.id: node for node in nodes}
    while left:
        layer = [node for node in left.values() if not before[node.id] & left.keys()] or [next(iter(left.values()))]
        yield layer
        for node in layer:
            del left[node.id]


def _size(node: DiagramNode) -> tuple[float, float]:
    longest = max((min(len(line), _LONGEST_LINE) for line in node.lines), default=4)
    return longest * _LETTER + 20, len(node.lines) * _LINE + 12


def _box(node: DiagramNode, place: tuple[float, float], size: tuple[float, float]) -> str:
    (x, y), (width, height), colour = place, size, _COLOURS.get(node.kind, "#8a8f98")
    texts = "".join(
        f'<text class="line{min(number, 1)}" x="{x + 10:.0f}" y="{y + _LINE * (number + 1):.0f}">'
        f"{label(line, _LONGEST_LINE)}</text>"
        for number, line in enumerate(node.lines)
    )
    stroke = 3 if node.is_strong else 1.5
    return (
        f'<g><title>{escape_text(node.hover, 600)}</title><rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" rx="5" fill="none" stroke="{colour}" stroke-width="{stroke}"/>{texts}</g>'
    )


def _edge(
    edge: DiagramEdge, places: Mapping[str, tuple[float, float]], sizes: Mapping[str, tuple[float, float]],
    is_downward: bool,
) -> str:  # fmt: skip
    if edge.source not in places or edge.target not in places:
        return ""
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    (w1, h1), (w2, h2) = sizes[edge.source], sizes[edge.target]
    ends = (x1 + w1 / 2, y1 + h1, x2 + w2 / 2, y2) if is_downward else (x1 + w1, y1 + h1 / 2, x2, y2 + h2 / 2)
    colour = _COLOURS.get(edge.kind, "currentColor")
    dashed = ' stroke-dasharray="5 4"' if edge.is_dashed else ""
    marker = "marker-start" if edge.is_backward else "marker-end"
    return (
        f"<g><title>{escape_text(edge.hover, 600)}</title>"
        f'<line x1="{ends[0]:.0f}" y1="{ends[1]:.0f}" x2="{ends[2]:.0f}" y2="{ends[3]:.0f}" stroke="{colour}"{dashed} '
        f'{marker}="url(#tip)"/><text x="{ends[2] - 12:.0f}" y="{ends[3] - 5:.0f}" text-anchor="end">'
        f"{label(edge.text, _LONGEST_LINE)}</text></g>"
    )
