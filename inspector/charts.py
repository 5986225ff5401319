"""Draw the charts of the page in one look: bars, histograms and maps, and graphs as DOT, which the browser lays out."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import plotly.graph_objects as go

from trailforge.inspector.visible_text import drawn, label, visible
from trailforge.pipelines.cards import COLOURS
from trailforge.pipelines.show import Diagram, DiagramEdge, DiagramNode, MapPoint
from trailforge.schemas import StageCount

KEPT, GONE, FAILED, MENDED = "#2e9e5b", "#d1453b", "#9aa0a6", "#2a6fdb"
_LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}
_ROW = 30
"""Height of a bar in pixels."""
_HALF_LABEL = 30
"""Pixels that the label 100 % needs beyond the end of its axis."""
_FEW_TICKS = 6
"""The greatest count of an axis that has a tick at each."""
_GREY = "rgba(128,128,128,0.55)"
_CHOSEN = "#d1453b"
_MANY = 3000
"""Points from which on the browser's graphics hardware draws them."""
_SMALL = 300
"""Points up to which they are drawn large."""


_FORMS = "circle square diamond cross x triangle-up triangle-down star pentagon hexagram hourglass bowtie".split()
_SHAPES = [form + how for how in ("", "-open", "-dot", "-open-dot") for form in _FORMS]
"""Of points, as Plotly calls them: with eight colours they tell 384 sources apart."""
_Look: TypeAlias = tuple[str, str]
"""Colour and shape of a point."""

_HOVER_LINE, _HOVER_LINES = 70, 12
_BOX, _ARROW = 26, 34
"""Number of characters of a line in a box, and at an arrow, of a graph."""
_DOT_COLOURS = {
    "": "#8a8f98", "right": "#2e9e5b", "gold": "#d69e00", "wrong": "#d1453b", "mended": "#2a6fdb",
    "hop0": "#509e3d", "hop1": "#3b75af", "hop2": "#e8963e",
}  # fmt: skip


def funnel(books: Sequence[StageCount]) -> go.Figure:
    """Draw for each stage the shares of its input that it passed on, rejected and failed on.

    Stages count different things (questions, trees, candidates), so only their shares compare, not their lengths.
    """
    lines = [line for line in books if line.inputs]
    names = [f"{line.name}: {line.inputs:,} in" for line in lines]
    parts = {
        ("passed on", KEPT): [line.accepted for line in lines],
        ("rejected", GONE): [sum(each.count for each in line.rejected) for line in lines],
        ("failed", FAILED): [sum(each.count for each in line.failed) for line in lines],
    }
    bars = [
        _bars_of_part(name, colour, names, counts, "%{customdata[0]:,} of %{customdata[1]:,}").update(
            x=[count / line.inputs for count, line in zip(counts, lines, strict=True)],
            customdata=[[count, line.inputs] for count, line in zip(counts, lines, strict=True)],
        )
        for (name, colour), counts in parts.items()
        if any(counts)
    ]
    figure = _stacked(bars, len(lines))
    figure.update_xaxes(tickformat=".0%", range=[0, 1.001], dtick=0.25)
    figure.update_layout(margin_r=_HALF_LABEL)  # a label that does not fit beside the bars is not drawn at all
    return figure


def bars(counts: Mapping[str, int], colour: str = GONE) -> go.Figure:
    """Draw counts by name as bars, the largest on top; each bar's `customdata` is its name."""
    order = sorted(counts, key=lambda name: (-counts[name], name))
    figure = go.Figure(
        go.Bar(
            orientation="h",
            y=[label(name) for name in order],
            x=[counts[name] for name in order],
            text=[f"{counts[name]:,}" for name in order],
            textposition="auto",
            customdata=order,
            hovertemplate="%{y}: %{x:,}<extra></extra>",
            marker_color=colour,
        )
    )
    return _laid_out(figure, len(order), max(counts.values(), default=0))


