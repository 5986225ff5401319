"""Finds rows of a run for the terminal: by id in any table, by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from trailforge.inspector.showing import kinds_of, product_of, show_of
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.pipelines.show.parts import ShownTable
from trailforge.schemas import InvalidInput

_REJECTED = ShownTable(name="rejected", title="Rejected rows", describe=lambda run, row: (), kinds=("reason",))
"""Every data set has them; `showing.describe` knows how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of one table."""

    table: str
    numbers: tuple[int, ...]
    elsewhere: tuple[str, ...] = ()
    """Other tables that hold rows of the id."""


def find_rows(run: OpenRun, *, table: str = "", id: str | None = None, kind: str | None = None, count: int = 1) -> Rows:
    """The first `count` rows that match: of a table, else of the first one in which any does.

    `id` is a row's own or that of what it belongs to: a question, a bundle. Raises `InvalidInput` when no row matches.
    """
    tables = _tables(run, table)
    if kind is not None:
        tables = [_checked(run, tables, kind)]
    elif id is None and not table:
        tables = tables[:1]
    found = {each.name: tuple(islice(_matching(run, each, id, kind), count)) for each in tables}
    having = [name for name, numbers in found.items() if numbers]
    if not having:
        what = f"no row {id}" if id else f"no row of kind {kind}" if kind else "no row"
        raise InvalidInput(f"{what} in {', '.join(found)}", file=run.folder)
    return Rows(table=having[0], numbers=found[having[0]], elsewhere=tuple(having[1:]))


def count_kinds(run: OpenRun) -> Counter[str]:
    """Rows of the table that the run is for, by kind; kinds without rows too."""
    table = show_of(run.dataset).table(product_of(run.dataset))
    counts: Counter[str] = Counter()
    if table is None:
        return counts
    counts.update(dict.fromkeys(table.values, 0))
    if table.name in run.tables:
        counts.update(each for each in _kinds(run, table) if each is not None)
    return counts


def _tables(run: OpenRun, wanted: str) -> list[ShownTable]:
    """Those that rows can be found in: what the run is for, the others, what was rejected."""
    shown = show_of(run.dataset)
    product = shown.table(product_of(run.dataset))
    known = {table.name: table for table in (product, *shown.tables, _REJECTED) if table is not None}
    if wanted and wanted not in known:
        raise InvalidInput(f"no table {wanted!r}; there are {', '.join(known)}", field="table")
    tables = [table for table in known.values() if table.name in run.tables and wanted in ("", table.name)]
    if not tables:
        raise InvalidInput(f"no row {'in ' + wanted if wanted else 'yet'}", file=run.folder)
    return tables


def _checked(run: OpenRun, tables: list[ShownTable], kind: str) -> ShownTable:
    """The first table, by whose kinds rows are chosen."""
    table = tables[0]
    if not kinds_of(run.dataset, table):
        raise InvalidInput(f"rows of {table.name} are of no kinds; leave it out", field="kind")
    if table.values and kind not in table.values:
        raise InvalidInput(f"no kind {kind!r}; there are {', '.join(table.values)}", field="kind")
    return table


def _matching(run: OpenRun, table: ShownTable, id: str | None, kind: str | None) -> Iterator[int]:
    """Numbers of rows, ascending."""
    numbers: Any = range(run.size(table.name))
    if id is not None:
        numbers = _having(run, table, id)
        if not numbers and (question := _find_question(run, id)):
            numbers = _having(run, table, question)
    if kind is None:
        return iter(numbers)
    kinds = _kinds(run, table)
    return (number for number in numbers if kinds[number] == kind)


def _having(run: OpenRun, table: ShownTable, id: str) -> list[int]:
    known = run.table(table.name).schema.names
    by_key = (run.matching(table.name, key, id) for key in table.keys if key in known)
    return sorted({number for found in by_key for number in found})


def _find_question(run: OpenRun, uid: str) -> str:
    """What a row of the product was made for: its search tree has that id alone."""
    product = product_of(run.dataset)
    number = run.find(product, uid)
    return "" if number is None else run.row(product, number).get("question_id", "")


def _kinds(run: OpenRun, table: ShownTable) -> list[str | None]:
    """Of each row the first of its kinds' columns that is not null."""
    columns = run.table(table.name).select(kinds_of(run.dataset, table)).columns
    return [
        next(filter(None, values), None) for values in zip(*(column.to_pylist() for column in columns), strict=True)
    ]
