"""Make bundles of two to four related documents from at least two sources, by the vectors of the documents.

`plan`, `bundle_part` for each part, and `join` are its steps, so that several workers can bundle parts. The documents
are put into an order that depends on their vectors, sources and dates alone, and all keeps to one thread, so that the
same documents, in whatever order they come, give the same bundles for a seed. (Of documents with the same of these,
which of them is in which bundle does depend on the order.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from trailforge.generators.document_bundles.bundling.config import BundleConfig, Bundling, Group, Leftover, Method
from trailforge.generators.document_bundles.bundling.merging import complete, explain, greedy_groups
from trailforge.generators.document_bundles.bundling.names import name_arrays
from trailforge.generators.document_bundles.bundling.recipe import hdbscan_groups, recipe_groups
from trailforge.generators.document_bundles.bundling.units import Documents, partition, without_source
from trailforge.retrieval.threads import one_thread
from trailforge.schemas import InvalidInput

_MODULES: dict[Method, tuple[str, ...]] = {
    "recipe": ("sklearn.cluster", "sklearn.decomposition"),
    "hdbscan": ("sklearn.cluster", "sklearn.decomposition"),
    "greedy": (),
}
"""Which each method uses, beside numpy, that have numeric libraries of their own."""

_MOST_PAIRS = 4_000_000
"""Leftovers times documents, compared at once after the parts: all of 2,000 documents, as in the largest part."""
_OTHER_PARTS = 2
"""Partitions in which more leftovers than that have another chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """The documents in the order in which they are bundled, and the parts in which that is done."""

    documents: Documents
    order: np.ndarray
    """Which of the given rows each document is, shape (n,)."""
    parts: tuple[Group, ...]
    """The parts: rows of `documents`, each of which is in one part."""
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartBundles:
    """The bundles and the leftover documents of one part, as row numbers within that part."""

    bundles: tuple[Group, ...]
    rest: Group
    """Rows that are in no bundle. They may still find one among the leftovers of other parts, or room in their
    bundles."""


def plan(
    vectors: np.ndarray,
    sources: Sequence[str],
    config: BundleConfig,
    seed: int,
    published: Sequence[str | None] | None = None,
    archives: Sequence[str] | None = None,
    names: Sequence[Mapping[str, float]] | None = None,
    sketches: np.ndarray | None = None,
    papers: Sequence[bool] | None = None,
) -> ClusterPlan:
    """Order the documents, and divide them into parts when `config.method` is `partitioned`; else all are one part.

    `vectors`: (n, d), any length; `sources`: n names; `published`: n ISO 8601 dates, None where unknown, for
    `config.window_days`; `archives`: the archive each is from, for `config.is_centred`, by default its source; `names`:
    the weights of each document's names, for `config.min_shared`; `sketches`: of the texts (`copies.sketch`), to keep
    partial copies apart, by default not done; `papers`: which documents are papers, by default none, for
    `config.papers_window_days`. Memory of all steps, beside the given vectors: three times theirs and about 100 MB; 8
    n² bytes more for `recipe`. `partitioned` takes time linear in n.
    """
    vectors = _unit_length(vectors, len(sources))
    dates = [day or "" for day in published or [""] * len(sources)]
    order = _order(vectors, sources, dates)
    numbers = {source: number for number, source in enumerate(sorted(set(sources)))}
    days = [date.fromisoformat(day).toordinal() if day else np.nan for day in dates]
    if config.is_centred:
        vectors = np.ascontiguousarray(without_source(vectors, np.array(archives or sources, str)), np.float32)
    numbered, weights = name_arrays(names or [{}] * len(sources))
    given = Documents(
        vectors=vectors,
        sources=np.array([numbers[source] for source in sources], int),
        days=np.array(days),
        windows=np.array([config.window_of(is_paper=each) for each in papers or [False] * len(sources)], float),
        names=numbered,
        weights=weights,
        sketches=np.zeros((len(sources), 0), np.uint32) if sketches is None else sketches,
    )
    documents = given.take(order)
    if config.method == "partitioned":
        with one_thread("faiss"):
            parts = partition(documents, config.part_size, seed)
    else:
        parts = [list(range(len(order)))] if len(order) else []
    return ClusterPlan(documents=documents, order=order, parts=tuple(parts), seed=seed)


