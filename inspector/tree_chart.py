"""Draw a question's search tree: plans from the top down, sized by visits, coloured by value (MSearcher, section
3.1.2).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from trailforge.inspector.visible_text import label
from trailforge.pipelines.show import ShownNode, TreeDiagram, TreePath

Place = tuple[float, float]
WIDTH = 950
"""Width in pixels that the drawing is made for; it stretches."""
_LABEL_WIDTH = 52
"""Pixels that `V 0.50` needs, with some space around it."""
_SMALLEST, _LARGEST = 12, 40
"""Smallest and largest diameter of nodes in pixels."""
_COLOURS = [[0.0, "#d1453b"], [0.5, "#e8c64c"], [1.0, "#2e9e5b"]]
_CLICKED = "#8e44ec"
"""Of the node that was clicked. The browser paints it: were the figure drawn anew, a zoomed view would be lost."""
_CROWDED = 24
"""Pixels between leaves below which they are put in several rows."""
_GREY = "rgba(128,128,128,.55)"
_PATHS = {"wrong": "#d1453b", "mended": "#2a6fdb"}


def positions(nodes: Sequence[ShownNode]) -> dict[int, Place]:
    """Compute x, y of each node: leaves side by side at distance 1, parents over the middle of their children, y =
    -depth.

    Nodes of one depth are at least 1 apart.
    """
    known = {node.id for node in nodes}
    children: defaultdict[int | None, list[int]] = defaultdict(list)
    for node in nodes:
        children[node.parent if node.parent in known else None].append(node.id)
    depth = {node.id: node.depth for node in nodes}
    places: dict[int, Place] = {}
    slots = 0

    def place(each: int) -> float:
        nonlocal slots
        below = [place(child) for child in children[each]]
        if not below:
            slots += 1
        x = (below[0] + below[-1]) / 2 if below else float(slots - 1)
        places[each] = (x, -float(depth[each]))
        return x

    for root in children[None]:
        place(root)
    return places


def _stagger(places: Mapping[int, Place], nodes: Sequence[ShownNode]) -> dict[int, Place]:
    """Nodes without children in three rows, so that those at distance 1 do not cover each other."""
    parents = {node.parent for node in nodes}
    return {each: (x, y if each in parents else y - 0.3 * (int(x) % 3)) for each, (x, y) in places.items()}


def path_to(nodes: Sequence[ShownNode], node: int) -> list[int]:
    """Return the ids of the nodes from the root to a node."""
    parents = {each.id: each.parent for each in nodes}
    way: list[int] = []
    at: int | None = node
    while at is not None and at in parents and at not in way:
        way.append(at)
        at = parents[at]
    return way[::-1]


def tree_chart(tree: TreeDiagram) -> go.Figure:
    """Return a chart of a search tree; each point's `customdata` is its node's id."""
    places = positions(tree.nodes)
    shown = [node for node in tree.nodes if node.id in places]
    paths = [path for path in tree.paths if path.node in places]
    ringed = {path.node for path in paths}
    leaves = max((x for x, _ in places.values()), default=0.0) + 1
    room = WIDTH / leaves
    largest = max(_SMALLEST, min(_LARGEST, room * 0.8))
    sizes = _sizes(shown, largest)
    named = _with_room(places, room, largest) | ringed | {0}
    if room < _CROWDED:
        places = _stagger(places, shown)
    figure = go.Figure()
    figure.add_trace(_lines(_edges(shown, places), _GREY, 1.2))
    for rank, path in enumerate(paths):
        way = path_to(tree.nodes, path.node)
        pairs = [(places[a], places[b]) for a, b in pairwise(way)]
        figure.add_trace(_lines(pairs, _PATHS[path.kind], 5 if rank == 0 else 2.5))
        figure.add_trace(_ring(path, places, sizes, rank))
    for visited in (True, False):
        group = [node for node in shown if bool(node.visits) == visited]
        if group:
            figure.add_trace(_points(tree, group, places, sizes, named, ringed, visited))
    figure.add_traces(_origins(tree))
    _lay_out(figure, max((node.depth for node in shown), default=0), leaves)
    return figure


def _sizes(nodes: Sequence[ShownNode], largest: float) -> dict[int, float]:
    """Areas grow with visits."""
    most = max((node.visits for node in nodes), default=0) or 1
    return {node.id: _SMALLEST + (largest - _SMALLEST) * math.sqrt(node.visits / most) for node in nodes}


def _with_room(places: Mapping[int, Place], room: float, largest: float) -> set[int]:
    """Nodes whose label, on their right, would not run into the next node."""
    levels: defaultdict[float, list[tuple[float, int]]] = defaultdict(list)
    for each, (x, y) in places.items():
        levels[y].append((x, each))
    found: set[int] = set()
    for level in levels.values():
        for (x, each), (following, _) in pairwise([*sorted(level), (math.inf, -1)]):
            if (following - x) * room >= _LABEL_WIDTH + largest:
                found.add(each)
    return found


def _edges(nodes: Iterable[ShownNode], places: Mapping[int, Place]) -> list[tuple[Place, Place]]:
    with_parent = ((node.parent, node.id) for node in nodes if node.parent is not None)
    return [(places[parent], places[child]) for parent, child in with_parent if parent in places]


def _origins(tree: TreeDiagram) -> list[go.Scatter]:
    """What the shapes mean; in grey, for the colours mean something else."""
    line = {"width": 1.5, "color": "#888"}
    kinds = [(name, shape, "rgba(128,128,128,.7)") for shape, name in tree.origins.values()]
    kinds += [("no rollout", "circle", "rgba(128,128,128,.12)"), ("clicked", "circle", _CLICKED)]
    return [
        go.Scatter(
            x=[None], y=[None], mode="markers", name=name, hoverinfo="skip",
            marker={"symbol": symbol, "color": colour, "size": 11, "line": line},
        )
        for name, symbol, colour in kinds
    ]  # fmt: skip


def _lines(pairs: Iterable[tuple[Place, Place]], colour: str, width: float) -> go.Scatter:
    """Down, across, down: so no line crosses a label, which stands beside its node."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for (x, y), (to_x, to_y) in pairs:
        middle = y - 0.5
        xs += [x, x, to_x, to_x, None]
        ys += [y, middle, middle, to_y, None]
    line = {"color": colour, "width": width}
    return go.Scatter(x=xs, y=ys, mode="lines", line=line, hoverinfo="skip", showlegend=False)


