"""When a search plan is a valid NL-DAG, and what that pays (R-Search, sections 3.3 and 3.4).

These rules look at nodes and edges and know nothing of how a plan is written: that is `protocols.nl_dag`, which
builds on them. So a row's gold plan and an agent's plan are held against the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from trailforge.schemas import PlanEdge, PlanNode

TOOLS = ("News", "Academic", "General")
"""The paper's tools. Names are compared without case."""
MAX_NODES = 8

PlanProblemKind = Literal[
    "syntax",
    "no_nodes",
    "too_many_nodes",
    "malformed_id",
    "duplicate_id",
    "missing_query",
    "missing_tool",
    "unknown_tool",
    "unknown_node",
    "self_edge",
    "cycle",
]
"""`syntax` is for text that cannot be read as a plan (`protocols.nl_dag`); the others are broken rules of this file."""

# The headings of the two lists cannot be ids: `Edges: …` would be read as the heading.
_NODE_ID = re.compile(r"(?!(?:nodes|edges)$)[a-z0-9_]+", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProblem:
    """A rule that a plan breaks."""

    kind: PlanProblemKind
    message: str
    """One line: where, what was expected, what was found."""
    node_id: str | None = None
    """The node that breaks it; None when that is not a matter of one node."""


def is_node_id(text: str) -> bool:
    """Can it name a node: ASCII letters, digits and underscores, but not `Nodes` or `Edges`?"""
    return bool(_NODE_ID.fullmatch(text))


def dag_problems(
    nodes: Sequence[PlanNode],
    edges: Sequence[PlanEdge],
    *,
    tools: Collection[str] = TOOLS,
    max_nodes: int = MAX_NODES,
) -> list[PlanProblem]:
    """Every rule that the plan breaks; empty when it is valid. An edge said twice is no problem: it counts once."""
    return [
        *_size_problems(nodes, max_nodes),
        *_id_problems(nodes),
        *_node_problems(nodes, tools),
        *_edge_problems(nodes, edges),
        *_cycles(edges),
    ]


def dag_reward(
    nodes: Sequence[PlanNode],
    edges: Sequence[PlanEdge],
    *,
    tools: Collection[str] = TOOLS,
    max_nodes: int = MAX_NODES,
) -> float:
    """1.0 when the plan breaks no rule, else 0.0 (F_dag of section 3.4, which adds: only when all criteria hold)."""
    return float(not dag_problems(nodes, edges, tools=tools, max_nodes=max_nodes))


def _size_problems(nodes: Sequence[PlanNode], max_nodes: int) -> Iterator[PlanProblem]:
    if not nodes:
        yield PlanProblem(kind="no_nodes", message="expected at least one node, found none")
    if len(nodes) > max_nodes:
        yield PlanProblem(kind="too_many_nodes", message=f"expected at most {max_nodes} nodes, found {len(nodes)}")


def _id_problems(nodes: Sequence[PlanNode]) -> Iterator[PlanProblem]:
    seen = set()
    for node in nodes:
        at = f"node {node.node_id}"
        if not is_node_id(node.node_id):
            message = f"{at}: expected an id of letters, digits and underscores other than Nodes and Edges"
            yield PlanProblem(kind="malformed_id", message=message, node_id=node.node_id)
        if node.node_id in seen:
            yield PlanProblem(kind="duplicate_id", message=f"{at}: another node has this id", node_id=node.node_id)
        seen.add(node.node_id)


def _node_problems(nodes: Sequence[PlanNode], tools: Collection[str]) -> Iterator[PlanProblem]:
    known = {tool.casefold() for tool in tools}
    expected = f"expected one of {', '.join(tools)}"
    for node in nodes:
        at = f"node {node.node_id}"
        if not node.query.strip():
            yield PlanProblem(kind="missing_query", message=f"{at}: expected a query", node_id=node.node_id)
        if not node.tool.strip():
            yield PlanProblem(kind="missing_tool", message=f"{at}: no tool, {expected}", node_id=node.node_id)
        elif node.tool.casefold() not in known:
            message = f"{at}: unknown tool {node.tool!r}, {expected}"
            yield PlanProblem(kind="unknown_tool", message=message, node_id=node.node_id)


def _edge_problems(nodes: Sequence[PlanNode], edges: Sequence[PlanEdge]) -> Iterator[PlanProblem]:
    ids = {node.node_id for node in nodes}
    for edge in dict.fromkeys(edges):
        at = f"edge {edge.src} -> {edge.dst}"
        for end in dict.fromkeys((edge.src, edge.dst)):
            if end not in ids:
                yield PlanProblem(kind="unknown_node", message=f"{at}: there is no node {end}")
        if edge.src == edge.dst:
            yield PlanProblem(kind="self_edge", message=f"{at}: a node cannot need itself", node_id=edge.src)


def _cycles(edges: Sequence[PlanEdge]) -> Iterator[PlanProblem]:
    """One cycle of at least two nodes, if there is any: an edge from a node to itself has a kind of its own."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for edge in edges:
        if edge.src != edge.dst:
            sorter.add(edge.dst, edge.src)
    try:
        sorter.prepare()
    except CycleError as error:
        yield PlanProblem(kind="cycle", message=f"cycle {' -> '.join(error.args[1])}")
