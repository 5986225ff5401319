"""A knowledge graph as the sampling of paths reads it, indexed by row numbers: which entities a relation connects, and
what they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trailforge.generators.kg_questions.paths.config import KgPathConfig
from trailforge.retrieval.kg import Adjacency, KgStore, stretch
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

    def pairs(self, relation: int, least: int, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Sources and what a relation leads to from them, of those from which it leads to `least` to `most`."""
        runs, edges = self.runs(relation), self.adjacency.edges
        lengths = edges[runs + 1].astype(np.int64) - edges[runs]
        fits = (lengths >= least) & (lengths <= most)
        runs, lengths = runs[fits], lengths[fits]
        targets = self.adjacency.neighbours[stretch(edges[runs].astype(np.int64), lengths)]
        return np.repeat(self.owners(runs), lengths), targets


class Graph:
    """A knowledge graph in row numbers, as the sampling of paths uses it. `is_forward` means from subjects (heads) to
    objects (tails).
    """

    def __init__(self, store: KgStore, config: KgPathConfig) -> None:
        self.store = store
        self.symmetric = relations_named(store, config.symmetric)
        self._of_today = relations_named(store, config.of_today)
        self.is_gone = _rows_of_kinds(store, config.kinds, config.gone)
        """Whether each entity is of a kind that is no more; shape (entities,)."""
        count = len(store.relation_names)
        self._sides = {True: _Side.of(store.out, count), False: _Side.of(store.into, count)}

    def reached(self, row: int, relation: int, is_forward: bool) -> np.ndarray:
        """Return the entities that a relation leads to from one entity, in rising order."""
        side = self.store.out if is_forward else self.store.into
        found = side.neighbours_of(row, relation)
        if is_forward and relation in self._of_today:
            return found[~self.is_gone[found]]
        if relation not in self.symmetric:
            return found
        other = self.store.into if is_forward else self.store.out
        return np.union1d(found, other.neighbours_of(row, relation))

    def triple(self, source: int, relation: int, is_forward: bool, target: int) -> KgTriple:
        """Return the triple by which `source` reaches `target`, as the store has it. For a symmetric relation both
        directions give the same triple, even where both are stated.
        """
        ends = (source, target) if is_forward else (target, source)
        if relation in self.symmetric:
            ends = min(ends), max(ends)
            if not (self.store.out.neighbours_of(ends[0], relation) == ends[1]).any():
                ends = ends[1], ends[0]
        return self.store.triple(ends[0], relation, ends[1])

    def is_joined(self, row: int, other: int) -> bool:
        """Tell whether a triple connects two entities, in either direction."""
        few, many = sorted((row, other), key=self.store.degree_of)
        return any(bool((side.neighbours_of(few) == many).any()) for side in (self.store.out, self.store.into))

    def sources(self, relation: int, is_forward: bool, places: np.ndarray | None = None) -> np.ndarray:
        """Return the entities from which a relation leads in this direction, in rising order; with `places`, only those
        at these indices.
        """
        sides = self._sides_of(relation, is_forward)
        if places is not None and len(sides) == 1:
            return sides[0].owners(sides[0].runs(relation)[places])
        rows = np.unique(np.concatenate([side.owners(side.runs(relation)) for side in sides]))
        return rows if places is None else rows[places[places < len(rows)]]

    def pairs(self, relation: int, is_forward: bool, least: int, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the entities from which a relation leads to between `least` and `most` entities, paired with each of
        these.
        """
        is_of_today = is_forward and relation in self._of_today
        if relation not in self.symmetric and not is_of_today:
            return self._sides[is_forward].pairs(relation, least, most)
        sides = self._sides.values() if relation in self.symmetric else [self._sides[is_forward]]
        ends = np.concatenate([np.stack(side.pairs(relation, 1, len(self.store))) for side in sides], axis=1)
        ends = ends[:, ~self.is_gone[ends[1]]] if is_of_today else np.unique(ends, axis=1)
        _, places, counts = np.unique(ends[0], return_inverse=True, return_counts=True)
        sources, targets = ends[:, (counts >= least)[places] & (counts <= most)[places]]
        return sources, targets

    def num_sources(self, relation: int, is_forward: bool) -> int:
        """Return from how many entities a relation leads in this direction; for a symmetric one, both directions
        count.
        """
        return (
            len(self.sources(relation, is_forward))
            if relation in self.symmetric
            else len(self._sides[is_forward].runs(relation))
        )

    def num_triples(self, relation: int, is_forward: bool) -> int:
        """Return how many pairs of entities a relation connects; for a symmetric one, both directions count."""
        return sum(int(side.triples[relation]) for side in self._sides_of(relation, is_forward))

    def facts_of_relations(self) -> list[int]:
        """Return how many triples each relation has, as the graph states them."""
        return [int(count) for count in self._sides[True].triples]

    def functionality(self, relation: int, is_forward: bool) -> float:
        """Return the number of entities from which a relation leads, divided by its triples: 1 when it always leads to
        a single entity, 0 without triples.
        """
        if is_forward and relation in self._of_today:
            sources, _ = self.pairs(relation, is_forward, 1, len(self.store))
            return len(np.unique(sources)) / len(sources) if len(sources) else 0.0
        triples = self.num_triples(relation, is_forward)
        return self.num_sources(relation, is_forward) / triples if triples else 0.0

    def _sides_of(self, relation: int, is_forward: bool) -> list[_Side]:
        both = [self._sides[is_forward], self._sides[not is_forward]]
        return both if relation in self.symmetric else both[:1]


def relations_named(store: KgStore, wanted: Iterable[str]) -> frozenset[int]:
    """Return the row numbers of the relations with one of these labels (ignoring case) or ids; unknown ones are
    skipped.
    """
    keys = {name.casefold() for name in wanted}
    return frozenset(
        row
        for row, names in enumerate(store.relation_names)
        if names[0].casefold() in keys or store.relation_id(row).casefold() in keys
    )


def _rows_of_kinds(store: KgStore, relations: Iterable[str], kinds: Iterable[str]) -> np.ndarray:
    """Whether each entity is an instance of a class with one of these labels; shape (entities,)."""
    found = np.zeros(len(store), bool)
    for label in kinds:
        for each in store.namesakes(label).tolist():
            if store.label_of(each).casefold() == label:
                for relation in relations_named(store, relations):
                    found[store.into.neighbours_of(each, relation)] = True
    return found


PERSON = "person"
_HUMAN = "human"
_TOWN = re.compile(
    r"(?:(?:big|port|charter|independent|autonomous|largest|urban|rural|statutory) )*"
    r"(city|town|municipality|commune|comune|village)(?: (?:of|in|with|on) .*|-county)?"
)
"""Kinds of which people say the noun alone."""
_LONGEST_LABEL = 10
"""Words: what is longer is a sentence, not a name."""
_NO_THINGS = "Wikimedia "
"""Kinds that begin so are pages (lists, names with several meanings), not things."""
_USUAL = 10
"""A class with a tenth of the instances of another is as usual a kind."""
_LOOKED_AT = 500
"""Triples of a relation that show what kinds its ends have."""
_FEWEST_LOOKED_AT = 50
_REMEMBERED = 1 << 16
"""Entities: hubs come again and again."""


class KindReader:
    """Tells, by row number, what kind an entity is, and which kinds a relation connects."""

    def __init__(self, graph: Graph, config: KgPathConfig) -> None:
        self._graph, self._store, self._config = graph, graph.store, config
        self._kinds = relations_named(graph.store, config.kinds)
        self._roles = relations_named(graph.store, config.roles)
        self.kind = lru_cache(_REMEMBERED)(self._read_kind)
        self.is_proper = lru_cache(_REMEMBERED)(self._find_proper)
        self._ends_of = lru_cache(None)(self._count_ends)

    def _read_kind(self, row: int) -> str:
        """Label of the class that it is an instance of, `person` for a human, `city` for a big one or one of a country;
        empty without any.

        Of several classes that have many instances the one of fewest words: `city` says what it is, `state or insular
        area capital in the United States` more than a question should.
        """
        classes = [each for each in self._classes(row) if self._store.is_named(each)]
        things = [each for each in classes if self._store.label_of(each).casefold() not in self._config.ranks]
        found = {each: self._store.degree_of(each) for each in things or classes}
        usual = [each for each, degree in found.items() if degree * _USUAL >= max(found.values())]
        labels = {each: self._store.label_of(each) for each in usual}
        kind = min(usual, key=lambda each: (len(labels[each].split()), -found[each], each), default=None)
        if kind is None:
            return ""
        town = _TOWN.fullmatch(labels[kind])
        return town[1] if town else PERSON if labels[kind] == _HUMAN else labels[kind]

    def role(self, row: int) -> str:
        """Return the label of an entity's occupation, if it has exactly one: of several, the graph does not say for
        which it is known.
        """
        found = {int(each) for relation in self._roles for each in self._store.out.neighbours_of(row, relation)}
        return self._store.label_of(found.pop()) if len(found) == 1 else ""

    def _find_proper(self, row: int) -> bool:
        """Has it a name, and is it a thing: no class that others are instances of, and no page?"""
        label = self._store.label_of(row)
        if not self._store.is_named(row) or not any(map(str.isalnum, label)) or len(label.split()) > _LONGEST_LABEL:
            return False
        is_page = any(kind.startswith(_NO_THINGS) for kind in self._labels(row))
        return not is_page and not self._has_instances(label)

    def is_gone(self, row: int) -> bool:
        """Tell whether an entity is of a kind that no longer exists, such as a former country; towns do not count."""
        return bool(self._graph.is_gone[row]) and not any(map(_TOWN.fullmatch, self._labels(row)))

    def is_odd(self, relation: int, head: int, tail: int) -> bool:
        """Tell whether an end of a fact is of a kind that this relation hardly ever has there. Unknown kinds are never
        odd.
        """
        for (ends, number), row in zip(self._ends_of(relation), (head, tail), strict=True):
            labels = self._labels(row)
            least = self._config.min_kind_share * number
            if labels and number >= _FEWEST_LOOKED_AT and all(ends[label] < least for label in labels):
                return True
        return False

    def _classes(self, row: int) -> list[int]:
        return [int(each) for relation in self._kinds for each in self._store.out.neighbours_of(row, relation)]

    def _labels(self, row: int) -> list[str]:
        return [self._store.label_of(each) for each in self._classes(row)]

    def _has_instances(self, label: str) -> bool:
        """Is something of this name a class? Also where the class is another entity than the thing."""
        relations = self._kinds | self._roles
        rows = self._store.namesakes(label).tolist()
        return any(not relations.isdisjoint(self._store.into.relations_of(row).tolist()) for row in rows)

    def _count_ends(self, relation: int) -> list[tuple[Counter[str], int]]:
        """Kinds of heads, and of tails, of triples from everywhere in the relation; each with how many have a kind."""
        found: list[tuple[Counter[str], int]] = []
        for is_forward in (True, False):
            number = self._graph.num_sources(relation, is_forward)
            places = np.unique(np.linspace(0, max(number - 1, 0), min(number, _LOOKED_AT)).astype(int))
            rows = self._graph.sources(relation, is_forward, places).tolist() if number else []
            labels = [set(self._labels(row)) for row in rows]
            found.append((Counter(label for each in labels for label in each), sum(map(bool, labels))))
        return found
