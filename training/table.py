"""Splits of a training set, as the trainers read them: whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TypeVar, get_args

from trailforge.schemas import InvalidInput, RlRow, SftRow
from trailforge.training.sets import Split, open_set
from trailforge.training.telling import tell
from trailforge.training.views.config import TextProtocol

Row = TypeVar("Row", SftRow, RlRow)


def rows_of(folder: Path, table: str, split: Split, record: type[Row]) -> list[Row]:
    """All rows of a split, in the order of learning. Raises as `open_set`, and `InvalidInput` when there are none."""
    rows = list(open_set(folder).rows(table, split, record))
    if not rows:
        raise InvalidInput(f"no rows in {table}/{split}", file=folder)
    return rows


def questions_of(folder: Path, split: Split, protocol: str) -> list[RlRow]:
    """The questions of a split that are asked in a protocol, in the order of learning; says how many others there are.

    A prompt tells the agent how to search and how to answer, so no other grammar may read what it writes and no other
    reward may pay it. Raises as `rows_of`, and `InvalidInput` when none is asked so.
    """
    rows = rows_of(folder, "rl", split, RlRow)
    asked = Counter(row.reward_model.ground_truth.protocol for row in rows)
    others = ", ".join(f"{name} {count:,}" for name, count in sorted(asked.items()) if name != protocol)
    if not asked[protocol]:
        mend = f"; `training-set --protocol {protocol}` asks them so" if protocol in get_args(TextProtocol) else ""
        raise InvalidInput(f"rl/{split} asks nothing in {protocol} ({others}){mend}", file=folder, field="protocol")
    if others:
        tell(f"rl/{split}: {asked[protocol]:,} questions are in {protocol}; others are left out ({others})")
    return [row for row in rows if row.reward_model.ground_truth.protocol == protocol]
