"""Find the tables that a data set shows and the rows that are asked for, and describe any row for display."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from trailforge.pipelines import INPUTS, DataSet, load_dataset, resolve
from trailforge.pipelines.runs import OpenRun, read_settings
from trailforge.pipelines.search import all_rows
from trailforge.pipelines.show import Note, Parts, Show, ShownTable, StyledText
from trailforge.pipelines.show.common import values
from trailforge.schemas import InvalidInput, RejectedRow, from_payload, to_dict, visible

_PLAIN = ("str", "int", "float", "bool")
_MOST_COLUMNS = 6
_LONGEST_CELL = 160


@cache
def show_of(dataset: str) -> Show:
    """Return the tables and views that a data set declares; its tables field by field where it declares none. Raises
    `InvalidInput` for a data set that is not installed.
    """
    declared = load_dataset(dataset)
    return resolve(declared.show) if declared.show else _plain_show(declared)


def wanted_by(folder: Path) -> tuple[str, ...]:
    """Name the modules that the views of a folder's run import when they are first shown, the slowest first: what reads
    its tables and what its data set shows. Those of a folder without a run are few."""
    settings = read_settings(folder)
    declared = load_dataset(settings.dataset).show if settings else ""
    return ("pandas", *([declared.partition(":")[0]] if declared else []))


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
    """Return the name of the main table of a data set's runs."""
    return load_dataset(dataset).rows


def kinds_of(dataset: str, table: ShownTable) -> Sequence[str]:
    """Return the columns that may hold the kind of a table's rows, by which a person filters (a shape, a reason): for
    each row the first that is not null counts."""
    declared = load_dataset(dataset).tables.get(table.name)
    return table.kinds or (declared.kind if declared else ())


def more_of(run: OpenRun, table: ShownTable) -> Mapping[str, Sequence[Any]]:
    """Return by name the values of columns that a table's list shows but the table does not store."""
    return run.once(("more", table.name), partial(table.more, run)) if table.more else {}


def describe(run: OpenRun, table: str, number: int, *, is_brief: bool = False) -> Parts:
    """Describe a row of a table for display, field by field where its data set has no view of it. `is_brief` describes
    it in a few lines where the data set can.
    """
    record = run.record(table, number)
    if isinstance(record, RejectedRow):
        return _rejected(run, record)
    known = show_of(run.dataset).table(table)
    if known is None:
        return [values(to_dict(record))]
    return (known.brief if is_brief and known.brief else known.describe)(run, record)


def _rejected(run: OpenRun, row: RejectedRow) -> Parts:
    """What a filter measured of a row, and the row as it was."""
    verdict = (f"{row.stage}: ", StyledText(row.reason, "strong"), f" (score {row.score:g}) {row.detail}")
    return [Note(verdict, "wrong"), *_payload(run, row)]


def _payload(run: OpenRun, row: RejectedRow) -> Parts:
    """The row by its record, or as plain values where it is none that we know: an input that could not be read, or the
    work on one of which no row came."""
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
            return table.describe(run, from_payload(records[table.name], content))
        except InvalidInput:
            continue
    return [*_item(run, row.uid), values(content)]


def _item(run: OpenRun, uid: str) -> Parts:
    """What was worked on where no row came of it, most told first: by a table that keeps the work, such as the search
    trees, or as it was read (a question, a path)."""
    for table in show_of(run.dataset).tables:
        if "uid" not in table.keys and (number := run.find(table.name, uid, table.keys[0])) is not None:
            return table.describe(run, run.record(table.name, number))
    return []


_REJECTED = ShownTable(name="rejected", title="Rejected rows", describe=lambda run, row: (), kinds=("reason",))
"""Every data set has them; `showing.describe` knows how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of one table that a search found, by row number."""

    table: str
    numbers: tuple[int, ...]
    elsewhere: tuple[str, ...] = ()
    """Names of other tables that hold rows with the id."""


def find_rows(
    run: OpenRun, *, table: str = "", id: str | None = None, kind: str | None = None, search: str = "",
    lowest: str = "", count: int = 1,
) -> Rows:  # fmt: skip
    """Return the first `count` rows that match, in a table or else in the first table in which any does.

    `id` is a row's own or that of its question or bundle, in any table; without one, the main table is searched and
    ordered. `search` is read by `pipelines.search`. `lowest` is a number of the rows, such as `reward.total`, by which
    they are ordered; rows without it are left out. Raises `InvalidInput` when no row matches, for a number that no
    table has, and for a search that cannot be read.
    """
    if id is not None:
        id = id.encode("utf-8", "backslashreplace").decode("utf-8")  # bytes that are no text are in no row
    tables = _tables(run, table)
    if kind is not None:
        tables = [_checked(run, tables, kind)]
    elif id is None and (lowest or search or not table):
        tables = tables[:1]
    found: dict[str, tuple[int, ...]] = {}
    unread: list[InvalidInput] = []
    for each in tables:
        try:
            found[each.name] = tuple(islice(_matching(run, each, id, kind, search, lowest), count))
        except InvalidInput as error:  # it has no such field, which another table may have
            unread.append(error)
    if not found:
        raise unread[0]
    having = [name for name, numbers in found.items() if numbers]
    if not having:
        what = f"no row {id}" if id else f"no row of kind {kind}" if kind else "no row"
        what += f" with {search}" if search else ""
        raise InvalidInput(f"{what} in {', '.join(found)}", file=run.folder)
    return Rows(table=having[0], numbers=found[having[0]], elsewhere=tuple(having[1:]))


