"""What a data set shows, and how a row of any of its tables is described."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from trailforge.pipelines.runs.finished import OpenRun
from trailforge.pipelines.show.common import values
from trailforge.pipelines.show.parts import Note, Parts, Show, ShownTable, Span
from trailforge.schemas import InvalidInput, RejectedRow, from_dict, to_dict


def show_of(dataset: str) -> Show:
    """What a data set shows of itself. Raises `InvalidInput` for one that this trailforge does not know."""
    module = f"trailforge.generators.{dataset}.show"
    if not dataset.isidentifier() or find_spec(f"trailforge.generators.{dataset}") is None:
        raise InvalidInput(f"a run of {dataset!r}, which this trailforge cannot show")
    return import_module(module).SHOW


def describe(run: OpenRun, show: Show, table: str, number: int) -> Parts:
    """A row of a table as parts; of a table that its data set does not declare, field by field."""
    record = run.record(table, number)
    if isinstance(record, RejectedRow):
        return _rejected(run, show, record)
    known = show.table(table)
    if known is None or not isinstance(record, known.record):
        return [values(to_dict(record))]
    return known.describe(run, record)


def _rejected(run: OpenRun, show: Show, row: RejectedRow) -> Parts:
    """What a filter measured of a row, and the row as it was."""
    verdict = (f"{row.stage}: ", Span(row.reason, "strong"), f" (score {row.score:g}) {row.detail}")
    return [Note(verdict, "wrong"), *_payload(run, show, row)]


def _payload(run: OpenRun, show: Show, row: RejectedRow) -> Parts:
    """The row by its record, or as plain values where it is none that we know: an input that could not be read."""
    try:
        content: Any = json.loads(row.payload)
    except ValueError:
        return [values({"row": row.payload})]
    if not isinstance(content, dict):
        return [values({"row": content})]
    found = _revive(show, content)
    return [values(content)] if found is None else found[0].describe(run, found[1])


def _revive(show: Show, content: dict[str, Any]) -> tuple[ShownTable, Any] | None:
    for table in show.tables:
        try:
            return table, from_dict(table.record, content)
        except InvalidInput:
            continue
    return None
