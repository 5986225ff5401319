"""Paths by chance, grown backwards from the answer, and kept when the whole graph bears them out.

Growing looks at single entities only: which relations lead to it, and to how many others these lead. What is grown is
then counted over the graph. Relations that stand in few paths so far are drawn more often, so none dominates.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trailforge.generators.kg_questions.paths.config import KgPathConfig
from trailforge.generators.kg_questions.paths.graph import Graph, KindReader, relations_named
from trailforge.generators.kg_questions.paths.query import Link, PathNode, answers, chain_of, left_without, links_of
from trailforge.retrieval.kg import KgStore
from trailforge.rewards import mentions
from trailforge.schemas import FactChain

_TRIES = 6
"""Relations tried for one fact before the path is given up."""
_MOST_MISSED = 40
"""Forms in a row without a path: then the graph has no more."""
_MISS_WEIGHT = 0.05
"""What a failed try of a relation counts against a path that has it, when the next one is drawn."""


@dataclass(frozen=True, slots=True)
class Form:
    """A path's form: from the answer back, `stem` facts, then a start, or a meeting of chains of these lengths."""

    stem: int
    branches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Edge:
    """A fact as it is tried."""

    relation: int
    is_forward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    """Where a fact is wanted."""

    row: int
    """The entity that it has to lead to."""
    form: Form
    """Of what leads to its other end; `Form(0)` for a start."""
    up: _Edge | None
    """The fact that leads on from `row`; None at the answer."""
    meets: bool
    """Is it one of two that meet in `row`? Then it leads to others too, else to `row` alone."""
    may_be_open: bool
    """May its relation be open-ended in its direction?"""


