"""What holds for every bundling, whatever the method, the documents and their order; and the mending, case by case."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generators.document_bundles.bundling.support import LAX, at, check, documents, nameless
from tests.support.bundling import bundle_documents
from trailforge.generators.document_bundles.bundling.clustering import bundle_part, join, plan
from trailforge.generators.document_bundles.bundling.config import BundleConfig, Leftover
from trailforge.generators.document_bundles.bundling.merging import complete, explain
from trailforge.generators.document_bundles.bundling.recipe import cut
from trailforge.generators.document_bundles.bundling.units import Documents
from trailforge.schemas import InvalidInput

CONFIGS = [
    BundleConfig(method="recipe", reduction="pca", dimensions=5, theme_size=12, **LAX),
    BundleConfig(method="recipe", reduction="pca", dimensions=5, theme_size=12, min_cosine=0.5, window_days=20),
    BundleConfig(method="hdbscan", reduction="pca", dimensions=5, min_cosine=0.3),
    BundleConfig(method="greedy", min_cosine=-1.0),
    BundleConfig(method="greedy", min_cosine=0.6),
    BundleConfig(method="greedy", window_days=5, **LAX),
    BundleConfig(part_size=12, window_days=30),
    BundleConfig(part_size=12, within="recipe", reduction="none", theme_size=6, min_cosine=0.7),
]
NAMES = [f"{c.method}-{c.within}-{c.min_cosine}-{c.window_days}" for c in CONFIGS]


def dates(count: int, seed: int) -> list[str | None]:
    """Over four months; of a few documents unknown."""
    rng = np.random.default_rng(seed)
    days = [(date(2025, 1, 1) + timedelta(int(day))).isoformat() for day in rng.integers(120, size=count)]
    return [None if hidden else day for day, hidden in zip(days, rng.random(count) < 0.15, strict=True)]


def days_apart(published: list[str | None], rows: Sequence[int]) -> int:
    """Between the first and the last of those with a date."""
    days = [date.fromisoformat(day).toordinal() for row in rows if (day := published[row])]
    return max(days, default=0) - min(days, default=0)


@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
@settings(max_examples=8)
@given(data=st.data())
def test_invariants(config: BundleConfig, data: st.DataObject) -> None:
    """For any number of documents, sources and dates; a second time the same; in another order the same sets."""
    count = data.draw(st.integers(0, 70), label="documents")
    seed = data.draw(st.integers(0, 99))
    (vectors, sources), published = documents(count, data.draw(st.integers(1, 5)), seed), dates(count, seed)
    first = bundle_documents(vectors, sources, config, 3, published)
    check(first, sources)
    assert first == bundle_documents(vectors, sources, config, 3, published)
    order = data.draw(st.permutations(range(count)))
    moved = bundle_documents(
        vectors[order], [sources[row] for row in order], config, 3, [published[row] for row in order]
    )
    assert {frozenset(order[row] for row in rows) for rows in moved.bundles} == set(map(frozenset, first.bundles))
    assert {Leftover(order[row], reason) for row, reason in moved.leftovers} == set(first.leftovers)


@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
@settings(max_examples=6)
@given(count=st.integers(0, 70), seed=st.integers(0, 99))
def test_near_in_meaning_and_time(config: BundleConfig, count: int, seed: int) -> None:
    """Each document of a bundle reaches the cosine, none is too far off in time; no two left over could be a bundle."""
    (vectors, sources), published = documents(count, 3, seed), dates(count, seed)
    bundling = bundle_documents(vectors, sources, config, 3, published)
    window = config.window_days or 10_000
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for rows in bundling.bundles:
        for row in rows:
            others = [other for other in rows if other != row]
            assert float(np.mean(unit[others] @ unit[row])) >= config.min_cosine - 1e-5
        assert days_apart(published, rows) <= window
    for one, other in combinations([left.index for left in bundling.leftovers], 2):
        near = float(unit[one] @ unit[other]) > config.min_cosine + 1e-5
        assert not (near and sources[one] != sources[other] and days_apart(published, [one, other]) <= window)


@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
def test_parts_by_workers(config: BundleConfig) -> None:
    """Each part in a worker's hands, there and back as bytes and in any order of work: the same as all at once."""
    (vectors, sources), published = documents(200, 4, seed=5), dates(200, seed=5)
    planned = plan(vectors, sources, config, 3, published)
    assert sorted(row for part in planned.parts for row in part) == list(range(200))
    sent = [pickle.dumps(planned.documents.take(part)) for part in planned.parts]
    done = {
        number: pickle.dumps(bundle_part(pickle.loads(sent[number]), config, 3)) for number in range(len(sent))[::-1]
    }
    received = [pickle.loads(done[number]) for number in range(len(sent))]
    assert join(planned, received, config) == bundle_documents(vectors, sources, config, 3, published)