def draw_stacked(parts: Mapping[str, tuple[str, Mapping[str, int]]]) -> go.Figure:
    """Draw counts by name as bars of named parts. `parts`: the colour of each part and its counts by name.

    A bar's `customdata` is its name.
    """
    names = sorted({name for _, counts in parts.values() for name in counts})
    bars = [
        _bars_of_part(part, colour, [*map(label, names)], [counts.get(name, 0) for name in names], "%{x:,}").update(
            customdata=names
        )
        for part, (colour, counts) in parts.items()
    ]
    figure = _stacked(bars, len(names))
    totals = [sum(counts.get(name, 0) for _, counts in parts.values()) for name in names]
    figure.update_xaxes(_tick_whole(max(totals, default=0)))
    return figure


def _bars_of_part(part: str, colour: str, names: Sequence[str], counts: Sequence[int], told: str) -> go.Bar:
    """The pieces of one part in stacked bars. `told`: of the count, under the pointer."""
    return go.Bar(
        name=part,
        orientation="h",
        y=names,
        x=counts,
        text=[f"{count:,}" if count else "" for count in counts],
        textangle=0,
        hovertemplate=f"%{{y}}: {told} {part}<extra></extra>",
        marker_color=colour,
    )


def _stacked(bars: Sequence[go.Bar], rows: int) -> go.Figure:
    return _laid_out(go.Figure(bars, {"barmode": "stack", "legend": _LEGEND}), rows)


def histogram(values: np.ndarray, unit: str, bins: int = 30) -> go.Figure:
    """Draw how often each value occurs, with a bar for each value where these are few whole numbers. Missing values are
    left out.

    A bar's `customdata` is its lower bound, its upper bound, and whether the latter is included, as only in the last
    bar (else 0). The bounds are equal where the bar is of one number.
    """
    values = values[~np.isnan(values)]
    whole = bool(len(values)) and bool(np.all(values == np.round(values))) and np.ptp(values) < bins
    try:
        counts, edges = np.histogram(values, bins=np.arange(values.min(), values.max() + 2) - 0.5 if whole else bins)
    except ValueError:  # they are too near to each other for so many bars
        counts, edges = np.histogram(values, bins=1, range=(values.min() - 0.5, values.max() + 0.5))
    middles, is_last = (edges[:-1] + edges[1:]) / 2, np.arange(len(counts)) == len(counts) - 1
    figure = go.Figure(
        go.Bar(
            x=middles,
            y=counts,
            width=np.diff(edges) * 0.95,
            marker_color=MENDED,
            customdata=np.stack(
                [*((middles, middles) if whole else (edges[:-1], edges[1:])), is_last], axis=1
            ).tolist(),
            hovertemplate=("%{x}" if whole else "%{customdata[0]:.4g} to %{customdata[1]:.4g}")
            + ": %{y:,} rows<extra></extra>",
        )
    )
    figure.update_xaxes(_tick_whole(int(np.ptp(values))) if whole else {}, title=unit)
    figure.update_yaxes(_tick_whole(int(counts.max())), title="rows")
    figure.update_layout(height=230, margin={"l": 10, "r": 10, "t": 10, "b": 40}, bargap=0)
    return figure


def trend(points: Mapping[str, Sequence[tuple[str, float, str]]], unit: str) -> go.Figure:
    """Draw a figure of runs over time, one line for each data set. `points` are (time, value, the run's name), and the
    name becomes the point's `customdata`.
    """
    figure = go.Figure(
        [
            go.Scatter(
                x=[when for when, _, _ in of_one],
                y=[value for _, value, _ in of_one],
                customdata=[name for _, _, name in of_one],
                name=label(dataset),
                mode="lines+markers",
                marker={"size": 9, "color": COLOURS[number % len(COLOURS)]},
                hovertemplate="%{customdata}<br>%{x}: %{y:.4g}<extra></extra>",
            )
            for number, (dataset, of_one) in enumerate(points.items())
        ]
    )
    figure.update_yaxes(title=unit, rangemode="tozero")
    if len({when for of_one in points.values() for when, _, _ in of_one}) == 1:
        figure.update_xaxes(type="category")  # of one time Plotly would tell parts of a second
    figure.update_layout(height=280, margin={"l": 10, "r": 10, "t": 10, "b": 30}, legend=_LEGEND, showlegend=True)
    return figure


def _tick_whole(most: int) -> dict[str, int]:
    """Ticks at whole numbers only, of an axis of counts: Plotly would put halves between few."""
    return {"dtick": 1} if most <= _FEW_TICKS else {}