def _edges(out: np.ndarray, into: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The facts that lead to an entity with these relations: (relations, 1 where it is a tail: the way is forward)."""
    are_forward = np.concatenate([np.zeros(len(out), np.int64), np.ones(len(into), np.int64)])
    return np.concatenate([out, into]), are_forward


class _Unfit(Exception):
    """What is grown cannot become a path; the argument is the reason."""


def sample_shapes(store: KgStore, config: KgPathConfig, seed: int, count: int) -> Iterator[FactChain]:
    """Up to `count` paths, each found once; fewer when the graph has no more of the forms that are wanted."""
    return PathSampler(store, config, seed).sample(count)


class PathSampler:
    """Samples paths of one store. `rejected` counts, by reason, the attempts that gave none."""

    def __init__(self, store: KgStore, config: KgPathConfig, seed: int) -> None:
        self._store, self._config, self._random = store, config, random.Random(seed)
        self._graph = Graph(store, config.symmetric)
        self._kinds = KindReader(store, relations_named(store, config.kinds), relations_named(store, config.roles))
        self._needs_kind = relations_named(store, config.needs_kind)
        self._open_ended = relations_named(store, config.open_ended)
        self._wanted = self._wanted_edges()
        self._all = _edges(*(np.arange(len(store.relation_names)) for _ in range(2)))
        self._used = np.zeros(len(store.relation_names))
        self._per_answer: Counter[int] = Counter()
        self._seen: set[str] = set()
        self._named = lru_cache(4096)(lambda row: store.namesakes(store.label_of(row)))
        self.rejected: Counter[str] = Counter()
        """`no_path`: nothing could be grown; `not_unique`: another entity satisfies it; `shortcut`: a triple joins
        what is two facts apart or more; `spare_fact`: it is unique without one of its facts; `told`: the
        name of a start or of an earlier finding has that of a later one; `repeated`: it was found before, or its
        answer was too often."""

    def sample(self, count: int) -> Iterator[FactChain]:
        """See `sample_shapes`."""
        found = missed = 0
        while found < count and missed < _MOST_MISSED and self._wanted[True].any():
            chain = self._of_form(self._form())
            missed = 0 if chain else missed + 1
            if chain:
                found += 1
                yield chain

    def _form(self) -> Form:
        hops = self._random.choice(self._config.hops)
        if hops == 1 or self._random.random() >= self._config.intersections:
            return Form(hops)
        stem = self._random.randint(0, hops - 2)
        shorter = self._random.randint(1, (hops - stem) // 2)
        return Form(stem, (hops - stem - shorter, shorter))

    def _of_form(self, form: Form) -> FactChain | None:
        for _ in range(self._config.max_attempts):
            try:
                return self._attempt(form)
            except _Unfit as reason:
                self.rejected[str(reason)] += 1
        return None

    def _attempt(self, form: Form) -> FactChain:
        """One path. Raises `_Unfit`."""
        edge = self._edge(self._all, meets=not form.stem)
        sources = self._graph.num_sources(edge.relation, edge.is_forward)
        place = np.array([self._random.randrange(sources)])
        child = int(self._graph.sources(edge.relation, edge.is_forward, place)[0])
        row = self._any(self._graph.reached(child, edge.relation, edge.is_forward))
        try:
            if self._per_answer[row] >= self._config.max_per_answer:
                raise _Unfit("repeated")
            if not self._may_be_found(row):
                raise _Unfit("no_path")
            root = self._grow(row, form, {row}, None, first=(edge, child))
            chain = self._counted(root)
        except _Unfit:
            self._used[edge.relation] += _MISS_WEIGHT
            raise
        self._seen.add(chain.id)
        self._per_answer[row] += 1
        for _, link in links_of(root):
            self._used[link.relation] += 1
        return chain

    # Growing

    def _grow(
        self, row: int, form: Form, taken: set[int], up: _Edge | None, first: tuple[_Edge, int] | None = None
    ) -> PathNode:
        """An entity with all that leads to it. `up`: the fact that leads on from it; `first`: one that has to lead to
        it. Raises `_Unfit`.
        """
        forms = [Form(form.stem - 1, form.branches)] if form.stem else [Form(length - 1) for length in form.branches]
        links: list[Link] = []
        for below in forms:
            meets = len(forms) > 1
            may_be_open = meets and not any(self._is_open(_Edge(link.relation, link.is_forward)) for link in links)
            slot = _Slot(row=row, form=below, up=up, meets=meets, may_be_open=may_be_open)
            links.append(self._link(slot, taken, None if links else first))
        return PathNode(row, tuple(links))

    def _link(self, slot: _Slot, taken: set[int], first: tuple[_Edge, int] | None) -> Link:
        """A fact that leads to an entity, with all that leads to its other end. Raises `_Unfit`."""
        for _ in range(1 if first else _TRIES):
            edge, child = first or self._edge_to(slot.row, slot.meets)
            if child not in taken and self._is_fit(slot, edge, child):
                taken.add(child)
                return Link(edge.relation, edge.is_forward, self._grow(child, slot.form, taken, edge))
        raise _Unfit("no_path")

    def _is_fit(self, slot: _Slot, edge: _Edge, child: int) -> bool:
        """May this fact lead to the entity of the slot?"""
        leads_on = slot.form != Form(0)
        if not (self._may_be_passed(child) if leads_on else self._kinds.is_proper(child)):
            return False
        if slot.up and self._turns_back(slot, edge, child):
            return False
        if edge.is_forward and edge.relation in self._needs_kind and not self._kinds.kind(slot.row):
            return False
        if slot.meets and not slot.may_be_open and self._is_open(edge):
            return False
        fan_out = len(self._graph.reached(child, edge.relation, edge.is_forward))
        return 1 < fan_out <= self._config.max_fan_out if slot.meets else fan_out == 1

    def _turns_back(self, slot: _Slot, edge: _Edge, child: int) -> bool:
        """Is the next fact this one the other way round, or one that leads back to where this one came from?"""
        up = slot.up
        if up is None:
            return False
        if up.relation == edge.relation and (up.is_forward != edge.is_forward or up.relation in self._graph.symmetric):
            return True
        return bool((self._graph.reached(slot.row, up.relation, up.is_forward) == child).any())

    def _is_open(self, edge: _Edge) -> bool:
        leads_back = not edge.is_forward or edge.relation in self._graph.symmetric
        return edge.relation in self._open_ended and leads_back

    def _may_be_found(self, row: int) -> bool:
        """Can it be an answer?"""
        return self._kinds.is_proper(row) and self._store.degree_of(row) <= self._config.max_degree

    def _may_be_passed(self, row: int) -> bool:
        """Can it be a bridge?"""
        return self._may_be_found(row) and self._kinds.kind(row) not in self._config.ends

    def _edge_to(self, row: int, meets: bool) -> tuple[_Edge, int]:
        """A fact that leads to an entity, and its other end. Raises `_Unfit`."""
        edge = self._edge(_edges(self._store.out.relations_of(row), self._store.into.relations_of(row)), meets)
        return edge, self._any(self._graph.reached(row, edge.relation, not edge.is_forward))

    def _edge(self, edges: tuple[np.ndarray, np.ndarray], meets: bool) -> _Edge:
        """One of some relations and directions, more often one that few paths have. Raises `_Unfit`."""
        relations, are_forward = edges
        weights = np.cumsum(self._wanted[meets][are_forward, relations] / (1 + self._used[relations]) ** 2)
        if not len(weights) or weights[-1] <= 0:
            raise _Unfit("no_path")
        place = int(np.searchsorted(weights, self._random.random() * weights[-1], side="right"))
        return _Edge(int(relations[place]), bool(are_forward[place]))

    def _wanted_edges(self) -> dict[bool, np.ndarray]:
        """Where chains meet (True) and elsewhere: whether a direction (1: forward) of a relation may lead to an entity.

        Shape of each: (2, relations).
        """
        config, graph, count = self._config, self._graph, len(self._store.relation_names)
        many_tails, one_head = (relations_named(self._store, names) for names in (config.many_tails, config.one_head))
        wanted = {meets: np.zeros((2, count)) for meets in (True, False)}
        for relation in set(range(count)) - relations_named(self._store, config.excluded):
            for is_forward in (True, False):
                triples = graph.num_triples(relation, is_forward)
                wanted[True][int(is_forward), relation] = triples > 0
                wanted[False][int(is_forward), relation] = (
                    triples >= config.min_triples
                    and (relation not in many_tails if is_forward else relation in one_head)
                    and graph.functionality(relation, is_forward) >= config.min_functionality
                )
        return wanted

    def _any(self, rows: np.ndarray) -> int:
        return int(rows[self._random.randrange(len(rows))])

    # Counting

    def _counted(self, root: PathNode) -> FactChain:
        """The record of a tree that the whole graph bears out. Raises `_Unfit`."""
        if self._is_told(root):
            raise _Unfit("told")
        if self._has_shortcut(root, ()):
            raise _Unfit("shortcut")
        most = self._config.max_fan_out * 100
        matches: dict[int, int] = {}
        for node in root.below():
            found = answers(self._graph, node, self._named, most)
            matches[node.row] = 0 if found is None else len(found)
            if node.links and matches[node.row] != 1:
                raise _Unfit("not_unique")
        left: list[int] = []
        for _, link in links_of(root):
            counted = self._config.max_counted
            left.append(left_without(self._graph, root, link, self._named, most_counted=counted, most=most))
            if left[-1] < 2:
                raise _Unfit("spare_fact")
        chain = chain_of(self._graph, root, self._kinds, matches, left)
        if chain.id in self._seen:
            raise _Unfit("repeated")
        return chain

    def _is_told(self, root: PathNode) -> bool:
        """Does a start's name, or that of an earlier finding, have in it what is to be found: Mexico City in Mexico?"""
        known = [self._store.label_of(node.row) for node in root.below() if not node.links]
        for label in (self._store.label_of(node.row) for node in root.below() if node.links):
            if any(mentions(name, label) for name in known):
                return True
            known.append(label)
        return False

    def _has_shortcut(self, node: PathNode, above: tuple[int, ...]) -> bool:
        """Does a triple join an entity with one that it leads to over two facts or more?"""
        if any(self._graph.is_joined(node.row, row) for row in above[:-1]):
            return True
        return any(self._has_shortcut(link.child, (*above, node.row)) for link in node.links)
