"""Hold groups of documents that become bundles: who may be together, how near they are, and a coarse partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from trailforge.generators.document_bundles.bundling.config import LARGEST, BundleConfig, Group
from trailforge.generators.document_bundles.bundling.copies import Copies

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_BLOCK_CELLS = 2**22
"""Similarities held at once: 16 MB, and as much for the mask."""
ROUNDING = 1e-6
"""Rounding error of cosines of float32 vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What bundling knows of n documents: vectors, sources, dates and names."""

    vectors: np.ndarray
    """Vectors of the documents, shape (n, d), float32, of length 1."""
    sources: np.ndarray
    """Number of each document's source, shape (n,)."""
    days: np.ndarray
    """Day of publication, counted from any day, shape (n,), float; NaN when unknown."""
    windows: np.ndarray
    """Days that others of its kind may be dated away, shape (n,), float; infinite for any. Of two the shorter one
    counts."""
    names: np.ndarray
    """Number of each name that the document shares with others, shape (n, k); -1 where it has fewer."""
    weights: np.ndarray
    """Weights of these names, shape (n, k), float32; two documents share the sum of the products. 0 where there is no
    name."""
    sketches: np.ndarray
    """Sketches of the texts by `copies.sketch`, shape (n, 256), uint32; (n, 0) when copies in part may be together."""

    def take(self, rows: Sequence[int] | np.ndarray) -> Documents:
        """Return the documents with these row numbers, in this order."""
        return Documents(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})


class Units:
    """A partition of documents, given by row numbers, into units: groups of which one with two sources is a bundle
    (`is_bundle`). The number of a unit is never used again.
    """

    def __init__(self, documents: Documents, groups: Iterable[Group], config: BundleConfig) -> None:
        self.vectors, self.sources = documents.vectors, documents.sources
        self.members: dict[int, Group] = {}
        self.unit_of = np.full(len(self.vectors), -1)
        self._days, self._windows, self._config = documents.days, documents.windows, config
        self._shortest = float(documents.windows.min(initial=np.inf))
        self.shared = SharedNames(documents, config.min_shared)
        self._copies = Copies(documents.sketches)
        self._sums: dict[int, np.ndarray] = {}
        self._next = 0
        for group in groups:
            self.add(group)

    def add(self, rows: Group) -> int:
        """Make a new unit of these rows, which must be in no other unit, and return its number."""
        unit, self._next = self._next, self._next + 1
        self.members[unit] = sorted(rows)
        self.unit_of[rows] = unit
        self._sums[unit] = self.vectors[self.members[unit]].sum(axis=0)
        return unit

    def dissolve(self, unit: int) -> Group:
        """Remove a unit and return its rows, which must then be added elsewhere."""
        del self._sums[unit]
        return self.members.pop(unit)

    def merge(self, first: int, second: int) -> int:
        """Merge two units into one and return its number."""
        return self.add(self.dissolve(first) + self.dissolve(second))

    def is_bundle(self, unit: int) -> bool:
        """Tell whether a unit has two sources, and so two documents."""
        return has_two(self.sources, self.members[unit])

    def may_merge(self, first: int, second: int) -> bool:
        """Tell whether merging gives one of two units a second source, and makes no unit that is too large for a
        bundle. Two bundles are never merged: a larger one would be less alike.
        """
        rows = self.members[first] + self.members[second]
        in_need = not (self.is_bundle(first) and self.is_bundle(second))
        return in_need and len(rows) <= LARGEST and has_two(self.sources, rows)

    def outsider(self, rows: Group) -> int | None:
        """Return the row that must leave before these may be together in one unit; None when all may stay.

        If documents are too far apart in time, that is the first or the last, whichever is less similar to the others;
        if two share much of their text, the one of them less similar to the others. Else it is a document that shares
        no names with half of the others, the one that shares with fewest first; else the least similar, when that is
        below the least cosine.
        """
        if len(rows) < 2:
            return None
        links = own_links(self.vectors[rows])
        dated = [row for row in rows if not np.isnan(self._days[row])]
        ends = sorted(dated, key=lambda row: (self._days[row], row))
        apart = self._days[ends[-1]] - self._days[ends[0]] if dated else 0
        if apart > self._shortest and apart > self._windows[rows].min():
            return min(ends[0], ends[-1], key=lambda row: (links[rows.index(row)], row))
        if copies := self._copies.first_pair(rows):
            return min(copies, key=lambda row: (links[rows.index(row)], row))
        if self._config.min_shared:
            near = self.vectors[rows] @ self.vectors[rows].T >= self._config.min_cosine - ROUNDING
            joined = (near & self.shared.among(rows)).sum(axis=1)
            if 2 * joined.min() < len(rows) - 1:
                return min(rows, key=lambda row: (joined[rows.index(row)], links[rows.index(row)], row))
        place = int(links.argmin())
        return rows[place] if links[place] < self._config.min_cosine - ROUNDING else None

    def may_be_together(self, rows: Group) -> bool:
        """Tell whether each of these documents is near enough to the others, in meaning and in time."""
        return self.outsider(sorted(rows)) is None

    def link(self, first: int, second: int) -> float:
        """Return the mean cosine between the documents of two units."""
        pairs = len(self.members[first]) * len(self.members[second])
        return float(np.dot(self._sums[first], self._sums[second])) / pairs

    def centre(self, unit: int) -> np.ndarray:
        """Return the mean vector of a unit, not of length 1: its product with a document is the mean cosine to the
        unit."""
        return self._sums[unit] / len(self.members[unit])

    def unfinished(self) -> list[int]:
        """Return the units that have documents of one source only."""
        return [unit for unit in self.members if not self.is_bundle(unit)]

    def sizes(self) -> np.ndarray:
        """Return for each row the number of documents in its unit."""
        sizes = np.zeros(len(self.unit_of), int)
        for rows in self.members.values():
            sizes[rows] = len(rows)
        return sizes

    def day_spans(self) -> np.ndarray:
        """Return for each row its day twice, as a first and a last day, and the days that others may be dated away from
        it, shape (n, 3), as `in_window` compares them.
        """
        undated = np.isnan(self._days)
        ends = (np.where(undated, np.inf, self._days), np.where(undated, -np.inf, self._days))
        return np.stack([*ends, self._windows], axis=1)

    def spans(self) -> np.ndarray:
        """Return for each row the first and the last day of its unit, and the fewest days that its documents may lie
        apart, shape (n, 3), as `in_window` compares them.
        """
        spans = self.day_spans()
        is_mixed = len(np.unique(self._windows)) > 1
        for rows in self.members.values():
            spans[rows, :2] = (spans[rows, 0].min(), spans[rows, 1].max())
            if is_mixed:
                spans[rows, 2] = spans[rows, 2].min()
        return spans