def _ring(path: TreePath, places: Mapping[int, Place], sizes: Mapping[int, float], rank: int) -> go.Scatter:
    x, y = places[path.node]
    marker = {"size": sizes[path.node] + 12 + 10 * rank, "symbol": "circle-open", "color": _PATHS[path.kind]}
    return go.Scatter(
        x=[x], y=[y], mode="markers", name=label(path.name), customdata=[path.node], hoverinfo="skip",
        marker={**marker, "line": {"width": 3, "color": _PATHS[path.kind]}}, unselected={"marker": {"opacity": 1.0}},
    )  # fmt: skip


def _points(
    tree: TreeDiagram,
    nodes: Sequence[ShownNode],
    places: Mapping[int, Place],
    sizes: Mapping[int, float],
    named: set[int],
    ringed: set[int],
    visited: bool,
) -> go.Scatter:
    """Nodes with a value, or those that were never rolled out, which have none and so no colour."""
    marker: dict[str, Any] = {
        "size": [sizes[node.id] for node in nodes],
        "symbol": [tree.origins[node.origin][0] for node in nodes],
        "opacity": 1.0,
        "line": {"width": 1.5, "color": "rgba(60,60,60,.8)"},
    }
    if visited:
        marker |= {"color": [node.value for node in nodes], "coloraxis": "coloraxis"}
    else:
        marker |= {"color": "rgba(128,128,128,.25)"}
    return go.Scatter(
        x=[places[node.id][0] for node in nodes],
        y=[places[node.id][1] for node in nodes],
        mode="markers+text",
        showlegend=False,
        text=[_short(node, node.id in ringed) if node.id in named else "" for node in nodes],
        textposition="middle right",
        customdata=[node.id for node in nodes],
        hovertext=[_hover(tree, node) for node in nodes],
        hoverinfo="text",
        marker=marker,
        selected={"marker": {"opacity": 1.0, "color": _CLICKED}},
        unselected={"marker": {"opacity": 1.0}, "textfont": {"color": "#888"}},
    )


def _short(node: ShownNode, is_ringed: bool) -> str:
    space = "\u2003" if is_ringed else "\u2002"
    return f"{space}V {node.value:.2f}<br>{space}n {node.visits}" if node.visits else f"{space}n 0"


def _hover(tree: TreeDiagram, node: ShownNode) -> str:
    value = f"V {node.value:.2f} over n {node.visits} rollouts" if node.visits else "no rollout"
    plan = [f"{number}. {label(text, 110)}" for number, text in enumerate(node.steps, start=1)]
    return "<br>".join([f"<b>node {node.id}</b>, {tree.origins[node.origin][1]}, depth {node.depth}", value, *plan])


def _lay_out(figure: go.Figure, deepest: int, leaves: float) -> None:
    for depth in range(deepest + 1):
        figure.add_hline(
            y=-depth, line={"color": "rgba(128,128,128,.25)", "dash": "dot", "width": 1}, layer="below",
            annotation={"text": f"depth {depth}", "font": {"size": 11, "color": "#888"}, "showarrow": False},
            annotation_position="top left",
        )  # fmt: skip
    pixel = leaves / WIDTH
    lowest = deepest + (0.45 if 1 / pixel >= _CROWDED else 0.9)
    figure.update_xaxes(visible=False, range=[-max(0.5, 65 * pixel), leaves - 1 + max(0.5, 90 * pixel)])
    figure.update_yaxes(visible=False, range=[-lowest, 0.45])
    figure.update_layout(
        height=min(560, 70 + round(78 * (lowest + 0.55))),
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        dragmode="pan",
        uirevision="tree",
        hoverlabel={"align": "left"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "itemsizing": "constant"},
        coloraxis={
            "colorscale": _COLOURS,
            "cmin": 0,
            "cmax": 1,
            "colorbar": {"title": {"text": "V"}, "thickness": 12, "tickvals": [0, 0.5, 1]},
        },
    )