def count_kinds(run: OpenRun) -> Counter[str]:
    """Count the rows of the main table by kind; kinds without rows are there with 0."""
    table = show_of(run.dataset).table(product_of(run.dataset))
    counts: Counter[str] = Counter()
    if table is None:
        return counts
    counts.update(dict.fromkeys(table.values, 0))
    if table.name in run.tables:
        counts.update(each for each in _kinds(run, table) if each is not None)
    return counts


def hints_of(run: OpenRun) -> list[str]:
    """Return options of `trailforge show` that find rows in a run, as its data set suggests them. For a run without
    rows, those for other tables that have some, and for rejected rows.
    """
    if not run.size(product_of(run.dataset)):
        others = [hint for hint in show_of(run.dataset).hints if _table_in(hint) and run.size(_table_in(hint))]
        return others + [f"--table {_REJECTED.name}"] * bool(run.size(_REJECTED.name))
    known = count_kinds(run)
    hinted = ((hint, hint.partition("--kind ")[2].split()[:1]) for hint in show_of(run.dataset).hints)
    return [hint for hint, kinds in hinted if all(known[kind] for kind in kinds)]


def _table_in(hint: str) -> str:
    return (hint.partition("--table ")[2].split() or [""])[0]


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


def _matching(
    run: OpenRun, table: ShownTable, id: str | None, kind: str | None, search: str, lowest: str
) -> Iterator[int]:
    numbers: Any = ordered(run, table, lowest) if lowest else range(run.size(table.name))
    if search:
        found = all_rows(run, table.name, search)  # in the order of likeness where that is what is searched for
        searched = set(found)
        numbers = [number for number in numbers if number in searched] if lowest else found
    if id is not None:
        having = _having(run, table, id)
        if not having and (question := _find_question(run, id)):
            having = _having(run, table, question)
        numbers = [number for number in numbers if number in having] if lowest or search else having
    if kind is None:
        return iter(numbers)
    kinds = _kinds(run, table)
    return (number for number in numbers if kinds[number] == kind)


def _having(run: OpenRun, table: ShownTable, id: str) -> list[int]:
    known = run.table(table.name).schema.names
    by_key = (run.table(table.name).matching(key, id) for key in table.keys if key in known)
    return sorted({number for found in by_key for number in found})


def _find_question(run: OpenRun, uid: str) -> str:
    """What a row of the product was made for: its search tree has that id alone."""
    product = product_of(run.dataset)
    number = run.find(product, uid)
    return "" if number is None else run.row(product, number).get("question_id", "")


def _kinds(run: OpenRun, table: ShownTable) -> list[str | None]:
    """Of each row the first of its kinds' columns that is not null."""
    names, more = kinds_of(run.dataset, table), more_of(run, table)
    stored = [name for name in names if name not in more]
    known = dict(more) | run.table(table.name).select(stored).to_pydict() if stored else more
    return [next(filter(None, values), None) for values in zip(*(known[name] for name in names), strict=True)]


def ordered(run: OpenRun, table: ShownTable, column: str, *, is_descending: bool = False) -> list[int]:
    """Return the numbers of a table's rows sorted by a column, ascending or descending; rows without a value are left
    out. Raises `InvalidInput` for a column that is neither one of numbers nor one that only the list has.
    """

    def order() -> list[int]:
        more = more_of(run, table)
        if column in more:
            known = {row: value for row, value in enumerate(more[column]) if value is not None}
            return sorted(known, key=known.__getitem__, reverse=is_descending)
        values = run.table(table.name).values(column)
        rows = np.argsort(-values if is_descending else values, kind="stable")
        return rows[: len(rows) - np.count_nonzero(np.isnan(values))].tolist()

    return run.once(("ordered", table.name, column, str(is_descending)), order)


def title_of(path: str) -> str:
    """Return a column's title in a list: `final answer` of `reward.final_answer`, but `reward` of `reward.total`."""
    whole, _, part = path.rpartition(".")
    return (whole if part == "total" else part).replace("_", " ")


def cells(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return the cells of the list, line by line. In columns of numbers a missing value stays empty, where a table
    would show "None".
    """
    lines = [{column: _cell(row, column) for column in columns} for row in rows]
    for column in columns:
        if not any(isinstance(line[column], int | float) for line in lines):
            lines = [line | {column: "" if line[column] is None else line[column]} for line in lines]
    return lines


def _cell(row: dict[str, Any], path: str) -> Any:
    """What the list shows of a row: text in one line, cut; numbers as they are."""
    value: Any = row
    for step in path.split("."):
        value = None if value is None else value.get(step)
    if isinstance(value, str):
        return visible(" ".join(value.split())[:_LONGEST_CELL])
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return round(value, 3) if isinstance(value, float) else value
