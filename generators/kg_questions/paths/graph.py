"""A store as paths see it: who has a relation, what it leads to (indexed by relation once), and what an entity is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trailforge.retrieval.kg import KgStore
from trailforge.retrieval.kg.graph import Adjacency
from trailforge.schemas import KgTriple


@dataclass(frozen=True, slots=True)
class _Side:
    """The runs of one direction, ordered by relation."""

    adjacency: Adjacency
    order: np.ndarray
    """Runs by relation; int32, shape (runs,)."""
    starts: np.ndarray
    """Where each relation's runs begin in `order`; shape (relations + 1,)."""
    triples: np.ndarray
    """Of each relation; shape (relations,)."""

    @classmethod
    def of(cls, adjacency: Adjacency, relations: int) -> _Side:
        counts = np.bincount(adjacency.relations, minlength=relations)
        lengths = np.diff(adjacency.edges.astype(np.int64))
        triples = np.bincount(adjacency.relations, weights=lengths, minlength=relations)
        keys = adjacency.relations.astype(
            np.uint16 if relations <= 1 << 16 else np.int32
        )  # short keys sort in one pass
        order = np.argsort(keys, kind="stable").astype(np.int32)
        return cls(adjacency, order, np.concatenate([[0], np.cumsum(counts)]), triples)

    def owners(self, runs: np.ndarray) -> np.ndarray:
        """The entities that have some runs."""
        return np.searchsorted(self.adjacency.runs, runs.astype(self.adjacency.runs.dtype), side="right") - 1

    def runs(self, relation: int) -> np.ndarray:
        """The runs of a relation, rising."""
        return self.order[int(self.starts[relation]) : int(self.starts[relation + 1])]


class Graph:
    """A store as paths see it, by row. A direction `is_forward` leads from heads to tails."""

    def __init__(self, store: KgStore, symmetric: Iterable[str] = ()) -> None:
        """`symmetric`: relations, by label or id, that hold both ways however they are stated."""
        self.store = store
        self.symmetric = relations_named(store, symmetric)
        count = len(store.relation_names)
        self._sides = {True: _Side.of(store.out, count), False: _Side.of(store.into, count)}

    def reached(self, row: int, relation: int, is_forward: bool) -> np.ndarray:
        """The entities that a relation leads to from one, rising."""
        side = self.store.out if is_forward else self.store.into
        found = side.neighbours_of(row, relation)
        if relation not in self.symmetric:
            return found
        other = self.store.into if is_forward else self.store.out
        return np.union1d(found, other.neighbours_of(row, relation))

    def triple(self, source: int, relation: int, is_forward: bool, target: int) -> KgTriple:
        """The triple by which `source` reaches `target`, as the store has it."""
        ends = (source, target) if is_forward else (target, source)
        if relation in self.symmetric and not (self.store.out.neighbours_of(ends[0], relation) == ends[1]).any():
            ends = ends[1], ends[0]
        return self.store.triple(ends[0], relation, ends[1])

    def is_joined(self, row: int, other: int) -> bool:
        """Is there a triple between two entities, whichever way? Reads those of the one that has fewer."""
        few, many = sorted((row, other), key=self.store.degree_of)
        return any(bool((side.neighbours_of(few) == many).any()) for side in (self.store.out, self.store.into))

    def sources(self, relation: int, is_forward: bool, places: np.ndarray | None = None) -> np.ndarray:
        """The entities that a relation leads from in this direction; only those at some places if given."""
        runs = [(side, side.runs(relation)) for side in self._sides_of(relation, is_forward)]
        rows = np.concatenate([side.owners(each) for side, each in runs]) if places is None or len(runs) > 1 else None
        if rows is None:
            side, each = runs[0]
            return side.owners(each[places])
        rows = np.unique(rows)
        return rows if places is None else rows[places[places < len(rows)]]

    def num_sources(self, relation: int, is_forward: bool) -> int:
        """How many entities it leads from; of a symmetric one those of both directions."""
        return (
            len(self.sources(relation, is_forward))
            if relation in self.symmetric
            else len(self._sides[is_forward].runs(relation))
        )

    def num_triples(self, relation: int, is_forward: bool) -> int:
        """How many ways it leads; of a symmetric one those of both directions."""
        return sum(int(side.triples[relation]) for side in self._sides_of(relation, is_forward))

    def functionality(self, relation: int, is_forward: bool) -> float:
        """Entities that it leads from over triples: 1 when it always leads to one. 0 without triples."""
        triples = self.num_triples(relation, is_forward)
        return self.num_sources(relation, is_forward) / triples if triples else 0.0

    def _sides_of(self, relation: int, is_forward: bool) -> list[_Side]:
        both = [self._sides[is_forward], self._sides[not is_forward]]
        return both if relation in self.symmetric else both[:1]


def relations_named(store: KgStore, wanted: Iterable[str]) -> frozenset[int]:
    """Rows of the relations with one of these labels (case aside) or ids; what no relation is called is passed over."""
    keys = {name.casefold() for name in wanted}
    return frozenset(
        row
        for row, names in enumerate(store.relation_names)
        if names[0].casefold() in keys or store.relation_id(row).casefold() in keys
    )


_PERSON = "person"
_HUMAN = "human"
_LONGEST_LABEL = 10
"""Words: what is longer is a sentence, not a name."""


@dataclass(frozen=True, slots=True)
class KindReader:
    """Reads kinds by row."""

    store: KgStore
    kinds: frozenset[int]
    """Relations that say what something is."""
    roles: frozenset[int]
    """Relations that say what a person does."""

    def kind(self, row: int) -> str:
        """Label of the first class that it is an instance of, `person` for a human; empty without any."""
        label = self._first(row, self.kinds)
        return _PERSON if label == _HUMAN else label

    def role(self, row: int) -> str:
        """Label of what it does, of several things the one that most do; empty without any."""
        found = [int(each) for relation in self.roles for each in self.store.out.neighbours_of(row, relation)]
        return self.store.label_of(max(found, key=lambda each: (self.store.degree_of(each), -each))) if found else ""

    def is_proper(self, row: int) -> bool:
        """Has it a name of its own, and is it no class that others are instances of?"""
        label = self.store.label_of(row)
        if label == self.store.id_of(row) or not any(map(str.isalnum, label)) or len(label.split()) > _LONGEST_LABEL:
            return False
        return (self.kinds | self.roles).isdisjoint(self.store.into.relations_of(row).tolist())

    def _first(self, row: int, relations: frozenset[int]) -> str:
        for relation in sorted(relations):
            found = self.store.out.neighbours_of(row, relation)
            if len(found):
                return self.store.label_of(int(found[0]))
        return ""
