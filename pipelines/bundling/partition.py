"""A coarse partition by k-means (faiss), so that whatever is done in a part costs time linear in the documents."""

from __future__ import annotations

import numpy as np

from pipelines.bundling.config import Group

_MOST_CENTRES = 256
"""At once: more parts are made by cutting parts again, which keeps the assignment from growing with n²."""
_SAMPLE_PER_CENTRE = 64
_ROUNDS = 10


def partition(vectors: np.ndarray, part_size: int, seed: int) -> list[Group]:
    """Rows in parts of about `part_size`, none of more than twice as many. `vectors`: float32, in a random order.

    The centres are fitted on the first rows, 64 for each of them.
    """
    return _cut(vectors, list(range(len(vectors))), part_size, seed)


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
