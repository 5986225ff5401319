"""The triples around entities that a search is about (DynaSearcher, appendix on search tools).

All triples of one hop, in both directions, ranked by how many words they share with the mentions and relations, cut at
100 triples and 1,024 tokens. Words that equal a relation's name count for all of its triples, so relations are scored
and not triples: a hub's are ranked without reading them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from retrieval.kg.folding import content_words, name_words
from retrieval.kg.graph import Adjacency
from retrieval.kg.store import KgStore
from schemas import InvalidInput, KgTriple, estimate_tokens

CountTokens = Callable[[str], int]
_MOST_READ = 1000
"""Neighbours of one entity whose labels are read, in each direction."""
_MOST_NAMES = 20_000
"""A word that more names have says too little to look for neighbours by it."""
_MOST_PROMISING = 100
"""Neighbours of one relation that are read for their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgraphLimits:
    """How much a search may show. Raises `InvalidInput` for a limit below 1."""

    max_triples: int = 100
    max_tokens: int = 1024
    """Of all triples as text, each on a line of its own."""

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


def subgraph(
    store: KgStore,
    entities: Sequence[str],
    phrases: Sequence[str] = (),
    limits: SubgraphLimits | None = None,
    count_tokens: CountTokens = estimate_tokens,
) -> list[KgTriple]:
    """The triples of entities, by id, that fit the phrases best: mentions, relations, the sub-query. Distinct.

    A triple shares a word when the word is in one of its relation's names or in the label of the other end, or in any
    name of it when that is one of the entities too. In doubt relations take turns, and neighbours of high degree go
    first. `count_tokens` is the policy model's tokenizer, where it is known. Triples are taken in their order
    until one does not fit. Raises `InvalidInput` for an entity that the store has not.
    """
    limits = limits or SubgraphLimits()
    search = _Search(store, list(dict.fromkeys(store.row(entity) for entity in entities)), phrases)
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

    def __init__(self, store: KgStore, rows: list[int], phrases: Sequence[str]) -> None:
        self._store, self.rows = store, rows
        self._wanted = {word for phrase in phrases for word in content_words(phrase)}

    def around(self, place: int, most: int) -> list[_Found]:
        """The `most` best triples of one of the entities."""
        row = self.rows[place]
        found: list[_Found] = []
        for is_into, side in enumerate((self._store.out, self._store.into)):
            for relation, others in self._runs(side, row):
                shared = self._shared(relation, others)
                turns: dict[int, int] = {}
                order = np.lexsort((others, -self._store.degrees(others), -shared))
                for other, words in zip(others[order].tolist(), shared[order].tolist(), strict=True):
                    turns[words] = turns.get(words, -1) + 1
                    head, tail = (other, row) if is_into else (row, other)
                    found.append(_Found(-words, turns[words], place, bool(is_into), relation, head, tail))
        found.sort()
        return found[:most]

    def _runs(self, side: Adjacency, row: int) -> Iterator[tuple[int, np.ndarray]]:
        """Relations with the neighbours to be read: all of them, or where they are too many those that may rank high.

        Relations that share words go first and get half of what is left; the others share the rest evenly.
        """
        relations, lengths = side.relations_of(row).tolist(), side.run_lengths(row)
        starts = side.edges[int(side.runs[row]) : int(side.runs[row + 1])].astype(np.int64)
        left, is_all = _MOST_READ, int(lengths.sum()) <= _MOST_READ
        shared = [len(self._wanted & self._store.relation_words[relation]) for relation in relations]
        for done, i in enumerate(sorted(range(len(relations)), key=lambda i: (-shared[i], lengths[i], relations[i]))):
            others = side.neighbours[starts[i] : starts[i] + lengths[i]]
            if not is_all:
                share = max(1, left // 2 if shared[i] else left // (len(relations) - done))
                left -= min(share, len(others))
                others = np.union1d(others[:share], _common(others, self._promising)[:_MOST_PROMISING])
            yield relations[i], others

    def _shared(self, relation: int, others: np.ndarray) -> np.ndarray:
        """How many of the wanted words each triple has; of an entity that was asked for all names count."""
        by_relation = self._wanted & self._store.relation_words[relation]
        rest = self._wanted - by_relation
        counts = np.full(len(others), len(by_relation))
        for i, (other, label) in enumerate(zip(others.tolist(), self._store.labels_of(others), strict=True)):
            texts = self._store.names_of(other) if other in self.rows else [label]
            counts[i] += len(rest & {word for text in texts for word in name_words(text)})
        return counts

    @cached_property
    def _promising(self) -> np.ndarray:
        """The entities that were asked for, and those that have one of the wanted words for a name, sorted."""
        named = self._store.owners(self._store.names.having(sorted(self._wanted), _MOST_NAMES))
        return np.union1d(np.array(self.rows, np.int64), named)


def _common(run: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """What two sorted rows of entities have in common. The run may be long: it is searched, not read."""
    at = np.searchsorted(run, rows)
    inside = at < len(run)
    return rows[inside][run[at[inside]] == rows[inside]]