@pytest.mark.filterwarnings("ignore:.*uncondensed distance matrix")  # twelve vectors of twelve numbers look like one
@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
def test_degenerate_vectors(config: BundleConfig) -> None:
    """Copies and vectors without direction are bundled as well as they can be, and in finite time."""
    sources = ["a", "b", "c", "a"] * 12
    for vectors in (np.ones((48, 12)), np.zeros((48, 12)), np.repeat(np.eye(12), 4, axis=0)):
        check(bundle_documents(vectors, sources, config, seed=0), sources)


@pytest.mark.slow  # the first time, numba compiles UMAP
def test_the_recipe_with_umap() -> None:
    """Reduced, themed, cut and mended: clumps that are far apart are never mixed, and a seed gives the same again.

    What was compiled for it lies on disk for the next process.
    """
    from umap import umap_

    rng = np.random.default_rng(0)
    clump = np.repeat(np.arange(3), 10)
    vectors = (np.eye(16)[clump] + rng.normal(size=(30, 16)) * 0.02).astype(np.float32)
    sources = [f"s{row % 5}" for row in range(30)]
    config = BundleConfig(method="recipe", reduction="umap", dimensions=4, theme_size=10)
    bundling = bundle_documents(vectors, sources, config, seed=1)
    check(bundling, sources)
    assert not bundling.leftovers
    assert all(len({clump[row] for row in rows}) == 1 for rows in bundling.bundles)
    assert bundling == bundle_documents(vectors, sources, config, seed=1)
    compiled = Path(umap_.smooth_knn_dist.stats.cache_path)  # pyright: ignore[reportArgumentType]
    assert list(compiled.glob("umap_.smooth_knn_dist-*.nbc"))


def test_methods_find_the_same_clumps() -> None:
    """Events told by three sources each: every method brings nearly all of an event's documents together."""
    rng = np.random.default_rng(1)
    event = np.repeat(np.arange(60), 3)
    vectors = rng.normal(size=(60, 32))[event] + rng.normal(size=(180, 32)) * 0.15
    sources = ["a", "b", "c"] * 60
    for config in (
        BundleConfig(method="recipe", reduction="none"),
        BundleConfig(method="hdbscan", reduction="none"),
        BundleConfig(method="greedy"),
        BundleConfig(part_size=40),
    ):
        bundling = bundle_documents(vectors, sources, config, seed=0)
        pure = [len({event[row] for row in rows}) == 1 for rows in bundling.bundles]
        assert np.mean(pure) > 0.8, config.method
        assert len(bundling.leftovers) < 10


# Mending


