"""Documents as points in the plane: their embeddings seen along the two directions in which they differ most (PCA)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from trailforge.inspector.drawings.boxes import hover
from trailforge.inspector.visible_text import label

_COLOURS = ("#3b75af", "#e8963e", "#509e3d", "#b5433a", "#8d69b8", "#84584e", "#d57dbe", "#3fa7b5")
_GREY = "rgba(128,128,128,0.55)"
_CHOSEN = "#d1453b"
_MANY = 3000
"""Points from which on the browser's graphics hardware draws them."""
_SMALL = 300
"""Points up to which they are drawn large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """From d dimensions to two."""

    mean: np.ndarray
    """(d,)."""
    axes: np.ndarray
    """(d, 2): orthonormal columns; zeros where the vectors have no further direction."""
    kept: tuple[float, float]
    """Share of the variance along each axis."""

    def places(self, vectors: np.ndarray) -> np.ndarray:
        """(n, d) to (n, 2)."""
        return (vectors - self.mean) @ self.axes


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedDocument:
    """A point of the map."""

    id: str
    title: str
    source: str
    bundle: str
    """Uid of its bundle; empty when it is in none."""
    x: float
    y: float


def principal_axes(vectors: np.ndarray) -> Projection:
    """The two main directions of (n, d) vectors: the same for the same vectors, each with its largest part positive."""
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    variances, directions = np.linalg.eigh(centred.T @ centred)
    variances, directions = np.maximum(variances[::-1], 0.0), directions[:, ::-1]
    total = float(variances.sum())
    axes = np.zeros((len(mean), 2))
    shares = [0.0, 0.0]
    for number in range(min(2, len(mean))):
        if variances[number] > 1e-12 * max(total, 1e-12):
            axis = directions[:, number]
            axes[:, number] = axis * np.sign(axis[np.abs(axis).argmax()])
            shares[number] = float(variances[number]) / total
    return Projection(mean=mean, axes=axes, kept=(shares[0], shares[1]))


def document_map(
    documents: Sequence[MappedDocument], chosen: Sequence[MappedDocument], *, by_bundle: bool, height: int
) -> go.Figure:
    """All documents, coloured by source or by bundle; those of the chosen bundle on top, joined.

    `customdata` of a point is its bundle's uid. Sources beyond the eight largest are grey, as documents in no bundle.
    """
    kinds = [document.bundle if by_bundle else document.source for document in documents]
    colours = _colours_of(kinds, by_bundle)
    figure = go.Figure()
    _add_points(figure, documents, [colours.get(kind, _GREY) for kind in kinds])
    if not by_bundle:
        for source in dict.fromkeys(kind for kind in kinds if kind in colours):
            # an empty trace: its only use is the legend
            figure.add_trace(
                go.Scatter(x=[None], y=[None], mode="markers", marker_color=colours[source], name=label(source, 24))
            )
    _add_chosen(figure, chosen)
    figure.update_layout(
        height=height, margin={"l": 0, "r": 0, "t": 0, "b": 0}, hovermode="closest", dragmode="pan", uirevision="map",
        showlegend=not by_bundle, hoverlabel={"align": "left"},
        legend={"orientation": "h", "yanchor": "top", "y": -0.02, "x": 0, "itemclick": False, "itemdoubleclick": False},
        plot_bgcolor="rgba(128,128,128,0.06)",
        xaxis={"visible": False}, yaxis={"visible": False},
    )  # fmt: skip
    return figure


def _colours_of(kinds: Sequence[str], by_bundle: bool) -> dict[str, str]:
    """Colours by bundle, in turn; by source, of the largest ones."""
    if by_bundle:
        return {kind: _COLOURS[turn % len(_COLOURS)] for turn, kind in enumerate(dict.fromkeys(filter(None, kinds)))}
    largest = sorted(Counter(kinds).items(), key=lambda item: (-item[1], item[0]))[: len(_COLOURS)]
    return {kind: colour for (kind, _), colour in zip(largest, _COLOURS, strict=False)}


def _add_points(figure: go.Figure, documents: Sequence[MappedDocument], colours: Sequence[str]) -> None:
    many = len(documents) > _MANY
    size = 9 if len(documents) <= _SMALL else 6 if not many else 4
    whole = {"marker": {"opacity": 0.85}}  # a click must not fade the other points
    figure.add_trace(
        (go.Scattergl if many else go.Scatter)(
            x=[document.x for document in documents], y=[document.y for document in documents],
            customdata=[document.bundle for document in documents],
            hovertext=[_hover(document) for document in documents], hoverinfo="text", mode="markers",
            marker={"size": size, "color": list(colours), "opacity": 0.85}, selected=whole, unselected=whole,
            showlegend=False,
        )
    )  # fmt: skip


def _add_chosen(figure: go.Figure, chosen: Sequence[MappedDocument]) -> None:
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
            customdata=[each.bundle for each in chosen], hovertext=[_hover(each) for each in chosen], hoverinfo="text",
            marker={"size": 14, "color": _CHOSEN, "symbol": "circle-open", "line": {"width": 3}},
        )
    )  # fmt: skip


def _hover(document: MappedDocument) -> str:
    return hover(document.title or document.id, document.source, "" if document.bundle else "in no bundle")
