"""Tables of a training set, as the trainers read them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from schemas import InvalidInput, read_rows

Row = TypeVar("Row")


def read_set(
    training_set: Path, stage: Literal["sft", "rl"], part: Literal["train", "validation"], record: type[Row]
) -> list[Row]:
    """All rows of one part. Raises `InvalidInput` when there are none, or when a file holds something else."""
    folder = training_set / stage / part
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise InvalidInput("holds no Parquet files; expected a training set's folder", file=folder)
    rows = list(read_rows(files, record))
    if not rows:
        raise InvalidInput("holds no rows", file=folder)
    return rows
