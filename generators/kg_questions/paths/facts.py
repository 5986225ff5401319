"""Find the facts of a graph that may lead to an entity, by their relation, by both ends, and by the form of a path.

Read from the whole store at once, so that paths are grown from what can be asked and never from what cannot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from trailforge.generators.kg_questions.paths.config import Form, KgPathConfig
from trailforge.generators.kg_questions.paths.graph import PERSON, Graph, KindReader, relations_named


class Edge(NamedTuple):
    """A relation and the direction in which it is followed."""

    relation: int
    is_forward: bool


class Incoming(NamedTuple):
    """A fact by which an entity is reached from another one, `child`."""

    edge: Edge
    child: int


@dataclass(frozen=True)
class Facts:
    """Facts sorted by the entities that they lead to, as arrays of one length with an element for each fact."""

    relations: np.ndarray
    are_forward: np.ndarray
    children: np.ndarray
    rows: np.ndarray
    """Rows of the entities that the facts lead to, in rising order."""

    @classmethod
    def of(cls, graph: Graph, edges: Iterable[Edge], least: int, most: int) -> Facts:
        """Return all facts of these relations and directions whose other end leads to at least `least` and at most
        `most` entities."""
        parts: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        for edge in edges:
            children, rows = graph.pairs(edge.relation, edge.is_forward, least, most)
            relations = np.full(len(rows), edge.relation, np.int32)
            ways = np.full(len(rows), edge.is_forward)
            parts.append((relations, ways, children.astype(np.int32), rows.astype(np.int32)))
        if not parts:
            return cls(*(np.zeros(0, kind) for kind in (np.int32, bool, np.int32, np.int32)))
        relations, are_forward, children, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(rows, kind="stable")
        return cls(relations[order], are_forward[order], children[order], rows[order])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> Incoming:
        return Incoming(Edge(int(self.relations[place]), bool(self.are_forward[place])), int(self.children[place]))

    def leading_to(self, row: int) -> range:
        """Return the index range of the facts that lead to an entity."""
        first, last = np.searchsorted(self.rows, [row, row + 1])
        return range(int(first), int(last))

    @cached_property
    def places_of(self) -> dict[Edge, np.ndarray]:
        """Return the indices of all facts, by relation and direction."""
        keys = self.relations.astype(np.int64) * 2 + self.are_forward
        order = np.argsort(keys, kind="stable")
        found, first = np.unique(keys[order], return_index=True)
        parts = np.split(order, first)[1:]
        return {Edge(int(key) >> 1, bool(key & 1)): part for key, part in zip(found.tolist(), parts, strict=True)}


class Reach:
    """Tells which entities a path of some form may lead to, as far as each of its facts taken alone can tell."""

    def __init__(self, single: Facts, listed: Facts, may_be_found: np.ndarray) -> None:
        """`single`: facts that lead to one entity; `listed`: facts along closed lists; `may_be_found`: by row."""
        self.single, self.listed = single, listed
        self._may_be_found = may_be_found
        self._masks: dict[Form, np.ndarray] = {Form(0): np.ones(len(may_be_found), bool)}

    def of(self, form: Form) -> np.ndarray:
        """Return a boolean array, by the row of the entity, of those that a path of this form may lead to; for a form
        without facts, all.
        """
        if form not in self._masks:
            mask = np.zeros(len(self._may_be_found), bool)
            facts, places = self.last_facts(form)
            mask[facts.rows[places]] = True
            self._masks[form] = mask & self._may_be_found
        return self._masks[form]

    def last_facts(self, form: Form) -> tuple[Facts, np.ndarray]:
        """Return facts, and the indices of those among them with which a path of this form may end. Where two chains
        meet, that is the fact of the chain that runs along a closed list.
        """
        facts = self.single if form.stem else self.listed
        from_children = np.zeros(len(facts), bool)
        for below in forms_below(form):
            from_children |= self.of(below)[facts.children]
        return facts, np.flatnonzero(from_children & self._may_be_found[facts.rows])


def forms_below(form: Form) -> list[Form]:
    """Return the possible forms of the rest of a path, before the last fact of this form."""
    return [Form(form.stem - 1, form.branches)] if form.stem else [Form(length - 1) for length in form.branches]


class Pool:
    """Hands out facts with which paths may end, in random order, round after round."""

    _LEAST_ROUNDS = 5
    _MOST = 50_000

    def __init__(self, places: np.ndarray, seed: int) -> None:
        draw = np.random.default_rng(seed)
        some = draw.permutation(places) if len(places) <= self._MOST else draw.choice(places, self._MOST, replace=False)
        self._places: list[int] = some.tolist()
        self._taken, self._rounds = 0, 0
        self.gives = False
        """Has one of them given a path in this round?"""

    def take(self) -> int | None:
        """Return the index of the next fact, or None when there are no more."""
        if self._taken == len(self._places):
            self._rounds += 1
            if self._rounds >= self._LEAST_ROUNDS and not self.gives:
                return None
            self._taken, self.gives = 0, False
        self._taken += 1
        return self._places[self._taken - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place in a path that is being grown, for which a fact is wanted."""

    row: int
    """Row of the entity that the fact has to lead to."""
    form: Form
    """Form of what leads to the fact's other end; `Form(0)` for a start."""
    up: Edge | None
    """The fact that leads on from `row`; None at the answer."""
    meets: bool
    """Whether the fact is one of two that meet in `row`. Then it leads to others too, else to `row` alone."""
    met: int | None
    """Relation of the fact along a closed list that this fact meets: two siblings have the same siblings, so another
    has to meet it. None for that fact itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactCounts:
    """The number of a graph's facts, and of those that paths may use."""

    total: int
    asked: int
    """Number of facts whose relations are not excluded."""
    leading: int
    """Number of those facts that may lead to one entity."""
    most: int
    """Largest number of facts that one relation has."""