class SharedNames:
    """Tells which documents share enough names: the sum over the names of both, each counting the product of its
    weights, is at least `min_shared`. When that is 0, all do.
    """

    def __init__(self, documents: Documents, min_shared: float) -> None:
        self._names, self._weights = documents.names, documents.weights
        self._least = min_shared - ROUNDING if min_shared else 0.0

    def among(self, rows: Sequence[int]) -> np.ndarray:
        """Tell of each two of a few documents (row numbers) whether they share enough names, as a boolean array of
        shape (k, k); False for one with itself.
        """
        shared = self.sums(rows) >= self._least
        np.fill_diagonal(shared, False)
        return shared

    def sums(self, rows: Sequence[int]) -> np.ndarray:
        """Return for each two of a few documents (row numbers) the sum over the names that both have, shape (k, k)."""
        names, weights = self._names[rows], self._weights[rows]
        same = (names[:, None, :, None] == names[None, :, None, :]) & (names >= 0)[:, None, :, None]
        return np.einsum("abij,ai,bj->ab", same, weights, weights)

    def between(self, first: np.ndarray, second: np.ndarray) -> Callable[[slice], np.ndarray]:
        """Return a function that tells which of the first rows share enough names with which of the second: for a slice
        of the first it returns a mask of shape (length of the slice, second rows).
        """
        if not self._least:
            return lambda block: np.ones((len(first[block]), len(second)), bool)
        ours, theirs = self._sparse(first), self._sparse(second).T.tocsr()
        return lambda block: (ours[block] @ theirs).toarray() >= self._least

    def _sparse(self, rows: np.ndarray) -> csr_matrix:
        from scipy.sparse import csr_matrix

        given = self._names[rows] >= 0
        ends = np.concatenate([[0], given.sum(axis=1).cumsum()])
        width = int(self._names.max(initial=0)) + 1
        return csr_matrix((self._weights[rows][given], self._names[rows][given], ends), shape=(len(rows), width))


