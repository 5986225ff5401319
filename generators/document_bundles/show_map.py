"""Documents as points in the plane: their embeddings seen along the two directions in which they differ most (PCA)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trailforge.pipelines.runs.finished import OpenRun
from trailforge.pipelines.show.parts import Map, MapPoint, Note, Parts
from trailforge.schemas import Bundle

MOST_POINTS = 20_000
"""Documents on the map; of more a sample is shown, the same at every start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """From d dimensions to two."""

    mean: np.ndarray
    """(d,)."""
    axes: np.ndarray
    """(d, 2): orthonormal columns; zeros where the vectors have no further direction."""
    kept: tuple[float, float]
    """Share of the variance along each axis."""

    def places(self, vectors: np.ndarray) -> np.ndarray:
        """(n, d) to (n, 2)."""
        return (vectors - self.mean) @ self.axes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """The documents in two dimensions, by id."""

    projection: Projection
    points: dict[str, MapPoint]
    total: int
    """Documents with an embedding."""


def document_map(run: OpenRun, bundle: Bundle | None) -> Parts:
    """All documents of a run, those of a bundle pointed out."""
    if "embeddings" not in run.tables:
        return [Note("This run keeps no embeddings, so there is no map of its documents.")]
    placed: _Placed = run.once(("map",), lambda: _place(run))
    shown, kept = len(placed.points), sum(placed.projection.kept)
    sample = f"a sample of {shown:,} of {placed.total:,}" if shown < placed.total else f"{shown:,} documents"
    found = (
        []
        if bundle is None
        else [placed.points.get(id) or _place_alone(run, placed, id, bundle) for id in bundle.document_ids]
    )
    return [
        Map(
            points=list(placed.points.values()),
            chosen=[point for point in found if point is not None],
            table="bundles",
            caption=f"PCA of the embeddings, {sample}: the two main directions hold {kept:.0%} of the variance.",
            help="Near points need not be alike: all that the two directions do not show is left out.",
        )
    ]


def principal_axes(vectors: np.ndarray) -> Projection:
    """The two main directions of (n, d) vectors: the same for the same vectors, each with its largest part positive."""
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    variances, directions = np.linalg.eigh(centred.T @ centred)
    variances, directions = np.maximum(variances[::-1], 0.0), directions[:, ::-1]
    total = float(variances.sum())
    axes = np.zeros((len(mean), 2))
    shares = [0.0, 0.0]
    for number in range(min(2, len(mean))):
        if variances[number] > 1e-12 * max(total, 1e-12):
            axis = directions[:, number]
            axes[:, number] = axis * np.sign(axis[np.abs(axis).argmax()])
            shares[number] = float(variances[number]) / total
    return Projection(mean=mean, axes=axes, kept=(shares[0], shares[1]))


def _place(run: OpenRun) -> _Placed:
    """Projects the documents, or a sample of them."""
    table = run.table("embeddings")
    ids: list[str] = table.select(["document_id"])["document_id"].to_pylist()
    total = len(ids)
    sample = sorted(random.Random(0).sample(range(total), min(total, MOST_POINTS)))
    among = None if total <= MOST_POINTS else ("document_id", [ids[number] for number in sample])
    rows = table.select(["document_id", "vector"], among)
    vectors = rows["vector"].combine_chunks().flatten().to_numpy().reshape(len(rows), -1)
    projection = principal_axes(vectors)
    ids = rows["document_id"].to_pylist()
    names, bundles = _names(run, ids), _bundles(run, set(ids))
    points = {
        id: _point(names.get(id, (id, "")), bundles.get(id, ""), place)
        for id, place in zip(ids, projection.places(vectors), strict=True)
    }
    return _Placed(projection=projection, points=points, total=total)


def _point(name: tuple[str, str], bundle: str, place: np.ndarray) -> MapPoint:
    title, source = name
    hover = (title, source, "" if bundle else "in no bundle")
    return MapPoint(x=float(place[0]), y=float(place[1]), hover=hover, source=source, group=bundle)


def _names(run: OpenRun, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Title and source by document."""
    if "documents" not in run.tables:
        return {}
    rows = run.table("documents").select(["id", "title", "source"], ("id", ids)).to_pylist()
    return {row["id"]: (row["title"] or row["id"], row["source"]) for row in rows}


def _bundles(run: OpenRun, ids: set[str]) -> dict[str, str]:
    """Uid of the bundle by document."""
    rows = run.table("bundles").select(["uid", "document_ids"]).to_pylist()
    return {id: row["uid"] for row in rows for id in row["document_ids"] if id in ids}


def _place_alone(run: OpenRun, placed: _Placed, id: str, bundle: Bundle) -> MapPoint | None:
    """A document of the chosen bundle that the sample lacks."""
    number = run.find("embeddings", id)
    if number is None:
        return None
    vector = np.array([run.row("embeddings", number)["vector"]])
    return _point(_names(run, [id]).get(id, (id, "")), bundle.uid, placed.projection.places(vector)[0])
