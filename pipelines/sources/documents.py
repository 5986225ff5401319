"""Files of documents, told apart by content, read into `schemas.SourceDocument`.

JSON Lines, JSON lists, CSV, Parquet, RSS 2.0 and Atom; all but Parquet also in gzip. Rows of archives are known by
their fields; of all others the columns are found by a map or their names.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.pipelines.sources.columns import (
    ARCHIVES,
    EACH,
    FileLabels,
    check_column_map,
    columns_of,
    read_row,
    with_full_id,
)
from trailforge.pipelines.sources.fields import Fields
from trailforge.pipelines.sources.rows import InvalidRow, JsonRow, check_text, json_rows, open_file
from trailforge.retrieval.web.feeds import FeedEntry, feed_rows
from trailforge.schemas import InvalidInput, SourceDocument, SourceKind
from trailforge.schemas.files import LONGEST_ROW, TOO_LONG

_HEAD = 4096
_PARQUET = b"PAR1"
_EXPECTED = "JSON, CSV, RSS, Atom or Parquet"


_KNOWN_COLUMNS = frozenset[str]().union(*(archive.columns for archive in ARCHIVES))


def read_documents(
    paths: Iterable[Path],
    *,
    column_map: Mapping[str, str] | None = None,
    source: str | None = None,
    kind: SourceKind | None = None,
    labels: Mapping[str, FileLabels] | None = None,
    seen: set[str] | None = None,
) -> Iterator[SourceDocument | InvalidRow]:
    """The documents of all files in their order, and the rows that are none.

    `column_map` says which column holds which field (`parse_column_map`), and that the rows are of no known source;
    entries of feeds have no columns. `source` and `kind` replace what the rows say, and `labels`, by path, both of one
    file, whose source may be `EACH`. Without them, `source` is that of the row, the feed's site or the file's name, and
    `kind` is news where the row has a publisher and a date, else general. Two documents never have the same id: the
    second is an invalid row; `seen`: ids that were given before, which those of these documents join.
    Raises `InvalidInput` for a file that is missing, cannot be read to its end, or lacks a column.
    """
    common, seen = check_column_map(column_map or {}), set[str]() if seen is None else seen
    for path in paths:
        own = (labels or {}).get(str(path), FileLabels())
        is_each = own.source == EACH
        name = source if is_each else own.source or source
        yield from _Reading(common, name, own.kind or kind, is_each, seen).documents(path)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was asked for, and the ids that were given."""

    column_map: dict[str, str]
    source: str | None
    kind: SourceKind | None
    is_each: bool
    """Whether each document is a source by itself."""
    seen: set[str]

    def documents(self, path: Path) -> Iterator[SourceDocument | InvalidRow]:
        """The documents of one file."""
        with open_file(path, _EXPECTED) as file:
            head = file.peek(_HEAD)[:_HEAD].removeprefix(codecs.BOM_UTF8).lstrip()
            if head.startswith(b"<"):
                yield from self._entries(feed_rows(file, path), path)
            elif head.startswith((b"{", b"[")):
                yield from self._objects(json_rows(file, path), path)
            elif head.startswith(_PARQUET):
                if isinstance(file.raw, gzip.GzipFile):
                    raise InvalidInput("a Parquet file inside gzip; unpack it first", file=path)
                yield from self._objects(parquet_rows(path, self._choose), path)
            elif head:
                check_text(head)
                yield from self._objects(csv_rows(file, path, self._choose), path)

    def _entries(self, entries: Iterator[FeedEntry], path: Path) -> Iterator[SourceDocument | InvalidRow]:
        """Of a feed, whose fields have names of their own."""
        for entry in entries:
            yield self._document(JsonRow(row=entry.row, value=entry.value, text=entry.text), {}, path)

    def _objects(self, rows: Iterator[JsonRow | InvalidRow], path: Path) -> Iterator[SourceDocument | InvalidRow]:
        """Raises `InvalidInput` at the end when there were rows, and none had a column that the map names."""
        mapped = set(filter(None, self.column_map.values()))
        met: set[str] | None = None
        for row in rows:
            if isinstance(row, JsonRow) and isinstance(row.value, dict):
                met = (met or set()) | (mapped & row.value.keys())
            yield self._document(row, self.column_map, path) if isinstance(row, JsonRow) else row
        missed = mapped - met if met is not None else None
        if missed:
            raise InvalidInput("no row has this column of the column map", file=path, field=min(missed))

    def _choose(self, names: Sequence[str]) -> list[str]:
        """The columns of a table that are read. Raises `InvalidInput` when one that is needed is not there."""
        known = frozenset() if self.column_map else _KNOWN_COLUMNS
        read = {*columns_of(names, self._asked(self.column_map)).values(), *known}
        return [name for name in names if name in read]

    def _asked(self, column_map: dict[str, str]) -> dict[str, str]:
        """The map; what replaces a field makes its column needless."""
        needless = {name: "" for name in ("source", "kind") if getattr(self, name) is not None}
        return {**column_map, **needless}

    def _document(self, row: JsonRow, column_map: dict[str, str], path: Path) -> SourceDocument | InvalidRow:
        """The row's document, whose id joins `seen`. The one place where a bad row stops being an exception."""
        try:
            document = self._labelled(self._read(Fields(row.value), column_map), path)
            if document.id in self.seen:
                raise InvalidInput(f"a document with the id {document.id!r} came before", field="id")
        except InvalidInput as error:
            return InvalidRow(file=str(path), row=row.row, field=error.field, problem=error.problem, payload=row.text)
        self.seen.add(document.id)
        return document

    def _read(self, row: Fields, column_map: dict[str, str]) -> SourceDocument:
        if not column_map:
            archive = next((archive for archive in ARCHIVES if archive.recognises(row.values)), None)
            if archive is not None:
                return archive.read(row)
        return read_row(row, columns_of(tuple(row.values), self._asked(column_map), is_row=True))

    def _labelled(self, document: SourceDocument, path: Path) -> SourceDocument:
        """With source, kind and full id."""
        source = self.source or document.source or path.name.partition(".")[0]
        kind = self.kind or document.kind
        return with_full_id(replace(document, source=source, kind=kind, is_own_source=self.is_each))


_DELIMITERS = ",;\t"
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
    head = file.peek(_HEAD).partition(b"\n")[0].decode("utf-8", errors="replace")
    lines = _Lines(file)
    reader = csv.reader(lines, delimiter=max(_DELIMITERS, key=head.count), strict=True)
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
