"""The NL-DAG of R-Search (section 3.3): a search plan as a model writes it, and how the plan is run.

    Nodes:
    A: EU AI Act final adoption 2024-05-21 (News)
    B: compliance cost of foundation models (Academic)
    Edges:
    A -> B

One line per node: id, query, tool. Edges are separated by `;` or line ends; `→` is `->`. The first node may be on the
line of its heading, as in the paper's figure 4, and so may the edges, of which there may be none. An edge orders two
searches, since no model is asked between them: a query stands as written.

Where a plan's meaning is plain all the same, it is mended and run, and each mend is named: strict reading of the turn
refuses it.
What makes a plan valid is in `rewards.r_search`, which scores the same nodes and edges in rows and in training.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import TYPE_CHECKING

from trailforge.protocols.base import one_line, unescape
from trailforge.protocols.repair import Repair
from trailforge.rewards.r_search import MAX_NODES, TOOLS, PlanProblem, PlanProblemKind, dag_problems, is_node_id
from trailforge.schemas import BudgetExceeded, MalformedReply, Passage, PlanEdge, PlanNode, ProviderError, SearchStatus

if TYPE_CHECKING:  # all data sets name a protocol, and what is searched takes a third of a second to load
    import networkx as nx

    from trailforge.retrieval import Retriever

TOP_K = 2
"""Number of passages that each node of a plan is given (section 4.1)."""

_NODES_HEADING = re.compile(r"nodes ?:(?P<rest>.*)", re.IGNORECASE)
_EDGES_HEADING = re.compile(r"edges ?:(?P<rest>.*)", re.IGNORECASE)
# The tool is the last pair of brackets; either part may be missing, which is a broken rule and not unreadable.
_NODE = re.compile(r"(?P<node_id>\w+) ?: ?(?P<query>.*?) ?(?:\((?P<tool>[^()]*)\))?")
_NODE_START = re.compile(r"\w+ ?:")
_ID = re.compile(r"\w+")
_EDGE = re.compile(r"(?P<src>\w+) ?(?:->|→) ?(?P<dst>\w+)")
_ARROW = re.compile(r" ?(?:[-=–—]{1,9}>|[→⇒⟶➔]) ?")
_AND = re.compile(r" ?[,&+] ?| and ", re.IGNORECASE)
_ENDS = " ;,."
_LIST_MARK = re.compile(r"^(?:[-*•+–]|\d+[.)]|#+) (?=\S)")
_FENCE = re.compile(r"```\w*")
_NO_EDGES = re.compile(r"\W*+(?:none|no edges|no dependencies|empty|null|n/?a)?\W*+", re.IGNORECASE)
# Where another statement may begin on a line: behind a tool of the paper's, before an id or heading.
_JOINT = re.compile(rf"(?i:\((?:{'|'.join(TOOLS)})\)) ?[;,]? (?=(?:[A-Z]\d{{0,2}}|\d{{1,2}}|(?i:edges)) ?:)")

_UNORDERED: frozenset[PlanProblemKind] = frozenset({"duplicate_id", "unknown_node", "self_edge", "cycle"})
"""Problems that leave no order to run the nodes in."""
_SKIPPED: frozenset[PlanProblemKind] = frozenset({"missing_query", "missing_tool", "unknown_tool"})
"""Problems of one node, which is not run; the others are."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A search plan: searches, and the order in which they run."""

    nodes: tuple[PlanNode, ...]
    edges: tuple[PlanEdge, ...]

    def to_networkx(self) -> nx.DiGraph:
        """Return the plan as a graph: the nodes by id, with `query` and `tool`.

        An edge leads to the search that comes later.
        """
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from((node.node_id, {"query": node.query, "tool": node.tool}) for node in self.nodes)
        graph.add_edges_from((edge.src, edge.dst) for edge in self.edges)
        return graph


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """The result of one node of a plan that was run."""

    node: PlanNode
    status: SearchStatus
    passages: tuple[Passage, ...] = ()
    """The passages found, best first. A node that was skipped or failed has none, and one that found nothing has none
    either.
    """
    detail: str = ""
    """Why the node was skipped or failed. A failed tool's own words may quote its URL, so they are for logs, not for
    rows.
    """


# Text


def render(plan: SearchPlan) -> str:
    """Return the plan as text. `parse` reads the same plan from it when it is valid and its texts are single lines."""
    nodes = [f"{node.node_id}: {node.query} ({node.tool})" for node in plan.nodes]
    edges = "; ".join(f"{edge.src} -> {edge.dst}" for edge in plan.edges)
    return "\n".join(["Nodes:", *nodes, "Edges:", *([edges] if edges else [])])


def parse(text: str) -> SearchPlan:
    """Read a plan, valid or not, repairing small errors. Raises `MalformedReply` with every line that cannot be read
    and what it should be.

    White space is trimmed and collapsed. A node without query or tool is read with an empty one, for `validate` to
    name.
    """
    reader = _read(text)
    _refuse(reader.problems)
    return reader.plan


