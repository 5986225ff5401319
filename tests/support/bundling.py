"""What the stages of bundles do over many workers, in memory: all steps of bundling, and of finding copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from trailforge.generators.document_bundles.bundling.clustering import bundle_part, join, plan
from trailforge.generators.document_bundles.bundling.config import BundleConfig, Bundling
from trailforge.generators.document_bundles.bundling.duplicates import (
    DuplicateConfig,
    Order,
    band_keys,
    candidate_pairs,
    keep_one,
    verify_pairs,
)


def bundle_documents(
    vectors: np.ndarray,
    sources: Sequence[str],
    config: BundleConfig,
    seed: int,
    published: Sequence[str | None] | None = None,
    archives: Sequence[str] | None = None,
    names: Sequence[Mapping[str, float]] | None = None,
) -> Bundling:
    """All steps in one process: each document in one bundle or left over with a reason. Arguments as of `plan`."""
    planned = plan(vectors, sources, config, seed, published, archives, names)
    done = [bundle_part(planned.documents.take(part), config, seed) for part in planned.parts]
    return join(planned, done, config)


def near_duplicates(signatures: Mapping[Order, np.ndarray], config: DuplicateConfig) -> dict[str, str]:
    """`keep_one` of all near duplicates among some documents, in memory."""
    groups: defaultdict[bytes, list[Order]] = defaultdict(list)
    for document, values in signatures.items():
        for key in band_keys(values, config):
            groups[key].append(document)
    pairs = {pair for group in groups.values() for pair in candidate_pairs(group)}
    return keep_one(verify_pairs(pairs, signatures, config))


def exact_duplicates(keys: Mapping[Order, bytes]) -> dict[str, str]:
    """`keep_one` of the documents that share an `exact_key`, in memory."""
    groups: defaultdict[bytes, list[Order]] = defaultdict(list)
    for document, key in keys.items():
        groups[key].append(document)
    return keep_one((min(group), other) for group in groups.values() for other in group)
