"""A coarse partition by k-means (faiss), so that whatever is done in a part costs time linear in the documents."""

from __future__ import annotations

import numpy as np

from trailforge.generators.document_bundles.bundling.config import Group
from trailforge.generators.document_bundles.bundling.units import Documents

_MOST_CENTRES = 256
"""At once: more parts are made by cutting parts again, which keeps the assignment from growing with n²."""
_SAMPLE_PER_CENTRE = 64
_ROUNDS = 10
_MORE = 10
"""The mean of a few documents is those documents, not what their source has in common."""


def partition(documents: Documents, part_size: int, seed: int) -> list[Group]:
    """Rows in parts of about `part_size`, none of more than twice as many. The documents are in a random order.

    The centres are fitted on the first rows, 64 for each of them. What the documents of a source have in common is
    taken away first: else parts are sources, and a part of one source has no bundles.
    """
    rows = list(range(len(documents.sources)))
    if len(rows) <= 2 * part_size:
        return [rows] if rows else []
    return _cut(without_source(documents.vectors, documents.sources), rows, part_size, seed)


def without_source(vectors: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Vectors of length 1, shape (n, d), less the mean of their source, as if it had ten more at the origin."""
    vectors = vectors.copy()
    for source in np.unique(sources):
        own = sources == source
        vectors[own] -= vectors[own].sum(axis=0) / (own.sum() + _MORE)
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
