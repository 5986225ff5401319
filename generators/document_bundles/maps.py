"""Draw the documents of a run as points in the plane: by PCA for the curators' page, and by UMAP for the dataset
card.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from trailforge.generators.document_bundles.bundling.config import Bundling, Group
from trailforge.generators.document_bundles.bundling.measures import cohesion, size_counts
from trailforge.generators.document_bundles.bundling.recipe import umap
from trailforge.generators.document_bundles.bundling.units import without_source
from trailforge.pipelines.cards import DARK, GOOD, GREY, bars, figure_of, png_of, remove_frame, write_figure
from trailforge.pipelines.engine import file_entry
from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.show import Map, MapPoint, Note, Parts
from trailforge.retrieval.threads import one_thread
from trailforge.schemas import Bundle, FileEntry

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_POINTS = 20_000
"""Most documents on the curators' map; of more a sample is shown, the same at every start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """A projection from d dimensions to two."""

    mean: np.ndarray
    """The mean of the vectors, shape (d,)."""
    axes: np.ndarray
    """The two axes as orthonormal columns, shape (d, 2); zeros where the vectors have no further direction."""
    kept: tuple[float, float]
    """Share of the variance along each axis."""

    def places(self, vectors: np.ndarray) -> np.ndarray:
        """Project vectors from shape (n, d) to (n, 2)."""
        return (vectors - self.mean) @ self.axes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """The documents in two dimensions, by id."""

    projection: Projection
    points: dict[str, MapPoint]
    total: int
    """Documents with an embedding."""


def document_map(run: OpenRun, bundle: Bundle | None) -> Parts:
    """Return a map of all documents of a run that points out those of a bundle; None points out none."""
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
    """Return the two main directions of (n, d) vectors: always the same for the same vectors, each with a positive
    largest part."""
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


MAP, SIZES = "plots/documents.png", "plots/bundles.png"
MOST_DOCUMENTS = 5000
"""Most documents on the card's map; of more a sample is drawn. Points would cover each other, and UMAP takes a
minute."""
FEWEST_FOR_UMAP = 50
"""Fewest documents that UMAP places. Fewer are placed by their two main directions: UMAP would see little more in them,
and takes seconds to compile."""
_LABELS = 14
_APART = 0.13
"""Of the map's width and height: labels nearer to each other would overlap. Half a label is as wide."""
_Side: TypeAlias = Literal["left", "center", "right"]
_ASIDE: dict[_Side, int] = {"left": 1, "center": 0, "right": -1}
"""Where a label's middle is."""
_COLOURS = ("#3b75af", "#e8963e", "#509e3d", "#b5433a", "#8d69b8", "#84584e", "#d57dbe", "#3fa7b5")
"""Of bundles, in turn: there are more bundles than colours one can tell apart, so lines join a bundle's documents."""


def draw_plots(
    folder: Path, bundling: Bundling, sources: Sequence[str], vectors: np.ndarray, themes: Sequence[str], seed: int
) -> list[FileEntry]:
    """Draw the figures of the card into a run's folder, `map_of_documents` and `bundle_sizes`, and return their entries
    for the manifest. `vectors`, `sources` and `themes` are as for the former.
    """
    drawn = {
        MAP: map_of_documents(vectors, sources, bundling, themes, seed),
        SIZES: bundle_sizes(bundling),
    }
    for name, image in drawn.items():
        write_figure(folder / name, image)
    return [file_entry(folder, folder / name, 0) for name in drawn]


def map_of_documents(
    vectors: np.ndarray, sources: Sequence[str], bundling: Bundling, themes: Sequence[str], seed: int
) -> bytes:
    """Draw a UMAP of the documents, those of a bundle connected, leftovers grey, and some bundles with their themes;
    returns a PNG.

    `vectors` is (n, d), of length 1; `themes` has a few words for each bundle. The mean of each source is subtracted,
    or the map would show little beside the sources. More than `MOST_DOCUMENTS` are sampled.
    """
    bundles, left = _sample(bundling, seed)
    shown = sorted(row for group in [*bundles.values(), left] for row in group)
    places = np.full((len(vectors), 2), np.nan)
    with one_thread("sklearn.cluster", "sklearn.decomposition"):
        places[shown] = _places(without_source(vectors[shown], np.array(sources)[shown]), seed)
    figure, dot = figure_of(9, 7.5), _dot(len(shown))
    axes = figure.subplots()
    axes.scatter(*places[left].T, s=dot, color=GREY, linewidths=0)
    for turn, rows in enumerate(bundles.values()):
        colour, middle = _COLOURS[turn % len(_COLOURS)], places[rows].mean(axis=0)
        is_wide = _spread(places, rows) > _APART
        for place in places[rows]:
            axes.plot(*zip(place, middle, strict=True), color=colour, linewidth=0.7, alpha=0.2 if is_wide else 0.8)
        axes.scatter(*places[rows].T, s=dot * 1.5, color=colour, linewidths=0)
    _name_bundles(axes, places, vectors, bundles, themes)
    bundled = sum(map(len, bundles.values()))
    title = f"{bundled:,} documents in {len(bundles):,} bundles (joined by lines), {len(left):,} left over (grey)"
    axes.set_title(title + (f"; a sample of {len(vectors):,}" if len(shown) < len(vectors) else ""), fontsize=11)
    how = "UMAP" if len(shown) >= FEWEST_FOR_UMAP else "main directions"
    axes.set(xticks=[], yticks=[], xlabel=f"near: alike in meaning ({how} of the vectors)")
    remove_frame(axes)
    return png_of(figure)