@pytest.mark.parametrize(
    ("degrees", "sources", "groups", "bundles", "leftovers"),
    [
        pytest.param((0, 5, 9), "abb", [[0, 1], [2]], {(0, 1, 2)}, {}, id="one joins the nearest with room"),
        pytest.param((0, 5, 9), "aab", [[0, 1], [2]], {(0, 1, 2)}, {}, id="one source takes in another"),
        pytest.param((0, 1, 2, 6, 9), "aaaab", [[0, 1, 2, 3], [4]], {(1, 2, 3, 4)}, {0: "alone"}, id="full"),
        pytest.param(
            (0, 1, 20, 21, 22), "aaabc", [[0, 1], [2, 3, 4]], {(0, 1, 3), (2, 4)}, {}, id="a bundle spares one"
        ),
        pytest.param((0, 2), "aa", [[0, 1]], set(), {0: "same_source", 1: "same_source"}, id="one source only"),
        pytest.param((0, 1, 150), "abb", [[0, 1], [2]], {(0, 1)}, {2: "alone"}, id="too far"),
        pytest.param((0, 1, 2, 3, 4), "abaaa", [[0, 1, 2, 3], [4]], {(0, 1, 2, 3)}, {4: "alone"}, id="no room"),
        pytest.param((0, 1, 2, 3, 4), "abaab", [[0, 1, 2, 3], [4]], {(0, 1, 2), (3, 4)}, {}, id="no room, but a spare"),
        pytest.param((0, 1, 40, 41), "abab", [[0], [1], [2], [3]], {(0, 1), (2, 3)}, {}, id="singles"),
    ],
)
def test_mending(
    degrees: tuple[float, ...],
    sources: str,
    groups: list[list[int]],
    bundles: set[tuple[int, ...]],
    leftovers: dict[int, str],
) -> None:
    """Documents on a circle, and what becomes of their groups."""
    assert mended(degrees, sources, groups, BundleConfig(min_cosine=0.0)) == (bundles, leftovers)


def mended(
    degrees: Sequence[float], sources: str, groups: list[list[int]], config: BundleConfig, days: Sequence[float] = ()
) -> tuple[set[tuple[int, ...]], dict[int, str]]:
    """Bundles and leftovers."""
    codes, when = np.array([ord(source) for source in sources]), np.array(days or [np.nan] * len(sources))
    others = nameless(len(sources)) | {"windows": np.full(len(sources), config.window_of(is_paper=False), float)}
    circle = Documents(vectors=at(*degrees), sources=codes, days=when, **others)
    found, rest = complete(circle, groups, config)
    return {tuple(sorted(rows)) for rows in found}, dict(explain(circle, rest, config))


@pytest.mark.parametrize(
    ("degrees", "sources", "groups", "bundles", "leftovers"),
    [
        pytest.param((0, 1, 80), "aab", [[0, 1, 2]], set(), {0: "same_source", 1: "same_source", 2: "alone"}, id="b"),
        pytest.param((0, 1, 2, 80), "abaa", [[0, 1, 2, 3]], {(0, 1, 2)}, {3: "alone"}, id="an outsider"),
        pytest.param(
            (0, 1, 80, 81), "aabb", [[0, 1, 2], [3]], set(), dict.fromkeys(range(4), "same_source"), id="two that fit"
        ),
        pytest.param((0, 1, 80, 81), "abba", [[0, 1, 2], [3]], {(0, 1), (2, 3)}, {}, id="another chance"),
        pytest.param((0, 40, 81), "aba", [[0], [1], [2]], {(0, 1)}, {2: "alone"}, id="the middle is not a bridge"),
    ],
)
def test_outsiders(
    degrees: tuple[float, ...],
    sources: str,
    groups: list[list[int]],
    bundles: set[tuple[int, ...]],
    leftovers: dict[int, str],
) -> None:
    """A document far from the others leaves, and finds others if there are any; nobody lets one in."""
    assert mended(degrees, sources, groups, BundleConfig(min_cosine=0.7)) == (bundles, leftovers)


