"""An order from easy to hard (R-Search, 4.1: by sources and reasoning steps)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trailforge.schemas import BundleQuestion


def in_order(rows: Sequence[BundleQuestion], stages: int) -> list[BundleQuestion]:
    """The rows by complexity, the easy ones first, each with its stage: 1 to `stages`, as equal in size as they can be.

    Rows of the same complexity are in one stage, the earlier: of two that are as hard none is to be learnt before.
    """
    ordered = sorted(rows, key=lambda row: (row.complexity, row.uid))
    stage_of: dict[float, int] = {}
    for position, row in enumerate(ordered):
        stage_of.setdefault(row.complexity, 1 + position * stages // len(ordered))
    return [replace(row, curriculum_stage=stage_of[row.complexity]) for row in ordered]
