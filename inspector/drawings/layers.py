"""Where the nodes of a directed graph stand when all arrows lead from left to right.

The usual way (Sugiyama et al. 1981): longest paths give columns, an edge over several columns gets a place in each,
means of neighbours give the order in a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx

Edge = tuple[str, str]
Place = tuple[int, float]
"""Column from 0, row: 0 is the middle, columns may have halves."""
_SWEEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Places of a graph's nodes."""

    places: dict[str, Place]
    """No two are the same."""
    routes: dict[Edge, tuple[Place, ...]]
    """Of each edge, the places that it goes through from its source to its target, both included."""
    turned: frozenset[Edge]
    """Edges that close a circle; they lead to the left."""
    columns: int
    rows: int
    """Places in the fullest column."""


def layered(keys: Sequence[str], edges: Sequence[Edge]) -> Layers:
    """Places of all nodes; every end of an edge has to be one of `keys`."""
    graph = nx.DiGraph()
    graph.add_nodes_from(keys)
    turned: set[Edge] = set()
    for src, dst in edges:
        if nx.has_path(graph, dst, src):
            turned.add((src, dst))
        else:
            graph.add_edge(src, dst)
    column = _columns(graph)
    through = _with_stops(graph, column)
    rows = _rows(through, column)
    places: dict[Any, Place] = {node: (column[node], row) for node, row in rows.items()}
    routes = {
        edge: (places[edge[0]], *(places[stop] for stop in _stops(edge, column)), places[edge[1]])
        for edge in graph.edges
    } | {edge: (places[edge[0]], places[edge[1]]) for edge in turned}
    return Layers(
        places={key: places[key] for key in keys},
        routes=routes,
        turned=frozenset(turned),
        columns=1 + max(column.values(), default=0),
        rows=max((list(column[node] for node in through).count(c) for c in set(column.values())), default=0),
    )


def _columns(graph: nx.DiGraph) -> dict[Any, int]:
    """By longest path from the left; what nothing leads to stands just before what it leads to."""
    column: dict[Any, int] = {}
    for node in nx.topological_sort(graph):
        column[node] = max((column[before] + 1 for before in graph.predecessors(node)), default=0)
    for node in graph:
        if graph.out_degree(node) and not graph.in_degree(node):
            column[node] = min(column[after] for after in graph.successors(node)) - 1
    return column


def _stops(edge: Edge, column: dict[Any, int]) -> list[Any]:
    """Names of the places that an edge takes up in the columns between its ends."""
    return [(*edge, between) for between in range(column[edge[0]] + 1, column[edge[1]])]


def _with_stops(graph: nx.DiGraph, column: dict[Any, int]) -> nx.DiGraph:
    """The graph with every edge cut into steps from a column to the next; `column` learns of the stops."""
    through = nx.DiGraph()
    through.add_nodes_from(graph)
    for edge in graph.edges:
        stops = _stops(edge, column)
        column |= {stop: column[edge[0]] + number for number, stop in enumerate(stops, start=1)}
        nx.add_path(through, [edge[0], *stops, edge[1]])
    return through


def _rows(graph: nx.DiGraph, column: dict[Any, int]) -> dict[Any, float]:
    """Rows, a column's nodes one apart and around 0."""
    layers: dict[int, list[Any]] = {}
    for node in graph:
        layers.setdefault(column[node], []).append(node)
    rows: dict[Any, float] = {}
    for layer in layers.values():
        _spread(layer, rows)
    for sweep in range(_SWEEPS):
        is_back = sweep % 2 == 1
        for number in sorted(layers, reverse=is_back):
            near = graph.successors if is_back else graph.predecessors
            means = {node: _mean([rows[each] for each in near(node)], rows[node]) for node in layers[number]}
            layers[number].sort(key=means.__getitem__)
            _spread(layers[number], rows)
    return rows


def _spread(layer: Sequence[Any], rows: dict[Any, float]) -> None:
    for number, node in enumerate(layer):
        rows[node] = number - (len(layer) - 1) / 2


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
