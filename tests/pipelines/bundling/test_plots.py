"""Figures: PNG files, the same bytes for the same input, that show what they were given."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from pipelines.bundling import plots
from pipelines.bundling.config import Bundling, Leftover
from schemas import Count, StageCount

BUNDLING = Bundling(bundles=((0, 1), (2, 3, 4)), leftovers=(Leftover(5, "single_source"), Leftover(6, "alone")))
NOTHING = Bundling(bundles=(), leftovers=())
STAGES = (
    StageCount(name="content", inputs=1200, accepted=1000, rejected=(Count(reason="too_short", count=200),)),
    StageCount(name="questions", inputs=0, accepted=0),
)


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that the next figure says."""
    said: list[str] = []
    save = Figure.savefig

    def listen(figure: Figure, *args: Any, **options: Any) -> None:
        for axes in figure.axes:
            said.extend(text.get_text() for text in axes.texts)
            said.extend(label.get_text() for label in [*axes.get_xticklabels(), *axes.get_yticklabels()])
            said.append(axes.get_title() + axes.get_title(loc="left"))
        save(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", listen)
    return said


def pixels(png: bytes) -> tuple[int, int]:
    """Width and height, of a file that is a PNG."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


def vectors(count: int) -> np.ndarray:
    """Of length 1, in two sources' manners."""
    drawn = np.random.default_rng(0).normal(size=(count, 8)) + np.eye(8)[np.arange(count) % 2] * 4
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def test_sizes(texts: list[str]) -> None:
    png = plots.bundle_sizes(BUNDLING)
    assert min(pixels(png)) > 200 and png == plots.bundle_sizes(BUNDLING)
    assert {"2 documents", "3 documents", "single source", "alone", "2 bundles", "2 documents left over"} <= set(texts)
    assert plots.bundle_sizes(NOTHING) != png


def test_funnel(texts: list[str]) -> None:
    png = plots.funnel(STAGES)
    assert png == plots.funnel(STAGES)
    assert {"content", "1,000 of 1,200", "too short 200", "questions", "0 of 0"} <= set(texts)
    assert pixels(plots.funnel(STAGES * 3))[1] > pixels(png)[1] > pixels(plots.funnel(()))[1]


def test_map(texts: list[str]) -> None:
    """Too few documents for UMAP; themes that are empty are not written."""
    png = plots.map_of_documents(vectors(7), list("abababa"), BUNDLING, ["volcano ash", ""], seed=0)
    assert png == plots.map_of_documents(vectors(7), list("abababa"), BUNDLING, ["volcano ash", ""], seed=0)
    assert "5 documents in 2 bundles (joined by lines), 2 left over (grey)" in texts
    assert "" not in texts
    assert pixels(plots.map_of_documents(vectors(0), [], NOTHING, [], seed=0)) == pixels(png)


def test_a_large_map_is_a_sample(monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    """Of whole bundles, and not of them alone."""
    monkeypatch.setattr(plots, "MOST_DOCUMENTS", 9)
    bundles = tuple((row, row + 1) for row in range(0, 40, 2))
    large = Bundling(bundles=bundles, leftovers=tuple(Leftover(row, "alone") for row in range(40, 60)))
    plots.map_of_documents(vectors(60), ["a", "b"] * 30, large, ["word"] * 20, seed=1)
    (title,) = [text for text in texts if "sample" in text]
    bundled, left = int(title.split()[0]), int(title.split(", ")[1].split()[0])
    assert title.endswith("a sample of 60") and bundled % 2 == 0 and 8 <= bundled + left <= 9 and bundled and left


@pytest.mark.slow  # numba compiles UMAP
def test_map_by_umap(texts: list[str]) -> None:
    """Of clumps that are far apart each is named."""
    clump = np.repeat(np.arange(6), 20)
    clumps = (np.eye(16)[clump] + np.random.default_rng(0).normal(size=(120, 16)) * 0.02).astype(np.float32)
    clumps /= np.linalg.norm(clumps, axis=1, keepdims=True)
    bundles = tuple(tuple(range(first, first + 4)) for first in range(0, 120, 20))
    left = tuple(Leftover(row, "alone") for row in range(120) if row % 20 >= 4)
    bundling = Bundling(bundles=bundles, leftovers=left)
    themes = [f"theme{number}" for number in range(6)]
    first = plots.map_of_documents(clumps, ["a", "b"] * 60, bundling, themes, seed=0)
    assert len(set(themes) & set(texts)) >= 3
    assert first == plots.map_of_documents(clumps, ["a", "b"] * 60, bundling, themes, seed=0)
