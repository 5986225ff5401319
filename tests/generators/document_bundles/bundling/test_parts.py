"""Many documents are bundled in parts, and what these leave over in others: each once, in time linear in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.generators.document_bundles.bundling.support import LAX, at, check, documents, nameless
from tests.support.bundling import bundle_documents
from trailforge.generators.document_bundles.bundling.clustering import PartBundles, bundle_part, join, plan
from trailforge.generators.document_bundles.bundling.config import BundleConfig
from trailforge.generators.document_bundles.bundling.measures import cohesion
from trailforge.generators.document_bundles.bundling.units import Documents, nearest, partition


def test_parts_are_not_much_too_large() -> None:
    """Every row once, no part of more than twice the size, and parts hold what is near."""
    vectors, _ = documents(600, 2, seed=4)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    parts = partition(of_one_source(vectors), 50, seed=0)
    assert sorted(row for part in parts for row in part) == list(range(600))
    assert max(map(len, parts)) <= 100
    within = np.mean([(vectors[part] @ vectors[part].T).mean() for part in parts])
    assert within > (vectors @ vectors.T).mean() + 0.2
    assert [len(part) for part in partition(of_one_source(np.ones((500, 4), np.float32)), 50, seed=0)] == [50] * 10


def of_one_source(vectors: np.ndarray) -> Documents:
    """Without dates."""
    return Documents(
        vectors=vectors,
        sources=np.zeros(len(vectors), int),
        days=np.full(len(vectors), np.nan),
        **nameless(len(vectors)),
    )


def test_parts_are_not_sources() -> None:
    """Two sources with a manner each, stronger than what they speak of: the parts hold both sources and one subject."""
    rng = np.random.default_rng(0)
    subject, source = rng.integers(8, size=800), rng.integers(2, size=800)
    vectors = np.eye(16)[subject] + 3 * np.eye(16)[8 + source] + rng.normal(size=(800, 16)) * 0.05
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    undated = np.full(800, np.nan)
    parts = partition(Documents(vectors=vectors, sources=source, days=undated, **nameless(800)), 100, seed=0)
    assert len(parts) > 4
    for part in parts:
        assert len(np.unique(source[part])) == 2
        assert len(np.unique(subject[part])) <= 2


def test_what_parts_leave_over_is_mended_across_them() -> None:
    """Two far clumps, each of one source: only documents of different parts can make bundles."""
    vectors = np.concatenate([at(*np.linspace(0, 8, 30)), at(*np.linspace(60, 68, 30))])
    sources = ["a"] * 30 + ["b"] * 30
    bundling = bundle_documents(vectors, sources, BundleConfig(part_size=15, **LAX), seed=0)
    check(bundling, sources)
    assert not bundling.leftovers


_MODULE = "trailforge.generators.document_bundles.bundling.clustering"


def test_much_is_left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too much to compare with all: it has its second chance in other parts, and more is bundled than by the first."""
    vectors, sources = documents(600, 4, seed=6)
    config = BundleConfig(part_size=40, min_cosine=0.75)
    planned = plan(vectors, sources, config, 0)
    done = [bundle_part(planned.documents.take(part), config, 0) for part in planned.parts]
    among_all = join(planned, done, config)
    monkeypatch.setattr(f"{_MODULE}._MOST_PAIRS", 0)
    in_parts = join(planned, done, config)
    check(in_parts, sources)
    assert sum(len(part.rest) for part in done) > len(in_parts.leftovers) >= len(among_all.leftovers)


def test_what_is_left_over_joins_a_bundle_of_another_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents by themselves near pairs that were made elsewhere, too many to compare with all."""
    angles = [9.0 * clump + step for clump in range(40) for step in (0, 1, 2)]
    vectors, sources = at(*angles), ["a", "b", "b"] * 40
    config = BundleConfig(part_size=20, min_cosine=0.999)
    planned = plan(vectors, sources, config, 0)
    pairs = [[row, row + 1] for row in range(0, 120, 3)]
    place = {int(given): row for row, given in enumerate(planned.order)}
    part = [row for rows in planned.parts for row in rows]
    first = PartBundles(
        bundles=tuple([part.index(place[row]) for row in pair] for pair in pairs),
        rest=[part.index(place[row]) for row in range(2, 120, 3)],
    )
    planned = replace(planned, parts=(part, []))  # as one part whose leftovers were given up
    monkeypatch.setattr(f"{_MODULE}._MOST_PAIRS", 0)
    bundling = join(planned, [first, PartBundles(bundles=(), rest=[])], config)
    assert sum(map(len, bundling.bundles)) > 110


def test_twice_the_documents_take_twice_the_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of them near nothing, so that too much is left over to compare it with all: that would take five times."""
    monkeypatch.setattr(f"{_MODULE}._MOST_PAIRS", 0)
    compared = list[int]()

    def counting(queries: np.ndarray, candidates: np.ndarray, *rest: Any, **settings: Any) -> Any:
        compared.append(len(queries) * len(candidates))
        return nearest(queries, candidates, *rest, **settings)

    monkeypatch.setattr("trailforge.generators.document_bundles.bundling.merging.nearest", counting)

    def count_for(number: int) -> int:
        compared.clear()
        vectors, sources = documents(number, 4, seed=3, dimensions=48)
        vectors[::2] = np.random.default_rng(0).normal(size=vectors[::2].shape)
        bundle_documents(vectors, sources, BundleConfig(part_size=50, min_cosine=0.6), seed=0)
        return sum(compared)

    assert count_for(2000) < 2.6 * count_for(1000)


def test_parts_cost_little() -> None:
    """In cohesion, against the same without parts, though these are small."""
    vectors, sources = documents(600, 5, seed=2, dimensions=48)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    whole, parts = (
        np.mean([cohesion(unit[list(rows)]) for rows in bundle_documents(vectors, sources, config, seed=0).bundles])
        for config in (BundleConfig(method="greedy"), BundleConfig(part_size=100))
    )
    assert parts > 0.93 * whole
