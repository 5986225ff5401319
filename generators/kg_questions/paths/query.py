"""Represent a question as a tree of entities, and find all entities of the whole graph that satisfy it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trailforge.generators.kg_questions.paths.graph import Graph, KindReader
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import FactChain, KgFact, KgNode, KgShape, KgTriple

Named = Callable[[int], np.ndarray]
"""Maps the row of a start to the rows of all entities that its name may mean, in rising order."""
_FAME_SAMPLE = 10_000
"""Entities from everywhere in a graph that show how well known its entities are."""
_MOST_CHECKED = 20_000
"""Entities, in all, that `left_without` looks at: it proves that there are others, and few tries find them."""


@dataclass(frozen=True, slots=True, eq=False)
class PathNode:
    """An entity in the tree of a question. The root is the answer, and the leaves are the entities that the question
    names.
    """

    row: int
    links: tuple[Link, ...] = ()
    """The facts that the entity has to satisfy; none for a start."""

    def below(self) -> Iterator[PathNode]:
        """Yield all nodes of this node's tree, each after those from which it is found; this node comes last."""
        for link in self.links:
            yield from link.child.below()
        yield self


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A fact that leads from a child to the node that holds this link. Links are compared by identity, as nodes are."""

    relation: int
    is_forward: bool
    """Whether the child is the head of the triple."""
    child: PathNode


def answers(graph: Graph, node: PathNode, named: Named, most: int = 10_000) -> np.ndarray | None:
    """Return the row numbers of all entities that satisfy a tree, in rising order; None when more than `most` are
    candidates at any link. `named` maps the row of a start to all entities that its name may mean.
    """
    if not node.links:
        return named(node.row)
    found: np.ndarray | None = None
    for link in node.links:
        ends = _ends(graph, link, named, most)
        if ends is None:
            return None
        found = ends if found is None else np.intersect1d(found, ends, assume_unique=True)
    return found


def _ends(graph: Graph, link: Link, named: Named, most: int) -> np.ndarray | None:
    """The entities that one link of a tree leads to."""
    sources = answers(graph, link.child, named, most)
    if sources is None:
        return None
    parts, total = [np.zeros(0, np.int64)], 0
    for source in sources.tolist():
        part = graph.reached(source, link.relation, link.is_forward)
        total += len(part)
        if total > most:
            return None
        parts.append(part)
    return np.unique(np.concatenate(parts))


def left_without(graph: Graph, root: PathNode, dropped: Link, named: Named, *, most_counted: int, most: int) -> int:
    """Count the entities that satisfy the tree when its link `dropped` is left out, up to `most_counted`.

    The entity that the link led to may then be any. `named` and `most` are as for `answers`. The count is a lower bound
    where 20,000 entities have been examined.
    """
    if root.links == (dropped,):
        return min(len(graph.store), most_counted)
    whole = [link for link in root.links if link is not dropped and not _holds(link.child, dropped)]
    if whole:
        candidates = _ends(graph, whole[0], named, most)
        if candidates is None:
            return 0
    else:
        candidates = _spread(graph, root.links[0])
    check = _Check(graph, dropped, named)
    count = 0
    for row in candidates.tolist():
        count += check.fits(row, root)
        if count == most_counted or check.left <= 0:
            break
    return count


def _spread(graph: Graph, link: Link) -> np.ndarray:
    """Entities that a link's relation leads to from anything: all, or as many as are looked at, from everywhere."""
    number = graph.num_sources(link.relation, not link.is_forward)
    places = np.arange(number) if number <= _MOST_CHECKED else np.linspace(0, number - 1, _MOST_CHECKED).astype(int)
    return graph.sources(link.relation, not link.is_forward, places)


def _holds(node: PathNode, wanted: Link) -> bool:
    return any(link is wanted for each in node.below() for link in each.links)


@dataclass(slots=True)
class _Check:
    """Whether entities satisfy a tree without one link, each by itself."""

    graph: Graph
    dropped: Link
    named: Named
    left: int = _MOST_CHECKED

    def fits(self, row: int, node: PathNode) -> bool:
        """Does this entity satisfy the tree?"""
        self.left -= 1
        if self.left < 0:
            return False
        if not node.links:
            return row in self.named(node.row)
        return all(link is self.dropped or self._is_linked(row, link) for link in node.links)

    def _is_linked(self, row: int, link: Link) -> bool:
        sources = self.graph.reached(row, link.relation, not link.is_forward)
        if not link.child.links:
            named = self.named(link.child.row).astype(sources.dtype)
            places = sources.searchsorted(named)  # they rise
            there = places < len(sources)
            return bool((sources[places[there]] == named[there]).any())
        return any(self.fits(source, link.child) for source in sources[: max(self.left, 0)].tolist())


