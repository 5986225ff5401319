"""What the stages of bundles do over many workers, in memory: all steps of bundling, and of finding copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from trailforge.generators.document_bundles.bundling.clustering import bundle_part, join, plan
from trailforge.generators.document_bundles.bundling.config import BundleConfig, Bundling
from trailforge.generators.document_bundles.bundling.duplicates import (
    PAIRS_WITH_NEXT,
    DuplicateConfig,
    Order,
)


def bundle_documents(
    vectors: np.ndarray,
    sources: Sequence[str],
    config: BundleConfig,
    seed: int,
    published: Sequence[str | None] | None = None,
    archives: Sequence[str] | None = None,
    names: Sequence[Mapping[str, float]] | None = None,
    sketches: np.ndarray | None = None,
    papers: Sequence[bool] | None = None,
) -> Bundling:
    """All steps in one process: each document in one bundle or left over with a reason. Arguments as of `plan`."""
    planned = plan(vectors, sources, config, seed, published, archives, names, sketches, papers)
    done = [bundle_part(planned.documents.take(part), config, seed) for part in planned.parts]
    return join(planned, done, config)


def near_duplicates(signatures: Mapping[Order, np.ndarray], config: DuplicateConfig) -> dict[str, str]:
    """What `find_near_copies` has to find, pair by pair: slow, and in the words in which it is declared."""
    groups: defaultdict[bytes, list[Order]] = defaultdict(list)
    for document, values in signatures.items():
        if has_words(values):
            for number, band in enumerate(values.reshape(-1, config.rows)):
                groups[number.to_bytes(2, "big") + band.tobytes()].append(document)
    pairs = {
        (first, second)
        for members in map(sorted, groups.values())
        for place, first in enumerate(members)
        for second in members[place + 1 : place + 1 + PAIRS_WITH_NEXT]
    }
    return keep_one(
        (first, second)
        for first, second in pairs
        if estimated_jaccard(signatures[first], signatures[second]) >= config.threshold
    )


def has_words(signature: np.ndarray) -> bool:
    """Whether a signature is that of a text with words."""
    return bool(signature[0] != np.uint64(2**64 - 1))


def estimated_jaccard(first: np.ndarray, second: np.ndarray) -> float:
    """Share of equal components of two signatures."""
    return float((first == second).mean())


def keep_one(edges: Iterable[tuple[Order, Order]]) -> dict[str, str]:
    """For each document to drop its id and that of the kept twin: the smallest of its component."""
    parent: dict[Order, Order] = {}

    def root(node: Order) -> Order:
        while (above := parent.setdefault(node, node)) != node:
            parent[node] = node = parent[above]
        return node

    for first, second in edges:
        low, high = sorted((root(first), root(second)))
        parent[high] = low
    return {node[1]: root(node)[1] for node in sorted(parent) if root(node) != node}


def exact_duplicates(keys: Mapping[Order, bytes]) -> dict[str, str]:
    """`keep_one` of the documents that share an `exact_key`, in memory."""
    groups: defaultdict[bytes, list[Order]] = defaultdict(list)
    for document, key in keys.items():
        groups[key].append(document)
    return keep_one((min(group), other) for group in groups.values() for other in group)
