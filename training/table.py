"""Splits of a training set, as the trainers read them: whole."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from schemas import InvalidInput, RlRow, SftRow
from training.sets import Split, open_set

Row = TypeVar("Row", SftRow, RlRow)


def rows_of(folder: Path, table: str, split: Split, record: type[Row]) -> list[Row]:
    """All rows of a split, in the order of learning. Raises as `open_set`, and `InvalidInput` when there are none."""
    rows = list(open_set(folder).rows(table, split, record))
    if not rows:
        raise InvalidInput(f"no rows in {table}/{split}", file=folder)
    return rows
