"""Reads what the views show from a run's Parquet files, a row group at a time. A run need not be finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import get_args

from trailforge.schemas import (
    BundleInput,
    BundleQuestion,
    BundleQuestionType,
    InvalidInput,
    KgQuestion,
    KgShape,
    KgTrajectory,
    SearchTree,
    Trajectory,
    parse_json,
    read_rows,
)
from trailforge.schemas.rollout import Origin

_TYPES = get_args(BundleQuestionType)
_SHAPES = get_args(KgShape)
_ORIGINS = get_args(Origin)
_KINDS = ("correct", "retrieval", "reasoning", "decomposition")


def trajectories(folder: Path) -> Iterator[Trajectory]:
    """All trajectories, in the order of the shards."""
    return iter(read_rows(_parts(folder, "mcts_trajectories"), Trajectory))


def trees(folder: Path) -> Iterator[SearchTree]:
    """All search trees, in the order of the shards."""
    return iter(read_rows(_parts(folder, "trees"), SearchTree))


def example(folder: Path) -> Trajectory | None:
    """A reflective trajectory to show, else a correct one; None when there is none."""
    first = None
    for row in trajectories(folder):
        first = first or row
        if row.kind == "reflective":
            return row
    return first


def find_trajectories(folder: Path, id: str | None, kind: str | None, count: int) -> list[Trajectory]:
    """The first `count` that match. Raises `InvalidInput` when none does."""
    if kind is not None and kind not in _KINDS:
        raise InvalidInput(f"no kind {kind!r}; there are {', '.join(_KINDS)}", field="kind")
    _check(folder)
    matching = (
        row
        for row in trajectories(folder)
        if (id is None or id in (row.uid, row.question_id))
        and (kind is None or kind == (row.reflection_error or row.kind))
    )
    return _some(list(islice(matching, count)), folder, "trajectory", id or kind)


def find_trees(folder: Path, id: str | None, count: int) -> list[SearchTree]:
    """The first `count` that match; `id` is a question's or a trajectory's. Raises `InvalidInput` when none does."""
    _check(folder)
    wanted = {id} | {row.question_id for row in trajectories(folder) if id is not None and row.uid == id}
    matching = (tree for tree in trees(folder) if id is None or tree.question_id in wanted)
    return _some(list(islice(matching, count)), folder, "tree", id)


def dataset_of(folder: Path) -> str:
    """What kind of run the folder holds. Raises `InvalidInput` when it holds none."""
    _check(folder)
    try:
        content = parse_json((folder / "run.json").read_bytes())
    except ValueError as error:
        raise InvalidInput(f"not JSON ({error})", file=folder / "run.json") from error
    dataset = content.get("dataset") if isinstance(content, dict) else None
    if not isinstance(dataset, str):
        raise InvalidInput("names no data set", file=folder / "run.json", field="dataset")
    return dataset


def question_types(folder: Path) -> Counter[str]:
    """Bundle questions by type."""
    return Counter(row.type for row in read_rows(_parts(folder, "bundle_questions"), BundleQuestion))


def find_questions(folder: Path, id: str | None, type: str | None, count: int) -> list[BundleQuestion]:
    """The first `count` that match; `id` is a question's or a bundle's. Raises `InvalidInput` when none does."""
    if type is not None and type not in _TYPES:
        raise InvalidInput(f"no type {type!r}; there are {', '.join(_TYPES)}", field="kind")
    _check(folder)
    matching = (
        row
        for row in read_rows(_parts(folder, "bundle_questions"), BundleQuestion)
        if (id is None or id in (row.uid, row.bundle_id)) and type in (None, row.type)
    )
    return _some(list(islice(matching, count)), folder, "question", id or type)


def find_bundles(folder: Path, id: str | None, count: int) -> list[BundleInput]:
    """The first `count` that match; `id` is a bundle's or a document's. Raises `InvalidInput` when none does."""
    _check(folder)
    matching = (
        item
        for item in read_rows(_parts(folder, "bundle_inputs"), BundleInput)
        if id is None or id == item.id or id in item.bundle.document_ids
    )
    return _some(list(islice(matching, count)), folder, "bundle", id)


def episode_origins(folder: Path) -> Counter[str]:
    """KG trajectories by who led them."""
    return Counter(row.origin for row in read_rows(_parts(folder, "kg_trajectories"), KgTrajectory))


def find_episodes(folder: Path, id: str | None, origin: str | None, count: int) -> list[KgTrajectory]:
    """The first `count` that match; `id` is an episode's or a question's. Raises `InvalidInput` when none does."""
    if origin is not None and origin not in _ORIGINS:
        raise InvalidInput(f"no origin {origin!r}; there are {', '.join(_ORIGINS)}", field="kind")
    _check(folder)
    matching = (
        row
        for row in read_rows(_parts(folder, "kg_trajectories"), KgTrajectory)
        if (id is None or id in (row.uid, row.question_id)) and origin in (None, row.origin)
    )
    return _some(list(islice(matching, count)), folder, "episode", id or origin)


def question_shapes(folder: Path) -> Counter[str]:
    """Questions made of a graph by shape."""
    return Counter(row.shape for row in read_rows(_parts(folder, "kg_questions"), KgQuestion))


def find_kg_questions(folder: Path, id: str | None, shape: str | None, count: int) -> list[KgQuestion]:
    """The first `count` that match; `id` is a question's or an entity's. Raises `InvalidInput` when none does."""
    if shape is not None and shape not in _SHAPES:
        raise InvalidInput(f"no shape {shape!r}; there are {', '.join(_SHAPES)}", field="kind")
    _check(folder)
    matching = (
        row
        for row in read_rows(_parts(folder, "kg_questions"), KgQuestion)
        if (id is None or id in (row.uid, *row.entities)) and shape in (None, row.shape)
    )
    return _some(list(islice(matching, count)), folder, "question", id or shape)


def _parts(folder: Path, table: str) -> list[Path]:
    return sorted((folder / table).glob("part-*.parquet"))


def _check(folder: Path) -> None:
    if not folder.is_dir():
        raise InvalidInput("no such run folder", file=folder)
    if not (folder / "run.json").is_file():
        raise InvalidInput("not a run folder (no run.json)", file=folder)


def _some(found: list, folder: Path, what: str, asked: str | None) -> list:
    if not found:
        raise InvalidInput(f"no {what} {asked or ''} in this run".replace("  ", " "), file=folder)
    return found
