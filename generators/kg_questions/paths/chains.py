"""A tree of rows, with its counts, as a record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from trailforge.generators.kg_questions.paths.graph import Graph
from trailforge.generators.kg_questions.paths.kinds import KindReader
from trailforge.generators.kg_questions.paths.query import Link, Node
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import FactChain, KgFact, KgNode, KgShape, KgTriple


def links_of(root: Node) -> list[tuple[Node, Link]]:
    """All facts of a tree with the node that each leads to, in the order of `FactChain.facts`."""
    return [(node, link) for node in root.below() for link in node.links]


def shape_of(root: Node) -> KgShape:
    """Whether and where two chains meet."""
    if len(root.links) > 1:
        return "intersection"
    return "intersection_inside" if any(len(node.links) > 1 for node in root.below()) else "chain"


def chain_of(graph: Graph, root: Node, kinds: KindReader, matches: Mapping[int, int], left: Sequence[int]) -> FactChain:
    """The record. `matches`: of each entity, by row; `left`: `left_without` of each fact, as `links_of` orders them."""
    nodes = list(root.below())
    facts = tuple(
        _fact(graph, node, link, left_without) for (node, link), left_without in zip(links_of(root), left, strict=True)
    )
    records = {node.row: _node(graph.store, node.row, kinds, matches[node.row]) for node in nodes}
    return FactChain(
        id=id_of([fact.triple for fact in facts]),
        shape=shape_of(root),
        facts=facts,
        starts=tuple(records[node.row] for node in nodes if not node.links),
        bridges=tuple(records[node.row] for node in nodes if node.links and node is not root),
        answer=records[root.row],
    )  # fmt: skip


def id_of(triples: Sequence[KgTriple]) -> str:
    """16 hex digits over the triples, whatever their order."""
    lines = sorted(f"{triple.head}\t{triple.relation}\t{triple.tail}" for triple in triples)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _fact(graph: Graph, node: Node, link: Link, left_without: int) -> KgFact:
    child = link.child.row
    store = graph.store
    return KgFact(
        triple=graph.triple(child, link.relation, link.is_forward, node.row),
        known=store.id_of(child),
        found=store.id_of(node.row),
        relation_aliases=tuple(store.relation_names[link.relation][1:]),
        fan_out=len(graph.reached(child, link.relation, link.is_forward)),
        left_without=left_without,
    )


def _node(store: KgStore, row: int, kinds: KindReader, matches: int) -> KgNode:
    label, *aliases = store.names_of(row)
    return KgNode(
        id=store.id_of(row),
        label=label,
        aliases=tuple(aliases),
        kind=kinds.kind(row),
        role=kinds.role(row),
        matches=matches,
    )