def _laid_out(figure: go.Figure, rows: int, most: int | None = None) -> go.Figure:
    """`most`: the greatest of the counts along the bars, where these are counts."""
    if most is not None:
        figure.update_xaxes(_tick_whole(most))
    figure.update_yaxes(autorange="reversed", ticksuffix="  ")
    # A single bar needs the room of two: Plotly gives up the axis and lays the legend over the bar where there is less.
    height, gap = 70 + _ROW * max(rows, 2), 0.25 if rows > 1 else 0.6
    figure.update_layout(height=height, margin={"l": 10, "r": 10, "t": 10, "b": 10}, bargap=gap)
    return figure


def point_map(points: Sequence[MapPoint], chosen: Sequence[MapPoint], *, by_group: bool, height: int) -> go.Figure:
    """Draw all points of a map, coloured by source or by group, with those of the chosen row on top and connected.

    The `customdata` of a point is its group. Each source or group has a colour and a shape of its own, as long as there
    are enough; points in no group are grey. The legend has the chosen row's sources, then the largest.
    """
    kinds = [point.group if by_group else point.source for point in points]
    looks = _choose_looks(kinds, by_group)
    figure = go.Figure()
    _add_points(figure, points, [looks.get(kind, (_GREY, _SHAPES[0])) for kind in kinds])
    if not by_group:
        _add_legend(figure, looks, [point.source for point in chosen])
    _add_chosen(figure, chosen)
    figure.update_layout(
        height=height, margin={"l": 0, "r": 0, "t": 0, "b": 0}, hovermode="closest", dragmode="pan", uirevision="map",
        showlegend=not by_group, hoverlabel={"align": "left"},
        legend={"orientation": "h", "yanchor": "top", "y": -0.02, "x": 0, "itemclick": False, "itemdoubleclick": False},
        plot_bgcolor="rgba(128,128,128,0.06)",
        xaxis={"visible": False}, yaxis={"visible": False},
    )  # fmt: skip
    return figure


