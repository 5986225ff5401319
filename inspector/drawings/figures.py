"""Bars and histograms in one look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from trailforge.inspector.visible_text import label
from trailforge.schemas import StageCount

KEPT, GONE, FAILED, MENDED = "#2e9e5b", "#d1453b", "#9aa0a6", "#2a6fdb"
_LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}
_ROW = 30
"""Height of a bar in pixels."""


def funnel(books: Sequence[StageCount]) -> go.Figure:
    """What each stage took in, as what it passed on, rejected and failed on; each line in shares of its own input.

    Stages count different things (questions, trees, candidates), so their lengths do not compare; their shares do.
    """
    lines = [line for line in books if line.inputs]
    names = [line.name for line in lines]
    parts = {
        ("passed on", KEPT): [line.accepted for line in lines],
        ("rejected", GONE): [sum(each.count for each in line.rejected) for line in lines],
        ("failed", FAILED): [sum(each.count for each in line.failed) for line in lines],
    }
    bars = [
        go.Bar(
            name=name,
            orientation="h",
            y=names,
            x=[count / line.inputs for count, line in zip(counts, lines, strict=True)],
            text=[f"{count:,}" if count else "" for count in counts],
            textangle=0,
            customdata=[[count, line.inputs] for count, line in zip(counts, lines, strict=True)],
            hovertemplate="%{y}: %{customdata[0]:,} of %{customdata[1]:,} " + name + "<extra></extra>",
            marker_color=colour,
        )
        for (name, colour), counts in parts.items()
        if any(counts)
    ]
    figure = go.Figure(bars)
    figure.update_layout(barmode="stack", legend=_LEGEND)
    figure.update_xaxes(tickformat=".0%", range=[0, 1.001])
    return _laid_out(figure, len(lines))


def bars(counts: Mapping[str, int], colour: str = GONE) -> go.Figure:
    """Counts by name, the greatest on top; each bar's `customdata` is its name."""
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
    return _laid_out(figure, len(order))


def stacked(parts: Mapping[str, tuple[str, Mapping[str, int]]]) -> go.Figure:
    """Counts by name, each bar made of named parts: part -> its colour and its counts by name."""
    names = sorted({name for _, counts in parts.values() for name in counts})
    figure = go.Figure(
        [
            go.Bar(
                name=part,
                orientation="h",
                y=[label(name) for name in names],
                x=[counts.get(name, 0) for name in names],
                text=[f"{counts[name]:,}" if counts.get(name) else "" for name in names],
                textangle=0,
                hovertemplate="%{y}: %{x:,} " + part + "<extra></extra>",
                marker_color=colour,
            )
            for part, (colour, counts) in parts.items()
        ]
    )
    figure.update_layout(barmode="stack", legend=_LEGEND)
    return _laid_out(figure, len(names))


def histogram(values: np.ndarray, unit: str, bins: int = 30) -> go.Figure:
    """How often which value; few whole numbers get a bar each. Rows without a value do not count."""
    values = values[~np.isnan(values)]
    whole = bool(len(values)) and bool(np.all(values == np.round(values))) and np.ptp(values) < bins
    counts, edges = np.histogram(values, bins=np.arange(values.min(), values.max() + 2) - 0.5 if whole else bins)
    figure = go.Figure(
        go.Bar(
            x=(edges[:-1] + edges[1:]) / 2,
            y=counts,
            width=np.diff(edges) * 0.95,
            marker_color=MENDED,
            customdata=np.stack([edges[:-1], edges[1:]], axis=1),
            hovertemplate=("%{x}" if whole else "%{customdata[0]:.4g} to %{customdata[1]:.4g}")
            + ": %{y:,} rows<extra></extra>",
        )
    )
    figure.update_xaxes(title=unit)
    figure.update_yaxes(title="rows")
    figure.update_layout(height=230, margin={"l": 10, "r": 10, "t": 10, "b": 40}, bargap=0)
    return figure


def _laid_out(figure: go.Figure, rows: int) -> go.Figure:
    figure.update_yaxes(autorange="reversed", ticksuffix="  ")
    figure.update_layout(height=70 + _ROW * max(rows, 1), margin={"l": 10, "r": 10, "t": 10, "b": 10}, bargap=0.25)
    return figure
