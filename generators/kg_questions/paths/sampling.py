"""Paths by chance, grown backwards from the answer, and kept when the whole graph bears them out.

Growing looks at single entities only: which relations lead to it, and to how many others these lead. What is grown is
then counted over the graph. Relations that stand in few paths so far are drawn more often, so none dominates.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trailforge.generators.kg_questions.paths.config import Form, KgPathConfig, share_out
from trailforge.generators.kg_questions.paths.graph import Graph, KindReader, relations_named
from trailforge.generators.kg_questions.paths.query import Link, PathNode, answers, chain_of, left_without, links_of
from trailforge.retrieval.kg import KgStore
from trailforge.rewards import mentions
from trailforge.schemas import FactChain, KgTriple

_TRIES = 6
"""Relations tried for one fact before the path is given up."""
_MOST_MISSED = 6
"""Times in a row that a form gives no path: then the graph has no more of it."""
_MISS_WEIGHT = 0.05
"""What a failed try of a relation counts against a path that has it, when the next one is drawn."""


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
    must_be_list: bool
    """Has it to lead along a closed list, since the fact that it meets does not?"""
    met: frozenset[int]
    """Relations of the facts that it meets: two siblings have the same siblings, so another has to meet it."""


def _edges(out: np.ndarray, into: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The facts that lead to an entity with these relations: (relations, 1 where it is a tail: the way is forward)."""
    are_forward = np.concatenate([np.zeros(len(out), np.int64), np.ones(len(into), np.int64)])
    return np.concatenate([out, into]), are_forward


def _most_wanting(forms: list[Form], asked: Counter[Form], found: Counter[Form]) -> list[Form]:
    """Of the forms that are left those that lack most of their share; else those of the fewest found of their hops."""
    lacking = {form: asked[form] - found[form] for form in forms if found[form] < asked[form]}
    if not lacking:
        by_hops: Counter[int] = Counter()
        for form, number in found.items():
            by_hops[form.hops] += number
        lacking = {form: -by_hops[form.hops] for form in forms}
    most = max(lacking.values())
    return [form for form in forms if lacking.get(form) == most]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactCounts:
    """Facts of a graph."""

    total: int
    asked: int
    """Of relations that are not excluded."""
    leading: int
    """Of those of them that may lead to one entity."""
    most: int
    """Of one relation."""


class _Unfit(Exception):
    """What is grown cannot become a path; the argument is the reason."""


