"""Bundles of two to four documents that belong together and come from at least two sources, by their vectors.

`bundle_documents` is all that others call. It puts the documents into an order that depends on their vectors and
sources alone and keeps to one thread, so that the same documents, in whatever order they come, give the same bundles
for a seed. (Of documents with the same vector and source, which of them is in which bundle does depend on the order.)
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence

import numpy as np

from pipelines.bundling.config import BundleConfig, Bundling, Group, Leftover
from pipelines.bundling.merging import complete, explain, greedy_groups
from pipelines.bundling.partition import partition
from pipelines.bundling.recipe import hdbscan_groups, recipe_groups
from schemas import InvalidInput


def bundle_documents(vectors: np.ndarray, sources: Sequence[str], config: BundleConfig, seed: int) -> Bundling:
    """Each document in one bundle or left over with a reason. `vectors`: (n, d), any length; `sources`: n names.

    Memory beside the given vectors: twice theirs and about 100 MB; 8 n² bytes more for `recipe`. `partitioned` takes
    time linear in n, unless much is left over in the parts, since that is compared across them all.
    """
    from threadpoolctl import threadpool_limits

    vectors = _unit_length(vectors, len(sources))
    order = _order(vectors, sources)
    vectors = vectors[order]
    names = {name: number for number, name in enumerate(sorted(set(sources)))}
    codes = np.array([names[source] for source in sources], int)[order]
    with threadpool_limits(1):  # sums of several threads differ in their last bits from run to run
        bundles, leftovers = _bundle(vectors, codes, config, seed)
    return Bundling(
        bundles=tuple(sorted(tuple(sorted(int(order[row]) for row in rows)) for rows in bundles)),
        leftovers=tuple(sorted(Leftover(int(order[row]), reason) for row, reason in leftovers)),
    )


def check_packages() -> None:
    """Raises `InvalidInput`, with the mend, when packages of the extra `bundles` are missing; loads none."""
    needed = {"faiss": "faiss-cpu", "sklearn": "scikit-learn", "threadpoolctl": "threadpoolctl", "umap": "umap-learn"}
    if missing := [package for module, package in needed.items() if importlib.util.find_spec(module) is None]:
        raise InvalidInput(f"bundling needs {', '.join(missing)}; run `make install`")


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
        groups = _groups(vectors[part], sources[part], config, seed)
        inner, left = complete(vectors[part], sources[part], groups, config)
        bundles += [[part[row] for row in rows] for rows in inner]
        rest += [part[row] for row in left]
    if len(parts) > 1 and rest:
        bundles, rest = complete(vectors, sources, bundles + [[row] for row in rest], config)
    still = set(rest)
    leftovers = [explain(vectors, sources, [row for row in part if row in still], config) for part in parts]
    return bundles, [left for of_part in leftovers for left in of_part]


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