def own_links(vectors: np.ndarray) -> np.ndarray:
    """Return for each of a bundle's vectors, shape (k, d), k at least 2, its mean cosine to the others."""
    cosines = vectors @ vectors.T
    return (cosines.sum(axis=1, dtype=np.float64) - np.diag(cosines)) / (len(vectors) - 1)


def in_window(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return which pairs of spans of days, shapes (a, 3) and (b, 3), are together no longer than the shorter of their
    windows, as a boolean array of shape (a, b). A span is its first day, its last day and its window in days.

    A span without dates is (inf, -inf, …) and goes with any.
    """
    of_all = np.concatenate([first[:, 2], second[:, 2]])
    least, most = of_all.min(initial=np.inf), of_all.max(initial=0)
    if np.isinf(least):
        return np.ones((len(first), len(second)), bool)
    windows = least if least == most else np.minimum(first[:, None, 2], second[:, 2])
    starts = np.minimum(first[:, None, 0], second[:, 0])
    return np.maximum(first[:, None, 1], second[:, 1]) - starts <= windows


def has_two(sources: np.ndarray, rows: Sequence[int]) -> bool:
    """Tell whether these rows come from two sources or more."""
    return any(sources[row] != sources[rows[0]] for row in rows[1:])


def nearest(
    queries: np.ndarray,
    candidates: np.ndarray,
    allowed: Callable[[slice], np.ndarray],
    *,
    count: int,
    min_cosine: float,
) -> Iterator[tuple[int, int, float]]:
    """Yield (query, candidate, cosine) for the `count` nearest allowed candidates of each query, in no order. `allowed`
    returns, for a slice of the queries, a mask of shape (queries, candidates).
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


_MOST_CENTRES = 256
"""At once: more parts are made by cutting parts again, which keeps the assignment from growing with n²."""
_SAMPLE_PER_CENTRE = 64
_ROUNDS = 10
_MORE = 10
"""The mean of a few documents is those documents, not what their source has in common."""


def partition(documents: Documents, part_size: int, seed: int) -> list[Group]:
    """Divide the documents' row numbers into parts of about `part_size`, none of more than twice as many. The documents
    are in a random order.

    The parts' centres are fitted on the first rows, 64 for each centre. What the documents of a source have in common
    is taken away first: else parts are sources, and a part of one source has no bundles.
    """
    rows = list(range(len(documents.sources)))
    if len(rows) <= 2 * part_size:
        return [rows] if rows else []
    return _cut(without_source(documents.vectors, documents.sources), rows, part_size, seed)


def without_source(vectors: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Return vectors of length 1, shape (n, d), with most of their source's mean subtracted (shrunk as if the source
    had ten more documents at the origin).
    """
    _, place = np.unique(sources, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    counts = np.bincount(place)[:, None]
    means = np.add.reduceat(vectors[order], starts, axis=0) / (counts + _MORE) if len(vectors) else vectors
    vectors = vectors - means[place]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths, lengths, 1)


def _cut(vectors: np.ndarray, rows: Group, part_size: int, seed: int) -> list[Group]:
    if len(rows) <= 2 * part_size:
        return [rows]
    import faiss

    inner = vectors[rows]
    centres = min(-(-len(rows) // part_size), _MOST_CENTRES)
    means = faiss.Kmeans(
        inner.shape[1], centres, niter=_ROUNDS, seed=seed, spherical=True, min_points_per_centroid=1, verbose=False
    )
    means.train(inner[: centres * _SAMPLE_PER_CENTRE])
    _, labels = means.assign(inner)
    parts = [[rows[place] for place in np.flatnonzero(labels == label)] for label in range(centres)]
    parts = [part for part in parts if part]
    if len(parts) == 1:  # all the same vector
        return [rows[start : start + part_size] for start in range(0, len(rows), part_size)]
    return [cut for part in parts for cut in _cut(vectors, part, part_size, seed)]