def bundle_sizes(bundling: Bundling) -> bytes:
    """Draw how many bundles have two, three and four documents, and how many documents are left over, by reason;
    returns a PNG.
    """
    figure = figure_of(8, 3.2)
    left, right = figure.subplots(1, 2)
    sizes, reasons = size_counts(bundling), Counter(leftover.reason for leftover in bundling.leftovers)
    bars(left, {f"{size} documents": count for size, count in sizes.items()}, GOOD)
    left.set_title(f"{len(bundling.bundles):,} bundles", fontsize=11)
    bars(right, {reason.replace("_", " "): count for reason, count in sorted(reasons.items())}, GREY)
    right.set_title(f"{len(bundling.leftovers):,} documents left over", fontsize=11)
    return png_of(figure)


def _sample(bundling: Bundling, seed: int) -> tuple[dict[int, Group], Group]:
    """Bundles by number, and leftovers: all, or about `MOST_DOCUMENTS` documents, bundles whole."""
    groups = [*map(list, bundling.bundles), *([leftover.index] for leftover in bundling.leftovers)]
    chosen, total = list[int](), 0
    for number in np.random.default_rng(seed).permutation(len(groups)).tolist():
        total += len(groups[number])
        if total > MOST_DOCUMENTS:
            break
        chosen.append(number)
    count = len(bundling.bundles)
    bundles = {number: groups[number] for number in sorted(chosen) if number < count}
    return bundles, [groups[number][0] for number in sorted(chosen) if number >= count]


def _places(vectors: np.ndarray, seed: int) -> np.ndarray:
    """(n, 2)."""
    if len(vectors) < FEWEST_FOR_UMAP:
        return _main_directions(vectors)
    return umap(vectors, dimensions=2, min_dist=0.2, seed=seed)


def _main_directions(vectors: np.ndarray) -> np.ndarray:
    """(n, 2): the first two principal components, each with its largest value positive."""
    places = np.zeros((len(vectors), 2))
    if len(vectors) < 2:
        return places
    scores, lengths, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    places[:, : min(2, len(lengths))] = (scores * lengths)[:, :2]
    largest = places[np.abs(places).argmax(axis=0), [0, 1]]
    return places * np.where(largest < 0, -1, 1)


def _name_bundles(
    axes: Axes, places: np.ndarray, vectors: np.ndarray, bundles: dict[int, Group], themes: Sequence[str]
) -> None:
    """Themes of the bundles that hold together best, on the map too, as far as there is room."""
    from matplotlib.patheffects import withStroke

    named: list[np.ndarray] = []
    for number in sorted(bundles, key=lambda number: (-cohesion(vectors[bundles[number]]), number)):
        rows = bundles[number]
        above = np.array([places[rows, 0].mean(), places[rows, 1].max()])
        side = _side(above[0], places[:, 0])
        middle = above + _extent(places) * (_ASIDE[side] * _APART, 0)
        is_free = all((abs(middle - other) / _extent(places) > (2 * _APART, _APART / 3)).any() for other in named)
        if len(named) < _LABELS and themes[number] and is_free and _spread(places, rows) < _APART:
            named.append(middle)
            text = axes.annotate(
                themes[number], tuple(above), (0, 5), textcoords="offset points", ha=side, fontsize=8, color=DARK
            )
            text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def _side(place: float, places: np.ndarray) -> _Side:
    """How a label stands to its place: near an edge of the map its middle would push it out of the figure."""
    share = (place - np.nanmin(places)) / max(float(np.nanmax(places) - np.nanmin(places)), 1e-12)
    return "left" if share < _APART else "right" if share > 1 - _APART else "center"


def _spread(places: np.ndarray, rows: Group) -> float:
    """Largest distance in one direction, as share of the map's."""
    return float((np.ptp(places[rows], axis=0) / _extent(places)).max())


def _extent(places: np.ndarray) -> np.ndarray:
    return np.nanmax(places, axis=0) - np.nanmin(places, axis=0)


def _dot(documents: int) -> float:
    """Area in square points."""
    return min(30.0, max(4.0, 900 / math.sqrt(max(documents, 1)) / 3))