def bundle_part(documents: Documents, config: BundleConfig, seed: int) -> PartBundles:
    """Bundle one part, which no other part influences; this is what a worker does."""
    with one_thread(*_MODULES[_method(config)]):
        bundles, rest = complete(documents, _groups(documents, config, seed), config)
    return PartBundles(bundles=tuple(bundles), rest=rest)


def join(plan: ClusterPlan, done: Sequence[PartBundles], config: BundleConfig) -> Bundling:
    """Join the bundles of all parts, and try once more to place the leftovers; row numbers are those given to `plan`.

    `done` has what `bundle_part` made of each part, in the plan's order. Leftovers are tried among all documents or,
    when that would be too many pairs, in other parts with their bundles.
    """
    bundles, rest = list[Group](), Group()
    for part, result in zip(plan.parts, done, strict=True):
        bundles += _of(part, result.bundles)
        rest += [part[row] for row in result.rest]
    leftovers: list[Leftover] = []
    with one_thread("faiss"):
        if len(plan.parts) > 1 and rest:
            bundles, rest = _second_chance(plan, bundles, rest, config)
        still = set(rest)
        for part in plan.parts:
            leftovers += explain(plan.documents, [row for row in part if row in still], config)
    given = plan.order
    return Bundling(
        bundles=tuple(sorted(tuple(sorted(int(given[row]) for row in rows)) for rows in bundles)),
        leftovers=tuple(sorted(Leftover(int(given[row]), reason) for row, reason in leftovers)),
    )


def _second_chance(
    plan: ClusterPlan, bundles: list[Group], rest: Group, config: BundleConfig
) -> tuple[list[Group], Group]:
    documents = plan.documents
    for turn in range(1, _OTHER_PARTS + 1):
        if len(rest) * len(documents.sources) <= _MOST_PAIRS:
            return complete(documents, bundles + [[row] for row in rest], config)
        groups, bundles, rest = bundles + [[row] for row in rest], [], []
        # One document stands for its bundle: what is left finds it in the parts, with the bundles that have room.
        for places in partition(documents.take([rows[0] for rows in groups]), config.part_size, plan.seed + turn):
            part = [row for place in places for row in groups[place]]
            at = {row: place for place, row in enumerate(part)}
            near = [[at[row] for row in groups[place]] for place in places]
            found, left = complete(documents.take(part), near, config)
            bundles += _of(part, found)
            rest += [part[row] for row in left]
    return bundles, rest


def _of(part: Group, groups: Iterable[Group]) -> list[Group]:
    """Rows of a part as rows of all."""
    return [[part[row] for row in rows] for rows in groups]


def _method(config: BundleConfig) -> Method:
    """What is done in a part."""
    return config.within if config.method == "partitioned" else config.method


def _groups(documents: Documents, config: BundleConfig, seed: int) -> list[Group]:
    match _method(config):
        case "recipe":
            return recipe_groups(documents.vectors, config, seed)
        case "hdbscan":
            return hdbscan_groups(documents.vectors, config, seed)
        case _:
            return greedy_groups(documents, config)


def _unit_length(vectors: np.ndarray, documents: int) -> np.ndarray:
    if vectors.ndim != 2 or len(vectors) != documents:
        raise InvalidInput(
            f"vectors of shape {vectors.shape} for {documents} documents: expected one row of numbers for each"
        )
    if not np.isfinite(vectors).all():
        raise InvalidInput(
            "the vector of a document holds a number that is not finite (NaN or infinity): encode the documents again"
        )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(lengths, lengths, 1), np.float32)


def _order(vectors: np.ndarray, sources: Sequence[str], dates: Sequence[str]) -> np.ndarray:
    """Rows by a hash of what they hold, and by date: an order that is random, and the same for the same documents."""
    keys = [
        (hashlib.blake2b(vector.tobytes() + source.encode(), digest_size=16).digest(), day)
        for vector, source, day in zip(vectors, sources, dates, strict=True)
    ]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), int)