def _noun_of(kind: str) -> str:
    """Of `non-metropolitan county` and `county of Virginia`, the county."""
    return next(iter(re.split(r" (?:of|in|with) ", kind.casefold())[0].split()[-1:]), "")


class FactRules:
    """Decides by a configuration's rules which facts of one graph may be used."""

    def __init__(self, graph: Graph, kinds: KindReader, config: KgPathConfig) -> None:
        self._graph, self._kinds, self._config = graph, kinds, config
        store = graph.store
        self._needs_kind = relations_named(store, config.needs_kind)
        self._places = relations_named(store, config.places)
        self._buildings = relations_named(store, config.buildings)
        self._impersonal = relations_named(store, config.impersonal)
        self.lists = self._lists()
        """Relations that lead along a closed list, by the way they do."""
        self.single, self.listed, self.meeting = self._followed()
        """Relations that may lead to one entity; those that may be the list where facts meet; and what may meet it."""

    def _lists(self) -> frozenset[Edge]:
        store, config = self._graph.store, self._config
        lists = {Edge(relation, True) for relation in relations_named(store, config.closed_lists)}
        lists |= {Edge(relation, False) for relation in relations_named(store, config.closed_heads)}
        return frozenset(lists | {Edge(r, not way) for r, way in lists if r in self._graph.symmetric})

    def _followed(self) -> tuple[list[Edge], list[Edge], frozenset[Edge]]:
        config, graph = self._config, self._graph
        named = {name: relations_named(graph.store, getattr(config, name)) for name in
                 ("excluded", "many_tails", "one_head", "tells_apart")}  # fmt: skip
        single: list[Edge] = []
        meeting: list[Edge] = []
        for relation in sorted(set(range(len(graph.store.relation_names))) - named["excluded"]):
            for edge in (Edge(relation, True), Edge(relation, False)):
                triples = graph.num_triples(*edge)
                may_lead = relation not in named["many_tails"] if edge.is_forward else relation in named["one_head"]
                is_usual = triples >= config.min_triples and graph.functionality(*edge) >= config.min_functionality
                if may_lead and is_usual:
                    single.append(edge)
                # What has one tail as a rule, and several here, had them one after the other.
                one_of_many = not edge.is_forward and relation not in named["many_tails"]
                if triples and (edge in self.lists or relation in named["tells_apart"] or one_of_many):
                    meeting.append(edge)
        return single, [edge for edge in meeting if edge in self.lists], frozenset(meeting)

    def count_facts(self) -> FactCounts:
        """Count the facts of the graph that its rules allow to be followed."""
        facts = dict(enumerate(self._graph.facts_of_relations()))
        asked = facts.keys() - relations_named(self._graph.store, self._config.excluded)
        leading = {edge.relation for edge in self.single}
        return FactCounts(
            total=sum(facts.values()),
            asked=sum(facts[each] for each in asked),
            leading=sum(facts[each] for each in leading),
            most=max(facts.values(), default=0),
        )

    def why_unfit(self, slot: Slot, edge: Edge, child: int) -> str:
        """Return why the fact that leads by `edge` from the entity `child` to the slot's entity may not fill the slot,
        as one of the reasons in `shortage`; empty if it may.
        """
        kinds, config = self._kinds, self._config
        if not kinds.is_proper(child):
            return "no_thing"
        if slot.up and self._turns_back(slot, edge, child):
            return "turns_back"
        kind = kinds.kind(slot.row)
        if edge.relation in self._needs_kind and not kind:
            return "needs_kind"
        if kind and kind == kinds.kind(child) and edge.relation in self._needs_kind:
            return "same_kind"
        if edge.relation in self._places and _noun_of(kind) in config.coarse:
            return "coarse_place"
        if edge.relation in self._buildings and _noun_of(kind) in config.towns:
            return "coarse_place"
        head, tail = (child, slot.row) if edge.is_forward else (slot.row, child)
        if edge.relation in self._impersonal and kinds.kind(head) == PERSON:
            return "odd_kind"
        if kinds.is_odd(edge.relation, head, tail):
            return "odd_kind"
        fan_out = len(self._graph.reached(child, edge.relation, edge.is_forward))
        if slot.meets:
            return "" if 1 < fan_out <= config.max_fan_out else "fan_out"
        if fan_out != 1:
            return "fan_out"
        return "guessed" if slot.up is None and self._is_guessed(slot.row, edge) else ""

    def _is_guessed(self, row: int, edge: Edge) -> bool:
        """Is it often right to name this entity, whatever the fact leads from?"""
        graph, most = self._graph, self._config.max_guess
        if graph.num_sources(edge.relation, not edge.is_forward) * most < 1:
            return True
        of_all = len(graph.reached(row, edge.relation, not edge.is_forward))
        return of_all > max(most * graph.num_triples(edge.relation, edge.is_forward), 1)

    def _turns_back(self, slot: Slot, edge: Edge, child: int) -> bool:
        """Is the next fact this one the other way round, or one that leads back to where this one came from?"""
        up = slot.up
        if up is None:
            return False
        if up.relation == edge.relation and (up.is_forward != edge.is_forward or up.relation in self._graph.symmetric):
            return True
        return bool((self._graph.reached(slot.row, up.relation, up.is_forward) == child).any())
