"""The map of documents: what PCA keeps, and what a point tells."""

from __future__ import annotations

import numpy as np
import pytest
from trailforge.inspector.drawings.document_map import MappedDocument, document_map, principal_axes

from tests.inspector.drawings.support import EVIL, tags_in

RNG = np.random.default_rng(0)


def document(id: str, x: float = 0.0, source: str = "news", bundle: str = "b") -> MappedDocument:
    return MappedDocument(id=id, title=f"Title {id}", source=source, bundle=bundle, x=x, y=-x)


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


def test_a_point_tells_its_bundle_and_its_title() -> None:
    documents = [document("1"), document("2", 1.0), document("3", 2.0, bundle="")]
    figure = document_map(documents, documents[:2], by_bundle=False, height=200)
    points, rings = figure.data[0], figure.data[-1]
    assert list(points.customdata) == ["b", "b", ""]
    assert "Title 1" in points.hovertext[0] and "in no bundle" in points.hovertext[2]
    assert list(rings.x) == [0.0, 1.0]


def test_colours_are_those_of_sources_or_of_bundles() -> None:
    documents = [
        document("1", source="a", bundle="p"), document("2", source="b", bundle="p"),
        document("3", source="a", bundle=""), document("4", source="b", bundle="q"),
    ]  # fmt: skip
    by_source = document_map(documents, [], by_bundle=False, height=200)
    one, two, three, four = by_source.data[0].marker.color
    assert one == three != two == four
    assert [trace.name for trace in by_source.data[1:]] == ["a", "b"]
    one, two, three, four = document_map(documents, [], by_bundle=True, height=200).data[0].marker.color
    assert one == two and len({one, three, four}) == 3


def test_texts_command_nothing() -> None:
    evil = MappedDocument(id="1", title=EVIL, source=EVIL, bundle="", x=0.0, y=0.0)
    figure = document_map([evil], [evil], by_bundle=False, height=200)
    texts = [*figure.data[0].hovertext, figure.data[1].name]
    assert tags_in(texts) <= {"br"}
