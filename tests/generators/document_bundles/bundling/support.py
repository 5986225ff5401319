"""Made-up documents for tests of bundling, and what holds for every bundling."""

from __future__ import annotations

from typing import Any

import numpy as np

from trailforge.generators.document_bundles.bundling.config import Bundling

LAX: dict[str, Any] = {"min_cosine": 0.0}


def documents(count: int, sources: int, seed: int, dimensions: int = 12) -> tuple[np.ndarray, list[str]]:
    """Vectors in clumps, and a source for each; a few sources have most of the documents."""
    rng = np.random.default_rng(seed)
    events = rng.normal(size=(max(1, count // 4), dimensions))
    vectors = events[rng.integers(len(events), size=count)] + rng.normal(size=(count, dimensions)) * 0.4
    chosen = np.minimum(rng.geometric(0.5, size=count), sources)
    return vectors.astype(np.float32), [f"source{number}" for number in chosen]


def check(bundling: Bundling, sources: list[str]) -> None:
    """Each document in one place; bundles of two to four documents from at least two sources."""
    rows = [row for rows in bundling.bundles for row in rows] + [left.index for left in bundling.leftovers]
    assert sorted(rows) == list(range(len(sources)))
    assert all(2 <= len(rows) <= 4 for rows in bundling.bundles)
    assert all(len({sources[row] for row in rows}) >= 2 for rows in bundling.bundles)
    assert {left.reason for left in bundling.leftovers} <= {"alone", "same_source", "other_time"}


def nameless(count: int) -> dict[str, Any]:
    """So many documents that share no names and no text, and may be together whenever they are dated."""
    return {
        "windows": np.full(count, np.inf),
        "names": np.full((count, 0), -1, np.int32),
        "weights": np.zeros((count, 0), np.float32),
        "sketches": np.zeros((count, 0), np.uint32),
    }


def at(*degrees: float) -> np.ndarray:
    """Vectors of length 1 in the plane."""
    angle = np.radians(degrees)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
