"""Read tables (CSV, TSV, Parquet), and find which column holds which field: by a map that the user gives, else by the
usual names.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.rows.files import AS_UTF_8, InvalidRow, JsonRow, head_of
from trailforge.schemas import LONGEST_ROW, TOO_LONG, InvalidInput, read_limited

_DELIMITERS = ",;\t|"
_BATCH = 256
_LEAST_OF_LINE = 64
"""Bytes that a line of a record counts for at least: as objects, many short ones take more room than they say."""

Choose = Callable[[Sequence[str]], Sequence[str]]
"""A function that selects the wanted columns from those of a file. It may refuse them with `InvalidInput`."""
Unnamed = Callable[[Sequence[str]], Sequence[str] | None]
"""A function that gets the first record of a text table and returns the column names when that record is a row itself,
None when it is a header."""
Usual = Mapping[str, Sequence[str]]
"""Usual column names of each field, the best first, without capitals and marks: `pubdate` is also `pub_date` and
`pubDate`."""
COLUMNS = "--columns"
"""The command-line option that maps fields to columns."""
_MARKS = re.compile(r"[^a-z0-9]")


def csv_rows(
    file: io.BufferedReader[Any], path: Path, choose: Choose, unnamed: Unnamed, *, plain_tabs: bool = False
) -> Iterator[JsonRow | InvalidRow]:
    """Stream the records of a text table, whose cells are separated as in its first line: by commas, semicolons, tabs
    or bars. `choose` selects the wanted columns; `unnamed` returns the column names for a table whose first record is a
    row and no header, else None. `plain_tabs`: where it has tabs, these separate, a record is one line, and quotes are
    ordinary letters.

    A record with too few or too many cells, or that is not UTF-8, is an `InvalidRow`. Raises `InvalidInput` for a
    header that names a column twice, and for quotes after which records cannot be told apart.
    """
    csv.field_size_limit(LONGEST_ROW)  # of the whole process; the default of 128 KB is less than a long article
    head = head_of(file).partition(b"\n")[0].decode("utf-8", errors="replace")
    lines = _Lines(file)
    if plain_tabs and "\t" in head:
        reader = (line.rstrip("\r\n").split("\t") for line in lines)
    else:
        reader = csv.reader(lines, delimiter=max(_DELIMITERS, key=head.count), strict=True)
    try:
        first = next((cells for cells in reader if any(cells)), [])
        given = unnamed(first) if first else None
        names = [name.strip() for name in (first if given is None else given)]
        wanted = _wanted(names, path, choose) if names else set()
        row, raw = lines.take()
        if given is not None:
            yield _csv_row(first, names, wanted, path, row, raw)
        for cells in reader:
            row, raw = lines.take()
            if any(cell.strip() for cell in cells):
                yield _csv_row(cells, names, wanted, path, row, raw)
    except csv.Error as error:
        raise InvalidInput(f"the CSV is broken here ({error})", file=path, row=lines.take()[0]) from error


def parquet_rows(file: io.BufferedReader[Any], path: Path, choose: Choose) -> Iterator[JsonRow]:
    """Stream the rows of a Parquet file with the wanted columns, dates and times as ISO days.

    Raises `InvalidInput` for a file that is damaged, or that names a column twice; inside gzip also for a large one.
    """
    row = 0
    packed = isinstance(file.raw, gzip.GzipFile)  # which cannot be read from its end
    try:
        with pq.ParquetFile(io.BytesIO(read_limited(file, path)) if packed else path) as opened:
            columns = _wanted(opened.schema_arrow.names, path, choose)
            for batch in opened.iter_batches(_BATCH, columns=sorted(columns)):
                for values in _days(batch).to_pylist():
                    row += 1
                    fields = {name: _plain(value) for name, value in values.items()}
                    yield JsonRow(row=row, value=fields, text=json.dumps(fields, ensure_ascii=False, default=str))
    except (pa.ArrowException, OverflowError, ValueError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise InvalidInput(f"the Parquet file is damaged ({reason})", file=path, row=row + 1) from error


class _Lines:
    """Lines of a file, decoded; keeps those that were read since the last `take`, which together are no longer than a
    row may be. Raises `csv.Error` where they are."""

    def __init__(self, file: io.BufferedReader[Any]) -> None:
        self._file = file
        self._first, self._kept, self._room = 1, [], LONGEST_ROW

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._file.readline(self._room + 1)
        if not line:
            raise StopIteration
        if len(line) > self._room:
            raise csv.Error(TOO_LONG)
        self._room -= max(len(line), _LEAST_OF_LINE)
        if self._first == 1 and not self._kept:
            line = line.removeprefix(codecs.BOM_UTF8)
        self._kept.append(line)
        return line.decode("utf-8", errors="replace")

    def take(self) -> tuple[int, bytes]:
        """Number of the first of these lines, and all of them."""
        first, kept = self._first, self._kept
        self._first, self._kept, self._room = first + len(kept), [], LONGEST_ROW
        return first, b"".join(kept)


def _wanted(names: list[str], path: Path, choose: Choose) -> set[str]:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InvalidInput("two columns have this name; rename one of them", file=path, field=twice)
    try:
        return set(choose(names))
    except InvalidInput as error:
        raise InvalidInput(error.problem, file=path, field=error.field) from None


def _csv_row(
    cells: list[str], names: list[str], wanted: set[str], path: Path, row: int, raw: bytes
) -> JsonRow | InvalidRow:
    text, problem = raw.decode("utf-8", errors="replace").rstrip("\r\n"), ""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        problem = f"not UTF-8 text; {AS_UTF_8}"
    if len(cells) != len(names):
        problem = problem or f"{len(cells)} cells, but the header has {len(names)}"
    if problem:
        return InvalidRow(file=str(path), row=row, field=None, problem=problem, payload=text)
    fields = {name: cell for name, cell in zip(names, cells, strict=True) if name in wanted}
    return JsonRow(row=row, value=fields, text=text)


def _days(batch: pa.RecordBatch) -> pa.RecordBatch:
    """With the day in place of each time: nanoseconds and time zones have no counterpart in `datetime`."""
    for position, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type):
            day = batch.column(position).cast(pa.date32(), safe=False)
            batch = batch.set_column(position, field.name, day)
    return batch


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def parse_column_map(text: str, usual: Usual, nouns: str) -> dict[str, str]:
    """Parse `title=headline,text=body` to a map from fields to columns; `authors=` says that no column holds them.

    The keys of `usual` are the fields that exist; `nouns` is what has the fields, such as documents, for messages.
    Raises `InvalidInput` for an unknown field.
    """
    column_map: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        field, mark, column = (piece.strip() for piece in part.partition("="))
        if not mark or field in column_map:
            raise InvalidInput(f"expected FIELD=COLUMN, each field once; found {part!r}", field=COLUMNS)
        column_map[field] = column
    return check_column_map(column_map, usual, nouns)


def check_column_map(column_map: Mapping[str, str], usual: Usual, nouns: str) -> dict[str, str]:
    """Return the map from fields to columns if all its fields are among the keys of `usual`. Raises `InvalidInput`
    otherwise; `nouns` is what has the fields, for the message.
    """
    unknown = next((field for field in column_map if field not in usual), None)
    if unknown is not None:
        raise InvalidInput(f"no field {unknown!r}; {nouns} have {', '.join(usual)}", field=COLUMNS)
    return dict(column_map)


@lru_cache(maxsize=4096)
def bare_name(name: str) -> str:
    """Return a column's name without capitals and marks."""
    return _MARKS.sub("", name.lower())