def find_repairs(text: str) -> tuple[Repair, ...]:
    """Return what `parse` repairs in a plan, each kind once; empty where the plan cannot be read."""
    reader = _read(text)
    return () if reader.problems else tuple(reader.repairs)


def validate(plan: SearchPlan, *, tools: Collection[str] = TOOLS) -> list[PlanProblem]:
    """Return every rule that the plan breaks; empty when it is valid."""
    return dag_problems(plan.nodes, plan.edges, tools=tools)


def find_problems(text: str, *, tools: Collection[str] = TOOLS) -> list[PlanProblem]:
    """Return all that is wrong with a plan's text: its unreadable lines or, when all can be read, the rules that it
    breaks.
    """
    reader = _read(text)
    return reader.problems or validate(reader.plan, tools=tools)


@lru_cache(maxsize=16)  # of a turn it is asked what it says, what is wrong with it and what was mended
def _read(text: str) -> _Reader:
    """The plan, a statement a line; where that leaves it broken, with lines that hold several taken apart."""
    reader = _Reader(text)
    ids = {node.node_id for node in reader.nodes}
    is_broken = reader.problems or "missing_edges" in reader.repairs
    if is_broken or any(edge.src not in ids or edge.dst not in ids for edge in reader.edges):
        apart = _Reader(text, apart=True)
        if "joined_lines" in apart.repairs and not apart.problems:
            return apart
    return reader


class _Reader:
    """Reads a plan line by line, noting what it mends and what it cannot read."""

    def __init__(self, text: str, *, apart: bool = False) -> None:
        """`apart`: a line may hold several statements."""
        self.nodes: list[PlanNode] = []
        self.edges: list[PlanEdge] = []
        self.problems: list[PlanProblem] = []
        self.repairs: dict[Repair, None] = {}  # as an ordered set
        self._open: tuple[int, list[str]] | None = None
        """Line and pieces of a node that may go on."""
        lines = self._lines(text, apart)
        at, first = next(lines, (1, ""))
        heading = _NODES_HEADING.fullmatch(first)
        if not heading:
            self._refuse(at, "`Nodes:`", first)
            return  # whatever follows would be read under the wrong heading
        in_edges = False
        for number, line in _after_heading(at, heading["rest"], lines):
            if in_edges:
                self._take_edges(number, line)
            elif heading := _EDGES_HEADING.fullmatch(line):
                in_edges = True
                self._take_edges(number, heading["rest"])
            elif self._begins_edges(line):
                in_edges = True
                self._note("missing_edges")
                self._take_edges(number, line)
            else:
                self._take_node(number, line)
        self._close_node()
        if not in_edges:
            self._note("missing_edges")

    @property
    def plan(self) -> SearchPlan:
        """What was read."""
        return SearchPlan(nodes=tuple(self.nodes), edges=tuple(self.edges))

    def _lines(self, text: str, apart: bool) -> Iterator[tuple[int, str]]:
        """Statements with the numbers of their lines, white space collapsed, without marks of a list or of code."""
        for number, raw in enumerate(text.split("\n"), 1):
            line = " ".join(raw.split())
            if not line:
                continue
            if _FENCE.fullmatch(line):
                self._note("code_fence")
                continue
            bare = _LIST_MARK.sub("", line)
            if bare.startswith("**"):
                bare = bare.replace("**", "").strip()
            if bare != line:
                self._note("list_marks")
            start = 0
            for joint in _JOINT.finditer(bare) if apart else ():
                self._note("joined_lines")
                yield number, bare[start : joint.end()].strip()
                start = joint.end()
            if rest := bare[start:]:
                yield number, rest

    def _take_node(self, number: int, line: str) -> None:
        """A node, or what follows of one whose tool has not come yet."""
        if not _NODE_START.match(line) and self._open and not self._open[1][-1].rstrip(_ENDS).endswith(")"):
            self._note("wrapped_line")
            self._open[1].append(line)
            return
        self._close_node()
        self._open = number, [line]

    def _close_node(self) -> None:
        if self._open is None:
            return
        number, pieces = self._open
        self._open, line = None, " ".join(pieces)
        bare = line.rstrip(_ENDS)
        if bare != line and bare.endswith(")"):
            self._note("list_marks")
            line = bare
        match = _NODE.fullmatch(line)
        if match and is_node_id(match["node_id"]):
            tool = (match["tool"] or "").strip()
            self.nodes.append(PlanNode(node_id=match["node_id"], query=match["query"], tool=tool))
        else:
            self._refuse(number, "`id: query (Tool)`", line)

    def _begins_edges(self, line: str) -> bool:
        """Does a line hold edges, though no heading says so?"""
        if _NODE_START.match(line) or not _ARROW.search(line):
            return False
        return all(_edges_of(item) for item in _items(line))

    def _take_edges(self, number: int, line: str) -> None:
        self._close_node()
        for item in _items(line):
            if match := _EDGE.fullmatch(item):
                self.edges.append(PlanEdge(src=match["src"], dst=match["dst"]))
                continue
            found = _edges_of(item)
            if found is None:
                self._refuse(number, "an edge `A -> B`", item)
                continue
            self.edges += found.edges
            for repair in found.repairs:
                self._note(repair)

    def _note(self, repair: Repair) -> None:
        self.repairs[repair] = None

    def _refuse(self, number: int, expected: str, found: str) -> None:
        what = repr(found) if found else "the end"
        self.problems.append(PlanProblem(kind="syntax", message=f"line {number}: expected {expected}, found {what}"))


