"""Describe the entity at the start of a path instead of naming it, by facts that together are true of it alone in the
whole graph.

The more entities share each fact, the less it says by itself, so what most entities share is taken first. A description
has no fact that its others make needless. Of every other entity that all its facts but one are true of, the graph says
something else in place of that one, or that it is of another kind: that the graph says nothing proves nothing, unless
the fact's list is closed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, islice

import numpy as np

from trailforge.filters.kg import is_named
from trailforge.generators.kg_questions.paths.config import Form, KgPathConfig
from trailforge.generators.kg_questions.paths.facts import Edge, FactRules, Slot
from trailforge.generators.kg_questions.paths.graph import Graph, KindReader, relations_named
from trailforge.generators.kg_questions.paths.query import Link, Named, PathNode, answers, links_of
from trailforge.schemas import FactChain, KgNode

_FACTS = (2, 3)
"""How many facts describe an entity; fewer are tried first."""
_MOST_TRIED = 20
"""Descriptions of one start that are tried in a path that is to be longer."""
_MOST_FACTS = 24
"""Facts of an entity that are looked at, those that most entities share first."""
_MOST_SHARING = 5000
"""Entities that may share one of these facts."""


Prove = Callable[[PathNode, frozenset[int]], FactChain | None]


def described_in(chain: FactChain) -> tuple[KgNode, ...]:
    """Return the intermediate entities of a path that are described by facts: two or more lead to each, all of them
    from entities that the question names.
    """
    starts = {start.id for start in chain.starts}
    facts = ((bridge, chain.leading_to(bridge)) for bridge in chain.bridges)
    return tuple(bridge for bridge, led in facts if len(led) > 1 and starts.issuperset(fact.known for fact in led))


def count_hops(chain: FactChain) -> int:
    """Return the number of facts of a path, where those of one description count as one, since they find one entity."""
    return len(chain.facts) - sum(len(chain.leading_to(node)) - 1 for node in described_in(chain))


@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """A fact that may describe an entity, and all entities that it is true of."""

    link: Link
    shared_by: np.ndarray


@dataclass(frozen=True, slots=True)
class Blurring:
    """Replaces the names of starting entities by descriptions, in one graph."""

    graph: Graph
    kinds: KindReader
    rules: FactRules
    named: Named
    config: KgPathConfig

    @property
    def _edges(self) -> list[Edge]:
        """What facts may describe by: also relations with many tails, since no fact has to single out by itself."""
        excluded = relations_named(self.graph.store, self.config.excluded)
        followed = (each for each in range(len(self.graph.store.relation_names)) if each not in excluded)
        return [Edge(relation, is_forward) for relation in followed for is_forward in (False, True)]

    def blur(self, root: PathNode) -> Iterator[tuple[PathNode, int]]:
        """Yield every tree that comes of describing one of this tree's starting entities instead of naming it, with the
        row number of that entity.
        """
        for start in starts_of(root):
            yield from ((tree, start.row) for tree in self.describe(root, start, _FACTS))

    def describe(self, root: PathNode, start: PathNode, counts: Sequence[int]) -> Iterator[PathNode]:
        """Yield every tree that comes of describing the starting entity `start` by as many facts as one of the numbers
        in `counts`.
        """
        up, parent = next((link, node) for node, link in links_of(root) if link.child is start)
        told = self._facts_of(start, root, up, parent)
        for links in self._describing(start.row, told, counts):
            yield _put(root, start, PathNode(start.row, links))

    def lengthen(
        self, root: PathNode, count: int, prove: Prove, draw: random.Random
    ) -> tuple[PathNode, FactChain] | None:
        """Return the tree, and its record, with starting entities described by `count` facts in all, chosen by `draw`;
        None where the graph has too few that fit.

        An entity is described before those that occur in its description. `prove` returns the record of a tree, by the
        rows of what is described in it, or None where the whole graph does not confirm it.
        """
        described, chain = frozenset[int](), None
        waiting = starts_of(root)
        draw.shuffle(waiting)
        while count and waiting:
            start = waiting.pop(0)
            for tree in islice(self.describe(root, start, fitting_counts(count)), _MOST_TRIED):
                if found := prove(tree, described | {start.row}):
                    more = [node for node in starts_of(tree) if node not in starts_of(root)]
                    draw.shuffle(more)
                    count -= len(more)
                    root, chain, described = tree, found, described | {start.row}
                    waiting += more
                    break
        return None if count or chain is None else (root, chain)

    def _facts_of(self, start: PathNode, root: PathNode, up: Link, parent: PathNode) -> list[_Told]:
        """Facts that may describe a start, those that most entities share first.

        None leads to it from what the path has, or from what is joined with another entity of it, which would be a
        shortcut; what is joined with very many entities leads to none of them.
        """
        graph, store = self.graph, self.graph.store
        if self.kinds.kind(start.row) in ("", *self.config.ends) or self.kinds.is_gone(start.row):
            return []
        slot = Slot(row=start.row, form=Form(0), up=Edge(up.relation, up.is_forward), meets=True, met=None)
        others = [node.row for node in root.below() if node is not start]
        used = [link.relation for _, link in links_of(root)]
        names = store.names_of(start.row)
        found: list[_Told] = []
        for edge in self._edges:
            if used.count(edge.relation) >= self.config.max_same:
                continue
            for child in graph.reached(start.row, edge.relation, not edge.is_forward).tolist():
                label = store.label_of(child)
                if child in others or child == start.row or any(is_named(label, name) for name in names):
                    continue
                if self._why_unfit(slot, edge, child) or self._is_short(child, others):
                    continue
                link = Link(edge.relation, edge.is_forward, PathNode(child))
                shared_by = answers(graph, PathNode(start.row, (link,)), self.named, _MOST_SHARING)
                if shared_by is not None and len(shared_by) > 1:
                    found.append(_Told(link, shared_by))
        found.sort(key=lambda each: -len(each.shared_by))
        return found[:_MOST_FACTS]

    def _why_unfit(self, slot: Slot, edge: Edge, child: int) -> str:
        """Why a fact may not describe; empty if it may, also where it is true of more than may meet elsewhere."""
        why = self.rules.why_unfit(slot, edge, child)
        return "" if why == "fan_out" and len(self.graph.reached(child, *edge)) > 1 else why

    def _is_short(self, child: int, others: list[int]) -> bool:
        is_hub = self.graph.store.degree_of(child) > self.config.max_degree
        return not is_hub and any(self.graph.is_joined(child, row) for row in others)

    def _describing(self, row: int, told: list[_Told], counts: Sequence[int]) -> Iterator[tuple[Link, ...]]:
        """Facts, of as many relations, that together are true of one entity alone."""
        for count in counts:
            for some in combinations(told, count):
                if len({each.link.relation for each in some}) == count and self._singles_out(row, some):
                    yield tuple(each.link for each in some)

    def _singles_out(self, row: int, some: tuple[_Told, ...]) -> bool:
        """Are these facts true of this entity alone, each of them needed, and the graph's other entities ruled out?"""
        sets = [each.shared_by for each in some]
        if len(reduce(_common, sets)) != 1:
            return False
        for place, left_out in enumerate(some):
            rivals = reduce(_common, sets[:place] + sets[place + 1 :])
            others = [each for each in rivals.tolist() if each != row]
            if not others or not all(self._is_ruled_out(each, row, left_out.link) for each in others):
                return False
        return True

    def _is_ruled_out(self, rival: int, row: int, link: Link) -> bool:
        """Does the graph know all that a fact is true of, or that a rival has another in its place or is of another
        kind, which is told beside the facts?"""
        if Edge(link.relation, link.is_forward) in self.rules.lists:
            return True
        is_other = self.kinds.kind(rival) not in ("", self.kinds.kind(row))
        return is_other or len(self.graph.reached(rival, link.relation, not link.is_forward)) > 0


def fitting_counts(left: int) -> tuple[int, ...]:
    """Return how many facts may describe the next starting entity when `left` facts are to be used in all."""
    return tuple(count for count in _FACTS if left - count == 0 or left - count >= min(_FACTS))


def starts_of(root: PathNode) -> list[PathNode]:
    """Return the starting entities of a tree, in its order."""
    return [node for node in root.below() if not node.links]


def _common(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.intersect1d(one, other, assume_unique=True)


def _put(node: PathNode, old: PathNode, new: PathNode) -> PathNode:
    """The tree with one node in the place of another."""
    if node is old:
        return new
    if not node.links:
        return node
    return PathNode(node.row, tuple(replace(link, child=_put(link.child, old, new)) for link in node.links))
