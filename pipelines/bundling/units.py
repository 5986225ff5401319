"""Groups of documents on their way to bundles: what each holds, and how near they are to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from pipelines.bundling.config import LARGEST, Group

_BLOCK_CELLS = 2**22
"""Similarities held at once: 16 MB, and as much for the mask."""


class Units:
    """A partition of documents into units. A unit is a bundle as soon as it has two sources; see `is_bundle`.

    `vectors`: (n, d), length 1. `sources`: (n,), integers. Units have numbers that are never used again.
    """

    def __init__(self, vectors: np.ndarray, sources: np.ndarray, groups: Iterable[Group]) -> None:
        self.vectors, self.sources = vectors, sources
        self.members: dict[int, Group] = {}
        self.unit_of = np.full(len(vectors), -1)
        self._sums: dict[int, np.ndarray] = {}
        self._next = 0
        for group in groups:
            self.add(group)

    def add(self, rows: Group) -> int:
        """A new unit of these rows, taken out of no other; its number."""
        unit, self._next = self._next, self._next + 1
        self.members[unit] = sorted(rows)
        self.unit_of[rows] = unit
        self._sums[unit] = self.vectors[self.members[unit]].sum(axis=0)
        return unit

    def dissolve(self, unit: int) -> Group:
        """Forget a unit; its rows, which are to be added again."""
        del self._sums[unit]
        return self.members.pop(unit)

    def merge(self, first: int, second: int) -> int:
        """One unit of two; its number."""
        return self.add(self.dissolve(first) + self.dissolve(second))

    def is_bundle(self, unit: int) -> bool:
        """Whether it has two sources, and so two documents."""
        return has_two(self.sources, self.members[unit])

    def may_merge(self, first: int, second: int) -> bool:
        """Whether it gets one of them a second source, and is no larger than a bundle may be.

        Two bundles stay two: larger ones would be less alike, and none is in need.
        """
        rows = self.members[first] + self.members[second]
        in_need = not (self.is_bundle(first) and self.is_bundle(second))
        return in_need and len(rows) <= LARGEST and has_two(self.sources, rows)

    def link(self, first: int, second: int) -> float:
        """Mean cosine between their documents."""
        pairs = len(self.members[first]) * len(self.members[second])
        return float(np.dot(self._sums[first], self._sums[second])) / pairs

    def centre(self, unit: int) -> np.ndarray:
        """Mean vector, not of length 1: its product with a document is the mean cosine to the unit."""
        return self._sums[unit] / len(self.members[unit])

    def unfinished(self) -> list[int]:
        """Units of one source."""
        return [unit for unit in self.members if not self.is_bundle(unit)]

    def sizes(self) -> np.ndarray:
        """For each row how many documents its unit has."""
        sizes = np.zeros(len(self.unit_of), int)
        for rows in self.members.values():
            sizes[rows] = len(rows)
        return sizes


def has_two(sources: np.ndarray, rows: Sequence[int]) -> bool:
    """Whether these rows are of two sources or more."""
    return any(sources[row] != sources[rows[0]] for row in rows[1:])


def nearest(
    queries: np.ndarray,
    candidates: np.ndarray,
    allowed: Callable[[slice], np.ndarray],
    *,
    count: int,
    min_cosine: float,
) -> Iterator[tuple[int, int, float]]:
    """(query, candidate, cosine) of the `count` nearest allowed candidates of each query, in no order.

    `allowed`: for some of the queries a mask of shape (queries, candidates).
    """
    count = min(count, len(candidates))
    if not count:
        return
    step = max(1, _BLOCK_CELLS // len(candidates))
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        cosines = queries[block] @ candidates.T
        cosines[~allowed(block)] = -np.inf
        cosines[cosines < min_cosine] = -np.inf
        best = np.argpartition(cosines, -count, axis=1)[:, -count:]
        found = np.take_along_axis(cosines, best, axis=1)
        for row, place in zip(*np.nonzero(np.isfinite(found)), strict=True):
            yield start + int(row), int(best[row, place]), float(found[row, place])
