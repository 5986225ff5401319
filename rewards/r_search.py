"""The reward of an R-Search episode (section 3.4): format, plan and answer, weighted as in the paper."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trailforge.rewards.answers import option_f1, option_letters
from trailforge.rewards.text import f1
from trailforge.schemas import PlanEdge, PlanNode, RSearchReward

SECTIONS = ("think", "search", "result", "answer")
"""The tags of an episode, in their order (eq. 1)."""

_TAGS = [tag for name in SECTIONS for tag in (f"<{name}>", f"</{name}>")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RSearchConstants:
    """The weights of the parts of R-Search's reward (section 3.4)."""

    format_weight: float = 0.25
    dag_weight: float = 0.25
    answer_weight: float = 0.5
    strict_plan: bool = False
    """Whether a plan is paid only when it follows the prompt exactly. Otherwise one that was corrected and run is paid
    like any other: the paper's F_dag looks at nodes, tools and cycles alone."""
    pay_all_options: bool = False
    """Whether an answer that names every option of the question is paid their F1, as in the paper; otherwise it is paid
    nothing."""


def format_reward(tags: Sequence[str]) -> float:
    """Return 1.0 when each section occurs exactly once, in order, else 0.0 (F_fmt). Tags of other names do not count.

    `tags` are those of the whole episode as `protocols.base.tags_in` gives them: `["<think>", "</think>", …]`.
    """
    return float([tag for tag in tags if tag in _TAGS] == _TAGS)


def answer_reward(
    answer: str,
    *,
    correct_options: Sequence[str] = (),
    num_options: int = 0,
    pay_all_options: bool = False,
    golds: Sequence[str] = (),
    judge_score: float | None = None,
) -> float:
    """Return how right the answer is, in [0, 1] (F_ans); 0.0 when it is empty.

    With correct options it is the F1 between them and the options that the answer names. Naming all of `num_options`
    (0: unknown how many there are) is no answer, and earns nothing unless all are correct or `pay_all_options`. Without
    correct options it is the judge's score; without a judge (None) the word F1 over `golds`, which needs no model but
    sees no paraphrase.
    """
    if judge_score is not None and not 0.0 <= judge_score <= 1.0:
        raise ValueError(f"judge_score: expected a number from 0 to 1, got {judge_score}")
    if not answer.strip():
        return 0.0
    if correct_options:
        chosen = option_letters(answer)
        names_all = 0 < num_options <= len(chosen) and len(set(correct_options)) < num_options
        return 0.0 if names_all and not pay_all_options else option_f1(chosen, correct_options)
    return f1(answer, golds) if judge_score is None else judge_score


def r_search_reward(
    *, format: float, dag: float, answer: float, constants: RSearchConstants = RSearchConstants()
) -> RSearchReward:
    """Return the weighted sum of eq. 3: the parts add up, so a broken plan does not cost the answer's reward."""
    total = constants.format_weight * format + constants.dag_weight * dag + constants.answer_weight * answer
    return RSearchReward(total=total, format=format, dag=dag, answer=answer)


TOOLS = ("News", "Academic", "General")
"""The paper's search tools. Names are compared without case."""
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
"""Kind of a plan's fault. `syntax` is for text that cannot be read as a plan (`protocols.nl_dag`); the others are
broken rules of this file."""

# The headings of the two lists cannot be ids: `Edges: …` would be read as the heading.
_NODE_ID = re.compile(r"(?!(?:nodes|edges)$)[a-z0-9_]+", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProblem:
    """A rule that a search plan breaks, with a message."""

    kind: PlanProblemKind
    message: str
    """One line that says where, what was expected, and what was found."""
    node_id: str | None = None
    """Id of the node that breaks the rule; None when no single node does."""


def is_node_id(text: str) -> bool:
    """Tell whether a text can name a node: ASCII letters, digits and underscores, but not `Nodes` or `Edges`."""
    return bool(_NODE_ID.fullmatch(text))


def dag_problems(
    nodes: Sequence[PlanNode], edges: Sequence[PlanEdge], *, tools: Collection[str] = TOOLS
) -> list[PlanProblem]:
    """Return every rule that the plan breaks; an empty list when it is valid, and only then is it rewarded (F_dag of
    section 3.4). A repeated edge is no fault: it counts once.
    """
    return [
        *_size_problems(nodes),
        *_id_problems(nodes),
        *_node_problems(nodes, tools),
        *_edge_problems(nodes, edges),
        *_cycles(edges),
    ]


def _size_problems(nodes: Sequence[PlanNode]) -> Iterator[PlanProblem]:
    if not nodes:
        yield PlanProblem(kind="no_nodes", message="expected at least one node, found none")
    if len(nodes) > MAX_NODES:
        yield PlanProblem(kind="too_many_nodes", message=f"expected at most {MAX_NODES} nodes, found {len(nodes)}")


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
    import networkx as nx

    graph = nx.DiGraph((edge.src, edge.dst) for edge in edges if edge.src != edge.dst)
    if not nx.is_directed_acyclic_graph(graph):
        around = [src for src, _ in nx.find_cycle(graph)]
        yield PlanProblem(kind="cycle", message=f"cycle {' -> '.join([*around, around[0]])}")
