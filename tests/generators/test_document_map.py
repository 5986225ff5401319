"""The map of documents: what PCA keeps."""

from __future__ import annotations

import numpy as np
import pytest

from trailforge.generators.document_bundles.show_map import principal_axes

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