@pytest.mark.parametrize(
    ("days", "degrees", "sources", "groups", "bundles", "leftovers"),
    [
        pytest.param((0, 10, 20), (0, 1, 3), "aba", [[0, 1, 2]], {(0, 1)}, {2: "alone"}, id="too long"),
        pytest.param((0, 11, 12), (0, 1, 3), "aba", [[0], [1], [2]], {(1, 2)}, {0: "alone"}, id="one of them"),
        pytest.param((0, np.nan, 99), (0, 1, 3), "aba", [[0], [1], [2]], {(0, 1)}, {2: "alone"}, id="no date"),
        pytest.param((0, 10, 20, 30), (0, 1, 3, 4), "abab", [[0, 2], [1, 3]], {(0, 1), (2, 3)}, {}, id="both"),
        pytest.param((0, 11), (0, 1), "ab", [[0, 1]], set(), {0: "other_time", 1: "other_time"}, id="none in time"),
        pytest.param(
            (0, 0, 99, 99, 99),
            (0, 1, 20, 21, 22),
            "aaabc",
            [[0, 1], [2, 3, 4]],
            {(2, 3, 4)},
            {0: "same_source", 1: "same_source"},
            id="a spare, but too late",
        ),
    ],
)
def test_windows(
    days: tuple[float, ...],
    degrees: tuple[float, ...],
    sources: str,
    groups: list[list[int]],
    bundles: set[tuple[int, ...]],
    leftovers: dict[int, str],
) -> None:
    """A window of ten days."""
    config = BundleConfig(min_cosine=0.5, window_days=10)
    assert mended(degrees, sources, groups, config, days) == (bundles, leftovers)


def test_min_cosine() -> None:
    """Greedily nothing is joined across it, and what is left says why."""
    vectors, sources = at(0, 10, 90, 180, 185), ["a", "b", "c", "d", "d"]
    bundling = bundle_documents(vectors, sources, BundleConfig(method="greedy", min_cosine=0.5), seed=0)
    assert bundling.bundles == ((0, 1),)
    assert bundling.leftovers == (Leftover(2, "alone"), Leftover(3, "same_source"), Leftover(4, "same_source"))


def test_cut() -> None:
    """Any number of rows ends in groups of at most four."""
    vectors, _ = documents(203, 1, seed=1)
    groups = cut(vectors, list(range(203)), seed=0)
    assert sorted(row for rows in groups for row in rows) == list(range(203))
    assert max(map(len, groups)) <= 4


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (np.ones((2, 3)), "vectors of shape"),
        (np.ones(3), "vectors of shape"),
        (np.full((3, 2), np.nan), "not finite"),
    ],
)
def test_bad_vectors(vectors: np.ndarray, problem: str) -> None:
    """Said in one line."""
    with pytest.raises(InvalidInput, match=problem):
        bundle_documents(vectors, ["a", "b", "c"], BundleConfig(), seed=0)


@pytest.mark.parametrize("setting", [{"part_size": 1}, {"theme_size": 0}, {"dimensions": 3}])
def test_bad_settings(setting: dict[str, Any]) -> None:
    """Sizes below that of a bundle."""
    with pytest.raises(InvalidInput, match="less than 4"):
        BundleConfig(**setting)


def test_bad_window() -> None:
    """No length below none."""
    for window in ("window_days", "papers_window_days"):
        with pytest.raises(InvalidInput, match="0 or more days"):
            replace(BundleConfig(), **{window: -1})


@pytest.mark.parametrize(
    ("papers", "bundles"),
    [
        ((True, True, False), ((0, 1),)),
        ((True, False, False), ((1, 2),)),
        ((False, False, False), ((1, 2),)),
    ],
)
def test_papers_among_themselves_have_a_window_of_their_own(
    papers: tuple[bool, ...], bundles: tuple[tuple[int, ...], ...]
) -> None:
    """Two of a year apart, and news of the day of the second: a paper and news are held to the window of news."""
    config = BundleConfig(method="greedy", min_cosine=0.5, window_days=92, papers_window_days=400)
    days = ["2024-06-01", "2025-06-01", "2025-06-02"]
    degrees = (0, 1, 20) if papers[1] else (0, 10, 12)
    made = bundle_documents(at(*degrees), ["a", "b", "c"], config, 0, days, papers=papers)
    assert made.bundles == bundles


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("source_name_share", 0.0),
        ("source_name_share", 1.5),
        ("min_retold", 1.5),
        ("few_share", 0.0),
        ("few_weight", -1.0),
        ("singled_weight", -1.0),
    ],
)
def test_bad_shares(setting: str, value: float) -> None:
    """The setting is named."""
    with pytest.raises(InvalidInput, match="out of range") as caught:
        replace(BundleConfig(), **{setting: value})
    assert caught.value.field == setting