@dataclass(frozen=True, slots=True)
class _MendedEdges:
    """What is read between two semicolons that is not a plain edge."""

    edges: Sequence[PlanEdge]
    repairs: Sequence[Repair]


def _items(line: str) -> list[str]:
    return [item for item in map(str.strip, line.split(";")) if item]


def _after_heading(number: int, rest: str, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The rest of a heading's line, if there is one, and the lines after it."""
    if rest := rest.strip():
        yield number, rest
    yield from lines


def _edges_of(item: str) -> _MendedEdges | None:
    """A word for no edges, a chain, several edges by commas, several ends of one; None for what is none of them."""
    bare = item.rstrip(_ENDS)
    arrows = _ARROW.findall(bare)
    if not arrows:
        return _MendedEdges((), ["word_for_no_edges"]) if _NO_EDGES.fullmatch(item) else None
    repairs: list[Repair] = ["list_marks"] if bare != item else []
    if any(arrow.strip() not in ("->", "→") for arrow in arrows):
        repairs.append("edge_arrow")
    if "," in bare or (len(arrows) == 1 and _AND.search(bare)):
        repairs.append("edge_list")
    parts = bare.split(",") if len(arrows) > 1 else [bare]
    edges: list[PlanEdge] = []
    for part in parts:
        ends = [_AND.split(end.strip()) for end in _ARROW.split(part)]
        if len(ends) < 2 or not all(len(ids) <= MAX_NODES and all(map(_ID.fullmatch, ids)) for ids in ends):
            return None
        if len(ends) > 2:
            repairs.append("edge_chain")
        edges += [PlanEdge(src=a, dst=b) for srcs, dsts in pairwise(ends) for a, b in product(srcs, dsts)]
    return _MendedEdges(edges, repairs)


# Order and execution


def levels(plan: SearchPlan) -> list[tuple[PlanNode, ...]]:
    """Sort the nodes into levels, each of which needs earlier levels only. Within a level they keep the plan's order.
    Raises `MalformedReply` when the edges contain a circle.
    """
    _refuse([problem for problem in validate(plan) if problem.kind in _UNORDERED])
    import networkx as nx

    generations = map(set, nx.topological_generations(plan.to_networkx()))
    return [tuple(node for node in plan.nodes if node.node_id in level) for level in generations]


async def execute(plan: SearchPlan, tools: Mapping[str, Retriever], top_k: int = TOP_K) -> list[NodeResult]:
    """Run the plan, each node as soon as those before it are done. Results come in the order of `levels`.

    `tools` are found by name, whatever the case. A node without a query or a known tool is skipped, and a tool that
    raises fails its node alone. Raises `MalformedReply` for a plan that breaks any other rule: then nothing of it is
    run.
    """
    by_name = {name.casefold(): tool for name, tool in tools.items()}
    problems = validate(plan, tools=tools)
    _refuse([problem for problem in problems if problem.kind not in _SKIPPED])
    # One message per node: with neither query nor tool, the first says enough.
    skipped = {problem.node_id: problem.message for problem in reversed(problems)}
    runs: dict[str, asyncio.Task[NodeResult]] = {}

    async def run(node: PlanNode) -> NodeResult:
        await asyncio.gather(*(runs[edge.src] for edge in plan.edges if edge.dst == node.node_id))
        return await _run(node, by_name, top_k, skipped.get(node.node_id))

    try:
        for node in (node for level in levels(plan) for node in level):
            runs[node.node_id] = asyncio.create_task(run(node))
        return await asyncio.gather(*runs.values())
    finally:
        for each in runs.values():
            each.cancel()


def render_results(results: Sequence[NodeResult]) -> str:
    """Return the results as the model reads them, in the given order. Retrieved text is on single lines, with its tags
    escaped.
    """
    return "\n".join(line for result in results for line in _result_lines(result))


def read_passages(result: str) -> list[tuple[str, str]]:
    """Read the title and text of each passage that `render_results` wrote, with tags in them plain again."""
    lines = [*result.split("\n"), ""]
    titles = ((n, line.removeprefix("Title: ")) for n, line in enumerate(lines) if line.startswith("Title: "))
    return [(unescape(title), unescape(lines[n + 1].removeprefix("Abstract: "))) for n, title in titles]


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
