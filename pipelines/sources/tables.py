"""CSV and Parquet files to rows, each an object by the names of its columns."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.pipelines.sources.rows import InvalidRow, JsonRow
from trailforge.schemas import InvalidInput
from trailforge.schemas.files import LONGEST_ROW, TOO_LONG

_DELIMITERS = ",;\t"
_HEAD = 4096
_BATCH = 256
_LEAST_OF_LINE = 64
"""Bytes that a line of a record counts for at least: as objects, many short ones take more room than they say."""

Choose = Callable[[Sequence[str]], Sequence[str]]
"""The columns that are wanted of those that a file has. May refuse them with `InvalidInput`."""


def csv_rows(file: io.BufferedReader[Any], path: Path, choose: Choose) -> Iterator[JsonRow | InvalidRow]:
    """The records of a CSV file with a header, whose cells are parted by commas, semicolons or tabs, as in the header.

    A record with too few or too many cells, or that is not UTF-8, is an `InvalidRow`. Raises
    `InvalidInput` for a header that names a column twice, and for quotes after which records cannot be told apart.
    """
    csv.field_size_limit(LONGEST_ROW)  # of the whole process; the default of 128 KB is less than a long article
    lines = _Lines(file)
    reader = csv.reader(lines, delimiter=_delimiter(file.peek(_HEAD)), strict=True)
    try:
        names = [name.strip() for name in next(reader, [])]
        wanted = _wanted(names, path, choose) if names else set()
        lines.take()
        for cells in reader:
            row, raw = lines.take()
            if any(cell.strip() for cell in cells):
                yield _csv_row(cells, names, wanted, path, row, raw)
    except csv.Error as error:
        raise InvalidInput(f"the CSV is broken here ({error})", file=path, row=lines.take()[0]) from error


def parquet_rows(path: Path, choose: Choose) -> Iterator[JsonRow]:
    """The rows of a Parquet file with the wanted columns, dates and times as ISO days.

    Raises `InvalidInput` for a file that is damaged, or that names a column twice.
    """
    row = 0
    try:
        with pq.ParquetFile(path) as file:
            columns = _wanted(file.schema_arrow.names, path, choose)
            for batch in file.iter_batches(_BATCH, columns=sorted(columns)):
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


def _delimiter(head: bytes) -> str:
    line = head.partition(b"\n")[0].decode("utf-8", errors="replace")
    return max(_DELIMITERS, key=line.count)


def _wanted(names: list[str], path: Path, choose: Choose) -> set[str]:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InvalidInput("two columns have this name", file=path, field=twice)
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
        problem = "not UTF-8 text"
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