def find_columns(
    names: Sequence[str],
    usual: Usual,
    column_map: Mapping[str, str],
    *,
    needed: Iterable[str],
    is_row: bool = False,
    form: str = "",
    option: str = COLUMNS,
) -> dict[str, str]:
    """Return the column of each field that has one among these names, which are a table's or, with `is_row`, a row's
    own. `usual` has the usual column names of each field, `column_map` what the user says; of the `needed` fields none
    may be missing.

    `form` ends the message about a missing column; `option` says which option of which command names columns, where
    that is another command than the one that reads. Raises `InvalidInput` when a needed column is missing, and for a
    table also when one that the map names is.
    """
    known = {bare_name(name): name for name in reversed(names)}
    found: dict[str, str] = {}
    for field, usual_names in usual.items():
        if field in column_map:
            column = column_map[field]
            if not column and field in needed:
                raise InvalidInput(f"the {field} is needed, and {COLUMNS} gives it no column{form}", field=field)
            if column and column not in names:
                if is_row and field not in needed:
                    continue
                raise InvalidInput(f"no such column for the {field}; there are {_listed(names)}", field=column)
        else:
            column = next((known[name] for name in usual_names if name in known), "")
            if not column and field in needed:
                problem = f"no column for the {field}; there are {_listed(names)}"
                raise InvalidInput(f"{problem}. Say which: {option} {field}=COLUMN{form}", field=field)
        if column:
            found[field] = column
    return found


def check_met(column_map: Mapping[str, str], met: Iterable[str], path: Path) -> None:
    """Raise `InvalidInput` for a column of the map that no row of a file, or of all files of a folder, has."""
    met = set(met)
    if missed := set(filter(None, column_map.values())).difference(met):
        there = _listed(sorted(met))
        raise InvalidInput(
            f"no row has this column, which {COLUMNS} names; there are {there}. One {COLUMNS} holds for all files of a "
            "run",
            file=path,
            field=min(missed),
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "") if names else "none"
