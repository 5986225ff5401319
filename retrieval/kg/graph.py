"""The graph in compressed rows, once by head (subject) and once by tail (object): an entity's neighbours by relation.

A *run* is all triples of one entity with one relation in one direction. Hubs have hundreds of thousands of triples but
few runs, so what ranks runs first never reads all of a hub.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trailforge.retrieval.kg.columns import load, offsets, save, stretch

_COLUMNS = ("runs", "relations", "edges", "neighbours")


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The triples of a graph, seen from one end. Entities and relations are row numbers."""

    runs: np.ndarray
    """Position at which each entity's runs begin; shape (entities + 1,)."""
    relations: np.ndarray
    """Relation of each run, rising within an entity; shape (runs,)."""
    edges: np.ndarray
    """Position at which each run's neighbours begin; shape (runs + 1,)."""
    neighbours: np.ndarray
    """Entity at the other end, rising within a run; shape (triples,)."""

    @classmethod
    def build(cls, owner: np.ndarray, relation: np.ndarray, neighbour: np.ndarray, entities: int) -> Adjacency:
        """Build from triples sorted by (owner, relation, neighbour); int32 arrays, shape (triples,)."""
        new = np.ones(len(owner), bool)
        new[1:] = (owner[1:] != owner[:-1]) | (relation[1:] != relation[:-1])
        first = np.flatnonzero(new)
        edges = offsets(np.diff(first, append=len(owner)))
        return cls(offsets(np.bincount(owner[first], minlength=entities)), relation[first], edges, neighbour)

    def save(self, folder: Path, name: str) -> None:
        """Write the columns under a common name."""
        for column in _COLUMNS:
            save(folder, f"{name}.{column}", getattr(self, column))

    @classmethod
    def load(cls, folder: Path, name: str) -> Adjacency:
        """Open the columns of a common name; raises what `columns.load` raises."""
        return cls(*(load(folder, f"{name}.{column}") for column in _COLUMNS))

    def degree(self, entity: int) -> int:
        """Return the number of an entity's triples on this side."""
        return int(self.edges[self.runs[entity + 1]]) - int(self.edges[self.runs[entity]])

    def degrees(self, entities: np.ndarray) -> np.ndarray:
        """Return `degree` of several entities; shape as given."""
        return self.edges[self.runs[entities + 1]].astype(np.int64) - self.edges[self.runs[entities]]

    def relations_of(self, entity: int) -> np.ndarray:
        """Return the relations that an entity has on this side, rising."""
        return self.relations[int(self.runs[entity]) : int(self.runs[entity + 1])]

    def neighbours_of(self, entity: int, relation: int | None = None) -> np.ndarray:
        """Return the entities at the other end, rising within each relation; only of one relation if one is given."""
        first, last = int(self.runs[entity]), int(self.runs[entity + 1])
        if relation is not None:
            first += int(self.relations[first:last].searchsorted(relation))
            last = first + (first < last and self.relations[first] == relation)
        return self.neighbours[int(self.edges[first]) : int(self.edges[last])]

    def some_neighbours_of(self, entity: int, most: int) -> np.ndarray:
        """Return up to `most` entities at the other end: all, or where there are more, equally many of each
        relation."""
        if self.degree(entity) <= most:
            return self.neighbours_of(entity)
        starts = self.edges[int(self.runs[entity]) : int(self.runs[entity + 1])].astype(np.int64)[:most]
        lengths = np.minimum(self.run_lengths(entity)[:most], most // len(starts))
        return self.neighbours[stretch(starts, lengths)]

    def run_lengths(self, entity: int) -> np.ndarray:
        """Return the number of neighbours for each of `relations_of`."""
        first, last = int(self.runs[entity]), int(self.runs[entity + 1])
        return np.diff(self.edges[first : last + 1].astype(np.int64))


def sorted_triples(heads: np.ndarray, relations: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Return distinct triples sorted by (head, relation, tail); int32 columns in, shape (3, distinct) out."""
    order = np.lexsort((tails, relations, heads))
    triples = np.stack([heads[order], relations[order], tails[order]])
    if triples.shape[1]:
        kept = np.ones(triples.shape[1], bool)
        kept[1:] = (triples[:, 1:] != triples[:, :-1]).any(axis=0)
        triples = triples[:, kept]
    return triples


def both_ways(triples: np.ndarray, entities: int) -> tuple[Adjacency, Adjacency]:
    """Return the adjacency by head and the one by tail, from `sorted_triples`."""
    heads, relations, tails = triples
    by_tail = np.lexsort((heads, relations, tails))
    return (
        Adjacency.build(heads, relations, tails, entities),
        Adjacency.build(tails[by_tail], relations[by_tail], heads[by_tail], entities),
    )