def _choose_looks(kinds: Sequence[str], by_group: bool) -> dict[str, _Look]:
    """Colours in turn, and another shape for each turn; of groups as they come, of sources the largest first."""
    if by_group:
        order = list(dict.fromkeys(filter(None, kinds)))
    else:
        order = [kind for kind, _ in sorted(Counter(kinds).items(), key=lambda item: (-item[1], item[0]))]
    return {
        kind: (COLOURS[turn % len(COLOURS)], _SHAPES[turn // len(COLOURS) % len(_SHAPES)])
        for turn, kind in enumerate(order)
    }


def _add_legend(figure: go.Figure, looks: Mapping[str, _Look], first: Sequence[str]) -> None:
    """Traces without points, whose only use is the legend."""
    named = [kind for kind in dict.fromkeys((*first, *looks)) if kind in looks][: len(COLOURS)]
    for kind in named:
        marker = dict(zip(("color", "symbol"), looks[kind], strict=True))
        figure.add_trace(go.Scatter(x=[None], y=[None], mode="markers", marker=marker, name=label(kind, 36)))
    if len(named) < len(looks):
        more = f"and {len(looks) - len(named):,} more, named under the pointer"
        figure.add_trace(
            go.Scatter(x=[None], y=[None], mode="markers", marker={"color": "rgba(0,0,0,0)"}, name=label(more))
        )


def _add_points(figure: go.Figure, points: Sequence[MapPoint], looks: Sequence[_Look]) -> None:
    many = len(points) > _MANY
    size = 9 if len(points) <= _SMALL else 6 if not many else 4
    whole = {"marker": {"opacity": 0.85}}  # a click must not fade the other points
    colours, shapes = [colour for colour, _ in looks], [shape for _, shape in looks]
    figure.add_trace(
        (go.Scattergl if many else go.Scatter)(
            x=np.array([point.x for point in points]), y=np.array([point.y for point in points]),
            customdata=np.array([point.group for point in points], object),
            hovertext=[hover(*point.hover) for point in points], hoverinfo="text", mode="markers",
            # Plotly looks at each of many shapes for a while; mostly all are alike.
            marker={
                "size": size, "opacity": 0.85, "color": colours,
                "symbol": shapes[0] if len({*shapes}) == 1 else shapes,
            },
            selected=whole, unselected=whole, showlegend=False,
        )
    )  # fmt: skip


def _add_chosen(figure: go.Figure, chosen: Sequence[MapPoint]) -> None:
    if not chosen:
        return
    middle = sum(each.x for each in chosen) / len(chosen), sum(each.y for each in chosen) / len(chosen)
    xs = [part for each in chosen for part in (each.x, middle[0], None)]
    ys = [part for each in chosen for part in (each.y, middle[1], None)]
    figure.add_trace(
        go.Scatter(x=xs, y=ys, mode="lines", line={"color": _CHOSEN, "width": 2}, hoverinfo="skip", showlegend=False)
    )
    figure.add_trace(
        go.Scatter(
            x=[each.x for each in chosen], y=[each.y for each in chosen], mode="markers", showlegend=False,
            customdata=[each.group for each in chosen], hoverinfo="text",
            hovertext=[hover(*each.hover) for each in chosen],
            marker={"size": 14, "color": _CHOSEN, "symbol": "circle-open", "line": {"width": 3}},
        )
    )  # fmt: skip


def lines(text: str, width: int, most: int) -> str:
    """Write a text as HTML in at most `most` lines of `width` characters, cut with an ellipsis."""
    shown = textwrap.wrap(text, width, max_lines=most, placeholder=" …") if text.strip() else []
    return "<br>".join(map(drawn, shown))


@lru_cache(maxsize=1 << 15)  # a map is drawn anew for each row, and wrapping its thousands of texts takes a second
def hover(*parts: str) -> str:
    """Write texts as HTML for a tooltip, each on lines of its own."""
    return "<br>".join(lines(part, _HOVER_LINE, _HOVER_LINES) for part in parts if part.strip())


def dot(graph: Diagram) -> str:
    """Write a graph in the language of Graphviz. Its texts get their colour from the page, which knows its theme."""
    names = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    nodes = [
        f"{names[node.id]} [{_attributes(label=_box(node), tooltip=node.hover or node.lines[0], **_look(node))}]"
        for node in graph.nodes
    ]
    edges = [
        f"{names[edge.source]} -> {names[edge.target]} [{_attributes(**_arrow(edge))}]"
        for edge in graph.edges
        if edge.source in names and edge.target in names
    ]
    common = _attributes(fontname="sans-serif", fontsize="11")
    way = "TB" if graph.is_downward else "LR"
    look = (f"graph [rankdir={way}, bgcolor=transparent, nodesep=0.25, ranksep=0.5]", f"node [shape=box, {common}]")
    return "\n".join(["digraph {", *look, f"edge [{common}]", *nodes, *edges, "}"])


def _box(node: DiagramNode) -> str:
    """Its lines, wrapped; the first one is its name."""
    wrapped = [textwrap.wrap(line, _BOX, max_lines=3, placeholder=" …") for line in node.lines]
    return "\n".join(line for each in wrapped for line in each)


def _look(node: DiagramNode) -> dict[str, str]:
    colour = _DOT_COLOURS.get(node.kind, _DOT_COLOURS[""])
    width = "2.5" if node.is_strong else "1"
    return {"color": colour, "fillcolor": f"{colour}29", "style": "filled,rounded", "penwidth": width}


def _arrow(edge: DiagramEdge) -> dict[str, str]:
    colour = _DOT_COLOURS.get(edge.kind, _DOT_COLOURS[""])
    look = {"color": colour, "tooltip": edge.hover or edge.text, "style": "dashed" if edge.is_dashed else "solid"}
    way = {"dir": "back"} if edge.is_backward else {}
    return look | way | {"label": textwrap.shorten(edge.text, _ARROW, placeholder=" …"), "labeltooltip": edge.hover}


def _attributes(**attributes: str) -> str:
    return ", ".join(f"{name}={_quote(value)}" for name, value in attributes.items())


def _quote(text: str) -> str:
    """As a quoted string: what Graphviz reads in one are `\\`, quotation marks and HTML's entities."""
    parts = (visible(line) for line in text.split("\n"))
    return '"' + "\\n".join(p.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for p in parts) + '"'
