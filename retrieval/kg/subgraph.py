"""Find the triples around the entities that a search is about (DynaSearcher, appendix on search tools).

All triples of one hop, in both directions, ranked by how many words they share with the mentions and relations, cut at
100 triples and 1,024 tokens. Words that equal a relation's name count for all of its triples, so relations are scored
and not triples: a hub's are ranked without reading them all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from trailforge.retrieval.kg.columns import places, stretch
from trailforge.retrieval.kg.folding import content_words, name_words
from trailforge.retrieval.kg.graph import Adjacency
from trailforge.retrieval.kg.layout import reads
from trailforge.retrieval.kg.store import Direction, KgStore
from trailforge.schemas import InvalidInput, KgTriple, estimate_tokens

CountTokens = Callable[[str], int]
_MOST_READ = 500
"""Neighbours of one entity whose labels are read, in each direction, while they are not looked for by name."""
_MOST_SEARCHED = 16
"""Relations of a hub, in each direction, whose neighbours are looked for by name."""
_MOST_NAMED = 50
"""Neighbours over one relation that are found so."""
_MOST_NAMES = 20_000
"""A word that more names have says too little to look for neighbours by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgraphLimits:
    """How much a search may show. Raises `InvalidInput` for a limit below 1."""

    max_triples: int = 100
    max_tokens: int = 1024
    """Largest number of tokens of all triples as text, each on a line of its own."""

    def __post_init__(self) -> None:
        for name in ("max_triples", "max_tokens"):
            if getattr(self, name) < 1:
                raise InvalidInput("must be 1 or more", field=name)


class _Found(NamedTuple):
    """A triple's place in the ranking (smallest first), and its rows."""

    unshared: int
    """Minus the number of shared words."""
    turn: int
    """Its place among the triples of its relation that share as many words: each relation gets its turn."""
    entity: int
    """Place of the entity it was found from."""
    is_into: bool
    relation: int
    head: int
    tail: int


@reads
def find_subgraph(
    store: KgStore,
    entities: Sequence[str],
    phrases: Sequence[str] = (),
    limits: SubgraphLimits | None = None,
    count_tokens: CountTokens = estimate_tokens,
    asked: Collection[tuple[str, Direction]] = (),
) -> list[KgTriple]:
    """Return the distinct triples of entities, given by id, that best fit the phrases: mentions and relations.

    `asked` are relations, by id, each with the direction in which it is asked for. Where an entity has one of them in
    its direction, words of the names of relations do not count for triples that are the other way round: "child of" is
    not *child*. A triple shares a word when the word is in one of its relation's names or in the label of the other
    end, or in any name of it when that is another of the entities. Among equals relations alternate, and neighbours of
    high degree go first. `limits`: None has the defaults. `count_tokens` is the agent's tokenizer, where it is known.
    Triples are taken in order until one does not fit. Raises `InvalidInput` for an entity that the store lacks.
    """
    limits = limits or SubgraphLimits()
    search = _Search(store, list(dict.fromkeys(store.row(entity) for entity in entities)), phrases, asked)
    found: dict[tuple[int, int, int], _Found] = {}
    for place in range(len(search.rows)):
        for one in search.around(place, limits.max_triples):
            key = one.head, one.relation, one.tail
            found[key] = min(one, found.get(key, one))
    return _fitting(store, sorted(found.values()), limits, count_tokens)


def _fitting(store: KgStore, found: list[_Found], limits: SubgraphLimits, count_tokens: CountTokens) -> list[KgTriple]:
    triples: list[KgTriple] = []
    left = limits.max_tokens
    for one in found[: limits.max_triples]:
        triple = store.triple(one.head, one.relation, one.tail)
        left -= count_tokens(triple.text + "\n")
        if left < 0:
            break
        triples.append(triple)
    return triples


