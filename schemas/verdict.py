"""What filters say, and where rejected rows go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A filter's answer about one row. Filters never drop; the pipeline does, and keeps the row in `rejected/`."""

    SCHEMA_VERSION: ClassVar[str] = "1.0"

    keep: bool
    reason: str
    """The filter's name, e.g. `answer_leaked`; the same whether the row is kept or not."""
    score: float
    """What was measured; its meaning stands in the filter's docstring."""
    detail: str = ""
    """One line for a person; empty when the row is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that a stage did not pass on: one row of `rejected/`."""

    SCHEMA_VERSION: ClassVar[str] = "1.0"

    uid: str
    """Of the rejected row; for an unreadable input row, `file:line`."""
    stage: str
    reason: str
    score: float
    detail: str
    payload: str
    """The row as it was, as JSON: rows of every stage and shape share this table, so no struct fits."""
    schema_version: str = SCHEMA_VERSION