class Fame:
    """Estimates how well known the entities of a graph are: by the number of their triples times the number of their
    names.
    """

    def __init__(self, store: KgStore, by_heart: Container[int], share: float) -> None:
        """`by_heart`: relations that are known whatever they join; `share`: of all entities, those little known."""
        self._store, self._by_heart = store, by_heart
        some = np.unique(np.linspace(0, len(store) - 1, min(len(store), _FAME_SAMPLE)).astype(int))
        self.most = int(np.quantile([self._of_row(row) for row in some.tolist()], share)) if share < 1 else None
        """Largest number of a little known entity, triples times names; None where all count as little known."""

    def _of_row(self, row: int) -> int:
        return self._store.degree_of(row) * len(self._store.names_of(row))

    def of(self, node: PathNode) -> int:
        """Return a number that says how well known the facts are that lead to a node of a tree: that of an entity, its
        triples times its names.

        A chain is as well known as the least known entity on it; where chains meet, knowing one of them may be enough.
        """
        known: list[int] = []
        for link in node.links:
            below = self.of(link.child) if link.child.links else None
            own = self._of_row(link.child.row)
            known.append(own if below is None else below if link.relation in self._by_heart else min(own, below))
        return max(known)


def links_of(root: PathNode) -> list[tuple[PathNode, Link]]:
    """Return all facts of a tree, each with the node it leads to, in the order of `FactChain.facts`."""
    return [(node, link) for node in root.below() for link in node.links]


def shape_of(root: PathNode) -> KgShape:
    """Return the shape of a tree: whether two chains meet, and where."""
    if len(root.links) > 1:
        return "intersection"
    return "intersection_inside" if any(len(node.links) > 1 for node in root.below()) else "chain"


def chain_of(
    graph: Graph,
    root: PathNode,
    kinds: KindReader,
    matches: Mapping[int, int],
    left: Sequence[int],
    tells_role: Container[int] = (),
) -> FactChain:
    """Return the record of a tree: its facts, its starting, intermediate and final entities.

    `matches` counts the entities that fit each node, by row; `left` has for each fact, in the order of `links_of`, the
    number of entities that fit without it (`left_without`). `tells_role` are relations whose name says the occupation
    of their object, so that none is added to it.
    """
    nodes = list(root.below())
    told = {
        (node if link.is_forward else link.child).row for node, link in links_of(root) if link.relation in tells_role
    }
    facts = tuple(
        _fact(graph, node, link, left_without) for (node, link), left_without in zip(links_of(root), left, strict=True)
    )
    records = {node.row: _node(graph.store, node.row, kinds, matches[node.row], node.row in told) for node in nodes}
    return FactChain(
        id=id_of([fact.triple for fact in facts]),
        shape=shape_of(root),
        facts=facts,
        starts=tuple(records[node.row] for node in nodes if not node.links),
        bridges=tuple(records[node.row] for node in nodes if node.links and node is not root),
        answer=records[root.row],
    )  # fmt: skip


def id_of(triples: Sequence[KgTriple]) -> str:
    """Return an id of 16 hexadecimal digits, a hash of the triples whatever their order."""
    lines = sorted(f"{triple.head}\t{triple.relation}\t{triple.tail}" for triple in triples)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _fact(graph: Graph, node: PathNode, link: Link, left_without: int) -> KgFact:
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


def _node(store: KgStore, row: int, kinds: KindReader, matches: int, is_told: bool) -> KgNode:
    label, *aliases = store.names_of(row)
    return KgNode(
        id=store.id_of(row),
        label=label,
        aliases=tuple(aliases),
        kind=kinds.kind(row),
        role="" if is_told else kinds.role(row),
        matches=matches,
    )


def has_shortcut(graph: Graph, node: PathNode, above: tuple[int, ...] = ()) -> bool:
    """Tell whether a triple directly connects an entity of a tree with one to which it should lead over two facts or
    more. `above` are the rows of the entities to which the node leads, the root first.
    """
    if any(graph.is_joined(node.row, row) for row in above[:-1]):
        return True
    return any(has_shortcut(graph, link.child, (*above, node.row)) for link in node.links)


def pairs_with(relation: int, others: Sequence[int]) -> set[tuple[int, int]]:
    """Return the pairs of one relation with each of `others`, each pair in rising order."""
    return {(min(relation, other), max(relation, other)) for other in others}


def pairs_in(relations: Sequence[int]) -> set[tuple[int, int]]:
    """Return every pair of relations that stand in one path, each pair in rising order."""
    return set().union(*(pairs_with(relation, relations[:place]) for place, relation in enumerate(relations)))