class _Search:
    """What a search asks for, and what it finds around each entity."""

    def __init__(
        self, store: KgStore, rows: list[int], phrases: Sequence[str], asked: Collection[tuple[str, Direction]]
    ) -> None:
        self._store, self.rows = store, rows
        self._asked = {(store.relation_row(relation), direction == "into") for relation, direction in asked}
        self._wanted = {word for phrase in phrases for word in content_words(phrase)}

    def around(self, place: int, most: int) -> list[_Found]:
        """The `most` best triples of one of the entities."""
        row = self.rows[place]
        found: list[_Found] = []
        for is_into, side in enumerate((self._store.out, self._store.into)):
            relations, others = self._read(side, row)
            shared = self._shared(row, relations, others, bool(is_into))
            order = np.lexsort((others, -self._store.degrees(others), -shared))
            turns: dict[tuple[int, int], int] = {}
            for i in order.tolist():
                relation, other, words = int(relations[i]), int(others[i]), int(shared[i])
                turn = turns[relation, words] = turns.get((relation, words), -1) + 1
                head, tail = (other, row) if is_into else (row, other)
                found.append(_Found(-words, turn, place, bool(is_into), relation, head, tail))
        found.sort()
        return found[:most]

    def _read(self, side: Adjacency, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Relations and neighbours of the triples to be ranked: all, or where they are too many some of each relation.

        Of these, relations that share words give up to half of what may be read, and beside them come all triples with
        an entity that was asked for, and those of the largest relations whose neighbour has a wanted word in its name.
        """
        if side.degree(row) <= _MOST_READ:
            return np.repeat(side.relations_of(row), side.run_lengths(row)), side.neighbours_of(row)
        relations, lengths = side.relations_of(row), side.run_lengths(row)
        starts = side.edges[int(side.runs[row]) : int(side.runs[row + 1])].astype(np.int64)
        shared = np.array([len(self._wanted & self._store.relation_words[relation]) for relation in relations.tolist()])
        shares = np.full(len(relations), max(1, _MOST_READ // (2 * len(relations))))
        shares[shared > 0] = max(1, _MOST_READ // (2 * max(np.count_nonzero(shared), 1)))
        read = [stretch(starts, np.minimum(shares, lengths))]
        for i in np.lexsort((-lengths, -shared))[:_MOST_SEARCHED].tolist():
            run = side.neighbours[starts[i] : starts[i] + lengths[i]]
            read.append(starts[i] + _standing(run, self._named)[:_MOST_NAMED])
        read += [self._links(side, row, other) for other in self.rows if other != row]
        edges = np.unique(np.concatenate(read))
        return relations[np.searchsorted(starts, edges, side="right") - 1], side.neighbours[edges]

    def _links(self, side: Adjacency, row: int, other: int) -> np.ndarray:
        """The edges from one entity to another, found from the one that has fewer."""
        first, last = (int(side.edges[side.runs[end]]) for end in (row, row + 1))
        back = self._store.into if side is self._store.out else self._store.out
        if back.degree(other) > last - first:
            return first + np.flatnonzero(side.neighbours[first:last] == other)
        near = back.neighbours_of(other) == row
        relations = np.repeat(back.relations_of(other), back.run_lengths(other))[near].tolist()
        runs = int(side.runs[row]) + np.searchsorted(side.relations_of(row), relations)
        wanted = np.array([other])
        found = [int(side.edges[r]) + places(side.neighbours[side.edges[r] : side.edges[r + 1]], wanted) for r in runs]
        return np.concatenate(found or [np.zeros(0, np.int64)])

    def _shared(self, row: int, relations: np.ndarray, others: np.ndarray, is_into: bool) -> np.ndarray:
        """How many of the wanted words each triple has; of another entity that was asked for all names count."""
        against = self._against(row)
        by_relation = {
            r: frozenset() if (r, is_into) in against else self._wanted & self._store.relation_words[r]
            for r in np.unique(relations).tolist()
        }
        counts = np.zeros(len(others), np.int64)
        labels = self._store.labels_of(others)
        for i, (relation, other, label) in enumerate(zip(relations.tolist(), others.tolist(), labels, strict=True)):
            names = [] if other == row else self._store.names_of(other) if other in self.rows else [label]
            words = {word for name in names for word in name_words(name)}
            counts[i] = len(self._wanted & words | by_relation[relation])
        return counts

    def _against(self, row: int) -> set[tuple[int, bool]]:
        """The other way round of what is asked for in one direction, of an entity that has any of it."""
        sides = (self._store.out, self._store.into)
        has = any(relation in sides[is_into].relations_of(row) for relation, is_into in self._asked)
        return {(relation, not is_into) for relation, is_into in self._asked} - self._asked if has else set()

    @cached_property
    def _named(self) -> np.ndarray:
        """The entities that have one of the wanted words in a name, sorted."""
        return np.unique(self._store.owners(self._store.names.having(sorted(self._wanted), _MOST_NAMES)))


def _standing(run: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Where in a sorted run those of some sorted entities stand. The run may be long: it is searched, not read."""
    at = places(run, rows)
    inside = at < len(run)
    at, rows = at[inside], rows[inside]
    return at[run[at] == rows]
