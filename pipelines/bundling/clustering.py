"""Bundles of two to four documents that belong together and come from at least two sources, by their vectors.

`bundle_documents` is all that others call. It puts the documents into an order that depends on their vectors and
sources alone and keeps to one thread, so that the same documents, in whatever order they come, give the same bundles
for a seed. (Of documents with the same vector and source, which of them is in which bundle does depend on the order.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from pipelines.bundling.config import BundleConfig, Bundling, Group, Leftover
from pipelines.bundling.merging import complete, greedy_groups
from pipelines.bundling.partition import partition
from pipelines.bundling.recipe import hdbscan_groups, recipe_groups
from schemas import InvalidInput


def bundle_documents(vectors: np.ndarray, sources: Sequence[str], config: BundleConfig, seed: int) -> Bundling:
    """Each document in one bundle or left over with a reason. `vectors`: (n, d), any length; `sources`: n names.

    Memory: `recipe` needs 8 n² bytes, `greedy` and the mending of all methods about 50 MB beside the vectors.
    """
    from threadpoolctl import threadpool_limits

    units = _unit_length(vectors, len(sources))
    order = _order(units, sources)
    names = {name: number for number, name in enumerate(sorted(set(sources)))}
    codes = np.array([names[source] for source in sources], int)[order]
    with threadpool_limits(1):  # sums of several threads differ in their last bits from run to run
        bundles, leftovers = _bundle(units[order], codes, config, seed)
    return Bundling(
        bundles=tuple(sorted(tuple(sorted(int(order[row]) for row in rows)) for rows in bundles)),
        leftovers=tuple(sorted(Leftover(int(order[row]), reason) for row, reason in leftovers)),
    )


def _bundle(
    vectors: np.ndarray, sources: np.ndarray, config: BundleConfig, seed: int
) -> tuple[list[Group], list[Leftover]]:
    if not len(vectors):
        return [], []
    parts = [list(range(len(vectors)))]
    if config.method == "partitioned":
        parts = partition(vectors, config.part_size, seed)
    bundles, rest = [], []
    for part in parts:
        inner, left = complete(
            vectors[part], sources[part], _groups(vectors[part], sources[part], config, seed), config
        )
        bundles += [[part[row] for row in rows] for rows in inner]
        rest += [Leftover(part[row], reason) for row, reason in left]
    if len(parts) == 1 or not rest:
        return bundles, rest
    return complete(vectors, sources, bundles + [[row] for row, _ in rest], config)


def _groups(vectors: np.ndarray, sources: np.ndarray, config: BundleConfig, seed: int) -> list[Group]:
    match config.within if config.method == "partitioned" else config.method:
        case "recipe":
            return recipe_groups(vectors, config, seed)
        case "hdbscan":
            return hdbscan_groups(vectors, config, seed)
        case _:
            return greedy_groups(vectors, sources, config)


def _unit_length(vectors: np.ndarray, documents: int) -> np.ndarray:
    if vectors.ndim != 2 or len(vectors) != documents:
        raise InvalidInput(f"vectors of shape {vectors.shape} for {documents} documents")
    if not np.isfinite(vectors).all():
        raise InvalidInput("a vector holds a number that is not finite")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(lengths, lengths, 1), np.float32)


def _order(vectors: np.ndarray, sources: Sequence[str]) -> np.ndarray:
    """Rows by a hash of what they hold: an order that is random, and the same for the same documents."""
    keys = [
        hashlib.blake2b(vector.tobytes() + source.encode(), digest_size=16).digest()
        for vector, source in zip(vectors, sources, strict=True)
    ]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), int)
