"""Answer SQL queries over the tables of a run with DuckDB, which reads their Parquet files and nothing else."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.schemas import InvalidInput, OutputError, visible

if TYPE_CHECKING:
    import duckdb

FORMATS = ("table", "csv", "jsonl", "parquet")
_BATCH = 2_000
_MOST_SHOWN = 100
"""Rows of a table in the terminal; the other formats have all."""
_LONGEST_CELL = 120
_ROWS_PER_GROUP = 50_000


def answer_sql(folder: Path, statement: str) -> pa.RecordBatchReader:
    """Run a query over the tables of a run's folder, each of which is a view of its name.

    Raises `InvalidInput` when the folder has no table, and for what is not one query, cannot be read, or reads
    anything but these tables.
    """
    import duckdb

    paths: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*/*.parquet")) if folder.is_dir() else ():
        if not path.parent.name.startswith("."):
            paths.setdefault(path.parent.name, []).append(str(path))
    if not paths:
        raise InvalidInput("holds no tables; give the folder of a run or a training set", file=folder)
    never: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    base = duckdb.connect(":memory:", config=never)
    try:
        for table, files in paths.items():
            listed = ", ".join(map(_quoted, files))
            name = table.replace('"', '""')
            base.execute(f'CREATE VIEW "{name}" AS SELECT * FROM read_parquet([{listed}], union_by_name = true)')
        base.execute(f"SET allowed_directories = [{_quoted(str(folder))}]")
        base.execute("SET enable_external_access = false")
        base.execute("SET lock_configuration = true")
        return base.sql(_query(base, statement)).to_arrow_reader(_BATCH)
    except duckdb.Error as error:
        raise InvalidInput(f"{_line(error)}; the tables are {', '.join(paths)}", field="SQL") from error


def _query(base: duckdb.DuckDBPyConnection, statement: str) -> str:
    import duckdb

    found = base.extract_statements(statement)
    known = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    if len(found) != 1 or found[0].type not in known:
        raise InvalidInput("expected one query, as SELECT …; nothing is changed by way of it", field="SQL")
    return found[0].query


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _line(error: Exception) -> str:
    """What DuckDB says, with the place that it points at, in one line."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip(" ^")]
    return visible("; ".join(lines[:3]))


def write_answer(answer: pa.RecordBatchReader, form: str, out: Path | None) -> int:
    """Write the rows of an answer in one of `FORMATS` to a file, or to standard output; returns their number.

    Raises `OutputError` when the file cannot be written, and `InvalidInput` for Parquet without a file.
    """
    if form == "parquet" and out is None:
        raise InvalidInput("parquet goes to a file: give --out FILE", field="--format")
    with _written(out, binary=form == "parquet") as file:
        return _WRITERS[form](answer, file)


@contextmanager
def _written(out: Path | None, *, binary: bool) -> Iterator[IO[Any]]:
    """The file, which is there once all is written."""
    if out is None:
        yield sys.stdout
        return
    part = out.with_name(f".{out.name}.part")
    try:
        with part.open("wb") if binary else part.open("w", encoding="utf-8", newline="") as file:
            yield file
        part.replace(out)
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def _rows(answer: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    import duckdb

    try:
        for batch in answer:
            yield from batch.to_pylist()
    except (duckdb.Error, pa.ArrowException) as error:  # as for a number that a text does not hold
        raise InvalidInput(_line(error), field="SQL") from error


def _write_lines(answer: pa.RecordBatchReader, file: IO[str]) -> int:
    count = 0
    for row in _rows(answer):
        file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
        count += 1
    return count


def _write_csv(answer: pa.RecordBatchReader, file: IO[str]) -> int:
    writer, count = csv.writer(file), 0
    writer.writerow(answer.schema.names)
    for row in _rows(answer):
        writer.writerow(["" if value is None else _plain(value) for value in row.values()])
        count += 1
    return count


def _write_parquet(answer: pa.RecordBatchReader, file: IO[bytes]) -> int:
    table = answer.read_all()
    pq.write_table(table, file, compression="zstd", row_group_size=_ROWS_PER_GROUP)
    return table.num_rows


def _write_table(answer: pa.RecordBatchReader, file: IO[str]) -> int:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown, count = Table(), 0
    for name in answer.schema.names:
        shown.add_column(Text(visible(name)))
    for row in _rows(answer):
        if count < _MOST_SHOWN:
            cells = ("" if value is None else visible(_plain(value)) for value in row.values())
            shown.add_row(*(Text(cell if len(cell) <= _LONGEST_CELL else cell[:_LONGEST_CELL] + "…") for cell in cells))
        count += 1
    console = Console(file=file, highlight=False)
    console.print(shown)
    if count > _MOST_SHOWN:
        console.print(f"the first {_MOST_SHOWN} of {count:,} rows; --format csv, jsonl or parquet has all")
    return count


def _plain(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


_WRITERS: dict[str, Callable[..., int]] = {
    "table": _write_table,
    "csv": _write_csv,
    "jsonl": _write_lines,
    "parquet": _write_parquet,
}
