"""Figures: PNG files, the same bytes for the same input, that show what they were given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tests.support.figures import pixels
from trailforge.generators.document_bundles import maps
from trailforge.generators.document_bundles.bundling.config import Bundling, Leftover
from trailforge.generators.document_bundles.maps import principal_axes

BUNDLING = Bundling(bundles=((0, 1), (2, 3, 4)), leftovers=(Leftover(5, "same_source"), Leftover(6, "alone")))
NOTHING = Bundling(bundles=(), leftovers=())


def vectors(count: int) -> np.ndarray:
    """Of length 1, in two sources' manners."""
    drawn = np.random.default_rng(0).normal(size=(count, 8)) + np.eye(8)[np.arange(count) % 2] * 4
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def test_sizes(texts: list[str]) -> None:
    png = maps.bundle_sizes(BUNDLING)
    assert min(pixels(png)) > 200 and png == maps.bundle_sizes(BUNDLING)
    assert {"2 documents", "3 documents", "same source", "alone", "2 bundles", "2 documents left over"} <= set(texts)
    assert maps.bundle_sizes(NOTHING) != png


def test_map(texts: list[str]) -> None:
    """Too few documents for UMAP; themes that are empty are not written."""
    png = maps.map_of_documents(vectors(7), list("abababa"), BUNDLING, ["volcano ash", ""], seed=0)
    assert png == maps.map_of_documents(vectors(7), list("abababa"), BUNDLING, ["volcano ash", ""], seed=0)
    assert "5 documents in 2 bundles (joined by lines), 2 left over (grey)" in texts
    assert "" not in texts
    assert pixels(maps.map_of_documents(vectors(0), [], NOTHING, [], seed=0)) == pixels(png)


def test_no_label_stands_at_the_edge_of_the_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundles at both ends of the map and between, with themes as long as they come."""
    inside: list[bool] = []

    def look(canvas: FigureCanvasAgg, *args: Any, **options: Any) -> None:
        save(canvas, *args, **options)
        edges, renderer = canvas.figure.bbox, canvas.get_renderer()
        for text in canvas.figure.axes[0].texts:
            box = text.get_window_extent(renderer)
            inside.append(edges.x0 + 20 <= box.x0 and box.x1 <= edges.x1 - 20)

    save = FigureCanvasAgg.print_png
    monkeypatch.setattr(FigureCanvasAgg, "print_png", look)
    line = np.repeat(np.linspace(-1, 1, 5), 2)[:, None] * np.eye(8)[0] + np.eye(8)[1] * np.tile([0.0, 0.01], 5)[:, None]
    bundling = Bundling(bundles=tuple((row, row + 1) for row in range(0, 10, 2)), leftovers=())
    themes = ["unemployment infrastructure transportation administration representatives"] * 5
    maps.map_of_documents(line.astype(np.float32), list("ab") * 5, bundling, themes, seed=0)
    assert len(inside) >= 2 and all(inside)


def test_a_large_map_is_a_sample(monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    """Of whole bundles, and not of them alone."""
    monkeypatch.setattr(maps, "MOST_DOCUMENTS", 9)
    bundles = tuple((row, row + 1) for row in range(0, 40, 2))
    large = Bundling(bundles=bundles, leftovers=tuple(Leftover(row, "alone") for row in range(40, 60)))
    maps.map_of_documents(vectors(60), ["a", "b"] * 30, large, ["word"] * 20, seed=1)
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
    first = maps.map_of_documents(clumps, ["a", "b"] * 60, bundling, themes, seed=0)
    assert len(set(themes) & set(texts)) >= 3
    assert first == maps.map_of_documents(clumps, ["a", "b"] * 60, bundling, themes, seed=0)


RNG = np.random.default_rng(0)


def test_the_axes_are_the_first_two_of_the_singular_values() -> None:
    vectors = RNG.normal(size=(40, 12)) * np.linspace(3, 1, 12)
    projection = principal_axes(vectors)
    left, values, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    expected = (left * values)[:, :2]
    np.testing.assert_allclose(np.abs(projection.places(vectors)), np.abs(expected), atol=1e-9)
    assert projection.kept == pytest.approx(tuple(values[:2] ** 2 / (values**2).sum()))
    again = principal_axes(vectors.copy())
    assert (again.axes == projection.axes).all()


def test_points_of_a_plane_keep_their_distances() -> None:
    plane, _ = np.linalg.qr(RNG.normal(size=(6, 2)))
    flat = RNG.normal(size=(30, 2))
    projection = principal_axes(flat @ plane.T + 1)
    places = projection.places(flat @ plane.T + 1)
    np.testing.assert_allclose(
        np.linalg.norm(places[:, None] - places[None], axis=-1), np.linalg.norm(flat[:, None] - flat[None], axis=-1)
    )
    assert sum(projection.kept) == pytest.approx(1.0)


@pytest.mark.parametrize("shape", [(1, 4), (3, 1), (2, 4)])
def test_fewer_directions_than_two_are_zeros(shape: tuple[int, int]) -> None:
    vectors = RNG.normal(size=shape)
    places = principal_axes(vectors).places(vectors)
    assert places.shape == (shape[0], 2) and np.isfinite(places).all()
    np.testing.assert_allclose(places[:, 1], 0.0, atol=1e-12)