class PathSampler:
    """Samples paths of one store. `rejected` counts, by reason, the attempts that gave none."""

    def __init__(self, store: KgStore, config: KgPathConfig, seed: int) -> None:
        self.config = config
        self._store, self._seed, self._random = store, seed, random.Random(seed)
        self._graph = Graph(store, config.symmetric)
        self._kinds = KindReader(self._graph, config)
        self._needs_kind = relations_named(store, config.needs_kind)
        self._places = relations_named(store, config.places)
        self._lists = {
            True: relations_named(store, config.closed_lists),
            False: relations_named(store, config.closed_heads),
        }
        self._tells_role = relations_named(store, config.tells_role)
        self._many_tails = relations_named(store, config.many_tails)
        self._tells_apart = relations_named(store, config.tells_apart)
        self._wanted = self._wanted_edges()
        self._all = _edges(*(np.arange(len(store.relation_names)) for _ in range(2)))
        self._used = np.zeros(len(store.relation_names))
        self._per_found: Counter[int] = Counter()
        self._found: list[int] = []
        """How many facts each path has that was found."""
        self._paths_of: defaultdict[KgTriple, list[int]] = defaultdict(list)
        """By fact: numbers of the paths that have it."""
        self._named = lru_cache(4096)(lambda row: store.namesakes(store.label_of(row)))
        self.rejected: Counter[str] = Counter()
        """`no_path`: nothing could be grown; `not_unique`: another entity satisfies it; `not_ruled_out`: where two
        facts meet, others may satisfy both for all that the graph says; `shortcut`: a triple joins what is two facts
        apart or more; `spare_fact`: it is unique without one of its facts; `same_relation`: one stands in too many of
        its facts; `told`: the name of a start or of an earlier finding, or a kind, has that of a later one; `repeated`:
        an earlier path has its facts, or too many of them."""

    def sample(self, count: int) -> Iterator[FactChain]:
        """Up to `count` paths, each found once; fewer when the graph has no more of the forms that are wanted.

        What a form lacks of its share goes to others, of as many facts first.
        """
        asked = share_out(self.config.shares, count)
        found: Counter[Form] = Counter()
        missed: Counter[Form] = Counter()
        while found.total() < count and self._wanted[True].any():
            open_forms = [form for form in asked | Counter(self.config.shares) if missed[form] < _MOST_MISSED]
            if not open_forms:
                return
            form = self._random.choice(_most_wanting(open_forms, asked, found))
            chain = self._of_form(form)
            missed[form] = 0 if chain else missed[form] + 1
            if chain:
                found[form] += 1
                yield chain

    def count_facts(self) -> FactCounts:
        """Of the graph, as far as its relations may be followed."""
        facts = dict(enumerate(self._graph.facts_of_relations()))
        asked = facts.keys() - relations_named(self._store, self.config.excluded)
        leading = {relation for relation in asked if self._wanted[False][:, relation].any()}
        return FactCounts(
            total=sum(facts.values()),
            asked=sum(facts[each] for each in asked),
            leading=sum(facts[each] for each in leading),
            most=max(facts.values(), default=0),
        )

    def with_config(self, config: KgPathConfig) -> PathSampler:
        """One of the same graph and seed for other paths, which knows of no path yet."""
        return PathSampler(self._store, config, self._seed)

    def _of_form(self, form: Form) -> FactChain | None:
        for _ in range(self.config.max_attempts):
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
            if not self._may_be_found(row):
                raise _Unfit("no_path")
            root = self._grow(row, form, {row}, None, first=(edge, child))
            chain = self._counted(root)
        except _Unfit:
            self._used[edge.relation] += _MISS_WEIGHT
            raise
        for fact in chain.facts:
            self._paths_of[fact.triple].append(len(self._found))
        self._found.append(len(chain.facts))
        self._per_found.update(node.row for node in root.below() if node.links)
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
            must_be_list = bool(links) and not any(self._is_list(link.relation, link.is_forward) for link in links)
            met = frozenset(link.relation for link in links)
            slot = _Slot(row=row, form=below, up=up, meets=meets, must_be_list=must_be_list, met=met)
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
        kind = self._kinds.kind(slot.row)
        if edge.relation in self._needs_kind and not kind:
            return False
        if edge.relation in self._places and kind.casefold().startswith(self.config.coarse):
            return False
        if self._kinds.is_odd(edge.relation, *((child, slot.row) if edge.is_forward else (slot.row, child))):
            return False
        fan_out = len(self._graph.reached(child, edge.relation, edge.is_forward))
        if slot.meets:
            return 1 < fan_out <= self.config.max_fan_out and self._may_meet(slot, edge)
        return fan_out == 1 and (slot.up is not None or not self._is_guessed(slot.row, edge))

    def _may_meet(self, slot: _Slot, edge: _Edge) -> bool:
        """May this fact meet another? One of the two leads along a closed list."""
        is_list = self._is_list(edge.relation, edge.is_forward)
        if edge.relation in slot.met or (slot.must_be_list and not is_list):
            return False
        if is_list or edge.relation in self._tells_apart:
            return True
        # What has one tail as a rule, and several here, had them one after the other.
        return not edge.is_forward and edge.relation not in self._many_tails

    def _is_guessed(self, row: int, edge: _Edge) -> bool:
        """Is it often right to name this entity, whatever the fact leads from?"""
        graph, most = self._graph, self.config.max_guess
        if graph.num_sources(edge.relation, not edge.is_forward) * most < 1:
            return True
        of_all = len(graph.reached(row, edge.relation, not edge.is_forward))
        return of_all > max(most * graph.num_triples(edge.relation, edge.is_forward), 1)

    def _turns_back(self, slot: _Slot, edge: _Edge, child: int) -> bool:
        """Is the next fact this one the other way round, or one that leads back to where this one came from?"""
        up = slot.up
        if up is None:
            return False
        if up.relation == edge.relation and (up.is_forward != edge.is_forward or up.relation in self._graph.symmetric):
            return True
        return bool((self._graph.reached(slot.row, up.relation, up.is_forward) == child).any())

    def _is_list(self, relation: int, is_forward: bool) -> bool:
        lists = self._lists[True] | self._lists[False] if relation in self._graph.symmetric else self._lists[is_forward]
        return relation in lists

    def _may_be_found(self, row: int) -> bool:
        """Can it be an answer?"""
        is_thing = self._kinds.is_proper(row) and not self._kinds.is_gone(row)
        is_used_up = self._per_found[row] >= self.config.max_per_found
        return is_thing and not is_used_up and self._store.degree_of(row) <= self.config.max_degree

    def _may_be_passed(self, row: int) -> bool:
        """Can it be a bridge?"""
        return self._may_be_found(row) and self._kinds.kind(row) not in self.config.ends

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
        config, graph, count = self.config, self._graph, len(self._store.relation_names)
        many_tails, one_head = self._many_tails, relations_named(self._store, config.one_head)
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
        if max(Counter(link.relation for _, link in links_of(root)).values()) > self.config.max_same:
            raise _Unfit("same_relation")
        if self._gives_away(root):
            raise _Unfit("told")
        if self._has_shortcut(root, ()):
            raise _Unfit("shortcut")
        most = self.config.max_fan_out * 100
        matches: dict[int, int] = {}
        for node in root.below():
            found = answers(self._graph, node, self._named, most)
            matches[node.row] = 0 if found is None else len(found)
            if node.links and matches[node.row] != 1:
                raise _Unfit("not_unique")
            if len(node.links) > 1 and not self._rules_others_out(node):
                raise _Unfit("not_ruled_out")
        left: list[int] = []
        for _, link in links_of(root):
            counted = self.config.max_counted
            left.append(left_without(self._graph, root, link, self._named, most_counted=counted, most=most))
            if left[-1] < 2:
                raise _Unfit("spare_fact")
        chain = chain_of(self._graph, root, self._kinds, matches, left, self._tells_role)
        if self._repeats(chain):
            raise _Unfit("repeated")
        return chain

    def _rules_others_out(self, node: PathNode) -> bool:
        """Of two facts that meet: does one lead along a closed list, and does the graph tell of each other entity on
        it what it has in the place of the other fact?
        """
        for link, other in (node.links, node.links[::-1]):
            if not self._is_list(link.relation, link.is_forward):
                continue
            rivals = self._graph.reached(link.child.row, link.relation, link.is_forward)
            if all(
                len(self._graph.reached(int(row), other.relation, not other.is_forward))
                for row in rivals
                if row != node.row
            ):
                return True
        return False

    def _repeats(self, chain: FactChain) -> bool:
        """Has it too many facts of an earlier path, or all? Who answers one answers part of the other."""
        length, most = len(chain.facts), self.config.max_shared
        shared = Counter(number for fact in chain.facts for number in self._paths_of[fact.triple])
        return any(
            count > most * min(length, self._found[number]) or count == length == self._found[number]
            for number, count in shared.items()
        )

    def _gives_away(self, root: PathNode) -> bool:
        """Does a start's name, a kind, or an earlier finding's name have in it what is to be found: Mexico City in
        Mexico, or a state of Mexico?
        """
        known = [self._store.label_of(node.row) for node in root.below() if not node.links]
        known += [self._kinds.kind(node.row) for node in root.below()]
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
