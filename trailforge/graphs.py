"""Convert plans, search trees, triples and the graphs of back ends to networkx graphs.

graph = to_networkx(row)                                       a plan, a tree, or a row that has one
graph = to_networkx(open_index(folder), around=["Vienna"])     a part of a back end's graph
graph = to_networkx(KgStore.open(folder), around=["Q1741"])    triples around entities of a knowledge graph
save_graphml(graph, Path("graph.graphml"))
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx

from trailforge.mcts import dependency_graph, execution_levels, plan_problem
from trailforge.protocols.nl_dag import SearchPlan, parse
from trailforge.retrieval.backends import neighbourhood
from trailforge.retrieval.indexes import OpenIndex
from trailforge.retrieval.kg import KgResult, KgStore, SubgraphLimits, find_subgraph
from trailforge.schemas import (
    BundleQuestion,
    InvalidInput,
    KgTriple,
    Plan,
    Rollout,
    SearchEpisode,
    SearchTree,
    Step,
    Trajectory,
)

_NO_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PLAIN = (str, int, float, bool)


def to_networkx(value: object, *, around: Iterable[str] = (), hops: int = 2, most: int = 1_000) -> nx.Graph:
    """Return the networkx graph of a value; what is known of a node or an edge is an attribute of it.

    A `Plan`, a `Rollout` or a `Trajectory`: sub-questions by their positions, from 1, with answers where they are
    known; an edge leads to what needs the answer. A `SearchPlan`, or a row that has one (`SearchEpisode`,
    `BundleQuestion`): queries by id. A `SearchTree`: plans by id. A `KgResult`, or triples: entities by id, an edge for
    each triple. For an `OpenIndex` and a `KgStore` the graph has what is `around` names or ids: of an index within so
    many `hops`, of both the nearest `most` nodes or triples. Raises `InvalidInput` for a value without a graph, and for
    an invalid plan.
    """
    match value:
        case SearchPlan():
            return value.to_networkx()
        case SearchEpisode():
            return SearchPlan(nodes=value.plan_nodes, edges=value.plan_edges).to_networkx()
        case BundleQuestion() if value.dag_text:
            return parse(value.dag_text).to_networkx()
        case Plan():
            return _plan(value)
        case Trajectory():
            return _plan(Plan(sub_questions=value.plan), value.steps)
        case Rollout():
            return _plan(Plan(sub_questions=tuple(step.sub_question for step in value.steps)), value.steps)
        case SearchTree():
            return _tree(value)
        case OpenIndex():
            with value.files.reading():
                return neighbourhood(value.index, list(around), hops, most)
        case KgStore():
            limits = SubgraphLimits(max_triples=most, max_tokens=1 << 30)
            return _triples(find_subgraph(value, list(around), limits=limits))
        case KgResult():
            return _triples(value.triples)
        case [*triples] if triples and all(isinstance(each, KgTriple) for each in triples):
            return _triples(triples)
    raise InvalidInput(f"a {type(value).__name__} has no graph to draw: give what the function's description lists")


def save_graphml(graph: nx.Graph, path: Path) -> None:
    """Write a graph as GraphML, which Gephi, yEd and Cytoscape read, without the characters that XML cannot hold."""
    bare: nx.Graph = graph.__class__(**_said(graph.graph))
    bare.add_nodes_from((_bare(node), _said(data)) for node, data in graph.nodes(data=True))
    edges = graph.edges(keys=True, data=True) if isinstance(graph, nx.MultiGraph) else graph.edges(data=True)
    bare.add_edges_from((*map(_bare, ends), _said(data)) for *ends, data in edges)
    nx.write_graphml(bare, path)


def _plan(plan: Plan, steps: Sequence[Step] = ()) -> nx.DiGraph:
    if problem := plan_problem(plan):
        raise InvalidInput(problem)
    graph, answers = dependency_graph(plan), {step.index: step for step in steps}
    for level, places in enumerate(execution_levels(plan)):
        for place in places:
            step = answers.get(place)
            done = {"query": step.query, "answer": step.answer} if step else {}
            graph.nodes[place + 1].update(sub_question=plan.sub_questions[place], level=level, **done)
    return graph


def _tree(tree: SearchTree) -> nx.DiGraph:
    graph = nx.DiGraph(question=tree.question, answer=tree.answer, stop_reason=tree.stop_reason)
    rollouts = {node.id: sum(each.node == node.id for each in tree.rollouts) for node in tree.nodes}
    for node in tree.nodes:
        said = {"plan": "\n".join(node.plan), "origin": node.origin, "visits": node.visits, "value": node.value}
        graph.add_node(node.id, **said, depth=node.depth, rollouts=rollouts[node.id])
    graph.add_edges_from((node.parent, node.id) for node in tree.nodes if node.parent is not None)
    return graph


def _triples(triples: Iterable[KgTriple]) -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph()
    for each in triples:
        graph.add_node(each.head, label=each.head_label)
        graph.add_node(each.tail, label=each.tail_label)
        graph.add_edge(each.head, each.tail, key=each.relation, label=each.relation_label)
    return graph


def _said(data: dict[str, Any]) -> dict[str, Any]:
    return {name: _bare(value) for name, value in data.items() if isinstance(value, _PLAIN)}


def _bare(value: Any) -> Any:
    return _NO_XML.sub("", value) if isinstance(value, str) else value
