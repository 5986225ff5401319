"""The NL-DAG of R-Search (section 3.3): a search plan as a model writes it, and how the plan is run.

    Nodes:
    A: EU AI Act final adoption 2024-05-21 (News)
    B: compliance cost of foundation models (Academic)
    Edges:
    A -> B

One line per node: id, query, tool. Edges are parted by `;` or line ends, may begin on the line of their heading, and
may be none; `→` is `->`. An edge orders two searches, since no model is asked between them: a query stands as written.

What makes a plan valid is in `rewards.dag`, which scores the same nodes and edges in rows and in training.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from trailforge.protocols.base import one_line, unescape
from trailforge.retrieval.base import Retriever
from trailforge.rewards.r_search import MAX_NODES, TOOLS, PlanProblem, PlanProblemKind, dag_problems, is_node_id
from trailforge.schemas import BudgetExceeded, MalformedReply, Passage, PlanEdge, PlanNode, ProviderError, SearchStatus

__all__ = [
    "MAX_NODES",
    "TOOLS",
    "TOP_K",
    "NodeResult",
    "PlanProblem",
    "SearchPlan",
    "execute",
    "find_problems",
    "levels",
    "parse",
    "read_titles",
    "render",
    "render_results",
    "validate",
]

TOP_K = 2
"""Passages per node (section 4.1)."""

_NODES_HEADING = re.compile(r"nodes\s*:", re.IGNORECASE)
_EDGES_HEADING = re.compile(r"edges\s*:(?P<rest>.*)", re.IGNORECASE)
# The tool is the last pair of brackets; either part may be missing, which is a broken rule and not unreadable.
_NODE = re.compile(r"(?P<node_id>\w+) ?: ?(?P<query>.*?) ?(?:\((?P<tool>[^()]*)\))?")
_EDGE = re.compile(r"(?P<src>\w+) ?(?:->|→) ?(?P<dst>\w+)")

_UNORDERED: frozenset[PlanProblemKind] = frozenset({"duplicate_id", "unknown_node", "self_edge", "cycle"})
"""Problems that leave no order to run the nodes in."""
_SKIPPED: frozenset[PlanProblemKind] = frozenset({"missing_query", "missing_tool", "unknown_tool"})
"""Problems of one node, which is not run; the others are."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Searches and the order among them."""

    nodes: tuple[PlanNode, ...]
    edges: tuple[PlanEdge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """What became of one node of a plan that was run."""

    node: PlanNode
    status: SearchStatus
    passages: tuple[Passage, ...] = ()
    """Best first; none unless found, where there may be none either."""
    detail: str = ""
    """Why it was skipped or failed. A failed tool's own words, which may quote its URL: for logs, not for rows."""


# Text


def render(plan: SearchPlan) -> str:
    """The plan as text. A valid plan whose texts are single lines is what `parse` makes of it again."""
    nodes = [f"{node.node_id}: {node.query} ({node.tool})" for node in plan.nodes]
    edges = "; ".join(f"{edge.src} -> {edge.dst}" for edge in plan.edges)
    return "\n".join(["Nodes:", *nodes, "Edges:", *([edges] if edges else [])])


def parse(text: str) -> SearchPlan:
    """Read a plan, valid or not. Raises `MalformedReply` with every line that cannot be read and what it should be.

    White space is trimmed and collapsed. A node without query or tool is read with an empty one, for `validate` to
    name.
    """
    statements = list(_statements(text))
    unreadable = [each.message for each in statements if isinstance(each, PlanProblem)]
    if unreadable:
        raise MalformedReply("; ".join(unreadable))
    return SearchPlan(
        nodes=tuple(each for each in statements if isinstance(each, PlanNode)),
        edges=tuple(each for each in statements if isinstance(each, PlanEdge)),
    )


def validate(plan: SearchPlan, *, tools: Collection[str] = TOOLS, max_nodes: int = MAX_NODES) -> list[PlanProblem]:
    """Every rule that the plan breaks; empty when it is valid."""
    return dag_problems(plan.nodes, plan.edges, tools=tools, max_nodes=max_nodes)


def find_problems(text: str, *, tools: Collection[str] = TOOLS, max_nodes: int = MAX_NODES) -> list[PlanProblem]:
    """All that is wrong with a plan's text: its unreadable lines or, when all can be read, the rules it breaks."""
    unreadable = [each for each in _statements(text) if isinstance(each, PlanProblem)]
    return unreadable or validate(parse(text), tools=tools, max_nodes=max_nodes)


def _statements(text: str) -> Iterator[PlanNode | PlanEdge | PlanProblem]:
    """Nodes and edges as they stand in the text, and a problem in the place of each that cannot be read."""
    lines = [(number, line) for number, raw in enumerate(text.split("\n"), 1) if (line := " ".join(raw.split()))]
    number, first = lines[0] if lines else (1, "")
    if not _NODES_HEADING.fullmatch(first):
        yield _unreadable(number, "`Nodes:`", first)
        return  # whatever follows would be read under the wrong heading
    heading = None
    for number, line in lines[1:]:
        if heading is None and (heading := _EDGES_HEADING.fullmatch(line)):
            line = heading["rest"]
        if heading is None:
            yield _node(number, line)
        else:
            yield from (_edge(number, item) for item in map(str.strip, line.split(";")) if item)
    if heading is None:
        yield _unreadable(text.count("\n") + 1, "`Edges:`, with or without edges after it", "")


def _node(number: int, line: str) -> PlanNode | PlanProblem:
    match = _NODE.fullmatch(line)
    if not match or not is_node_id(match["node_id"]):
        return _unreadable(number, "`id: query (Tool)`", line)
    return PlanNode(node_id=match["node_id"], query=match["query"], tool=(match["tool"] or "").strip())


def _edge(number: int, item: str) -> PlanEdge | PlanProblem:
    match = _EDGE.fullmatch(item)
    return PlanEdge(**match.groupdict()) if match else _unreadable(number, "an edge `A -> B`", item)


def _unreadable(number: int, expected: str, found: str) -> PlanProblem:
    what = repr(found) if found else "the end"
    return PlanProblem(kind="syntax", message=f"line {number}: expected {expected}, found {what}")


# Order and execution


def levels(plan: SearchPlan) -> list[tuple[PlanNode, ...]]:
    """The nodes in topological order: a level needs earlier levels only. Within a level they stand as in the plan.

    Raises `MalformedReply` when edges leave no such order.
    """
    _refuse([problem for problem in validate(plan) if problem.kind in _UNORDERED])
    sorter = TopologicalSorter({node.node_id: () for node in plan.nodes})
    for edge in plan.edges:
        sorter.add(edge.dst, edge.src)
    sorter.prepare()
    found = []
    while sorter.is_active():
        ready = set(sorter.get_ready())
        found.append(tuple(node for node in plan.nodes if node.node_id in ready))
        sorter.done(*ready)
    return found


async def execute(
    plan: SearchPlan, tools: Mapping[str, Retriever], top_k: int = TOP_K, *, max_nodes: int = MAX_NODES
) -> list[NodeResult]:
    """Run the plan level by level, the nodes of a level at once; results in the order of `levels`.

    `tools` are found by name without case. A node without query or known tool is skipped, a tool that raises fails its
    node alone. Raises `MalformedReply` for a plan that breaks any other rule: nothing of it is run.
    """
    by_name = {name.casefold(): tool for name, tool in tools.items()}
    problems = validate(plan, tools=tools, max_nodes=max_nodes)
    _refuse([problem for problem in problems if problem.kind not in _SKIPPED])
    # One message per node: with neither query nor tool, the first says enough.
    skipped = {problem.node_id: problem.message for problem in reversed(problems)}
    results: list[NodeResult] = []
    for level in levels(plan):
        results += await asyncio.gather(*(_run(node, by_name, top_k, skipped.get(node.node_id)) for node in level))
    return results


def render_results(results: Sequence[NodeResult]) -> str:
    """The results as the model reads them, in the given order; retrieved text as single lines with its tags escaped."""
    return "\n".join(line for result in results for line in _result_lines(result))


def read_titles(result: str) -> list[str]:
    """The titles that `render_results` wrote, tags in them plain again."""
    titles = (line.removeprefix("Title: ") for line in result.split("\n") if line.startswith("Title: "))
    return [unescape(title) for title in titles]


def _refuse(problems: Sequence[PlanProblem]) -> None:
    if problems:
        raise MalformedReply("; ".join(problem.message for problem in problems))


async def _run(node: PlanNode, tools: Mapping[str, Retriever], top_k: int, why_not: str | None) -> NodeResult:
    if why_not is not None:
        return NodeResult(node=node, status="skipped", detail=why_not)
    try:
        passages = await tools[node.tool.casefold()].retrieve(node.query, top_k)
    except (BudgetExceeded, ProviderError):
        raise  # the run's matter, not this tool's
    except Exception as error:
        return NodeResult(node=node, status="failed", detail=f"{type(error).__name__}: {error}")
    return NodeResult(node=node, status="found", passages=tuple(passages[:top_k]))


def _result_lines(result: NodeResult) -> Iterator[str]:
    node = result.node
    yield f"Node {one_line(node.node_id)} ({one_line(node.tool).lower()}) Search results:"
    if result.status == "skipped":
        yield f"Skipped. {one_line(result.detail)}"
    elif result.status == "failed":
        yield "The search failed."
    elif not result.passages:
        yield "Nothing was found."
    for number, passage in enumerate(result.passages, 1):
        yield f"Result {number}:"
        yield f"Title: {one_line(passage.title)}"
        yield f"Abstract: {one_line(passage.text)}"
