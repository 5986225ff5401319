"""What a data set shows, and how a row of any of its tables is described."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from trailforge.pipelines.dataset import INPUTS, DataSet, resolve
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.pipelines.show.common import values
from trailforge.pipelines.show.parts import Note, Parts, Show, ShownTable, StyledText
from trailforge.schemas import InvalidInput, RejectedRow, from_dict, to_dict

_PLAIN = ("str", "int", "float", "bool")
_MOST_COLUMNS = 6


@cache
def show_of(dataset: str) -> Show:
    """What a data set shows of itself; its tables field by field where it declares nothing.

    Raises `InvalidInput` for one that is not installed.
    """
    declared = load_dataset(dataset)
    return resolve(declared.show) if declared.show else _plain_show(declared)


def _plain_show(declared: DataSet) -> Show:
    tables = [
        ShownTable(
            name=name, title=name.replace("_", " "), columns=_columns(table.record),
            describe=lambda run, record: [values(to_dict(record))],
        )
        for name, table in declared.tables.items()
        if table.record is not RejectedRow
    ]  # fmt: skip
    return Show(path="rows", title="Rows", icon=":material/table_rows:", tables=tables)


def _columns(record: Any) -> Sequence[str]:
    return [field.name for field in fields(record) if field.type in _PLAIN][:_MOST_COLUMNS]


def product_of(dataset: str) -> str:
    """The table that runs of a data set are for."""
    return load_dataset(dataset).rows


def kinds_of(dataset: str, table: ShownTable) -> Sequence[str]:
    """Columns of which the first that is not null is a row's kind."""
    declared = load_dataset(dataset).tables.get(table.name)
    return table.kinds or (declared.kind if declared else ())


def describe(run: OpenRun, table: str, number: int) -> Parts:
    """A row of a table as parts; of a table that its data set does not show, field by field."""
    record = run.record(table, number)
    if isinstance(record, RejectedRow):
        return _rejected(run, record)
    known = show_of(run.dataset).table(table)
    return [values(to_dict(record))] if known is None else known.describe(run, record)


def _rejected(run: OpenRun, row: RejectedRow) -> Parts:
    """What a filter measured of a row, and the row as it was."""
    verdict = (f"{row.stage}: ", StyledText(row.reason, "strong"), f" (score {row.score:g}) {row.detail}")
    return [Note(verdict, "wrong"), *_payload(run, row)]


def _payload(run: OpenRun, row: RejectedRow) -> Parts:
    """The row by its record, or as plain values where it is none that we know: an input that could not be read."""
    try:
        content: Any = json.loads(row.payload)
    except ValueError:
        return [values({"row": row.payload})]
    if not isinstance(content, dict):
        return [values({"row": content})]
    declared = load_dataset(run.dataset)
    records = {**declared.records, INPUTS: declared.inputs.record}
    for table in show_of(run.dataset).tables:
        try:
            return table.describe(run, from_dict(records[table.name], content))
        except InvalidInput:
            continue
    return [values(content)]
