"""A table of a run with up to a million rows, read lazily: one row, one column, a sample, a search.

Opening reads the manifest, or where there is none the metadata of the Parquet files: no row. What scans reads the
columns that it needs, a row group at a time, so memory holds one row group and the numbers of the rows.
"""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import wraps
from itertools import accumulate
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from trailforge.pipelines.search.evaluate import as_mask, bind_search
from trailforge.schemas import InvalidInput, parse_json

pc: Any = pyarrow.compute
"""The functions of `pyarrow.compute`, which are made at import, so that type checkers know none of them."""
_GROUPS_KEPT = 4
"""Row groups in memory for `row`: going back and forth reads each once."""
FILTERS = "filters"
"""Name of the column with what each filter measured; in `rejected/` it is part of `payload`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a search: row numbers, and how far the table was searched."""

    rows: tuple[int, ...]
    """Numbers of the rows that were found, ascending."""
    searched: int
    """Number of the first row that has not been searched yet, from which a further search goes on."""
    is_complete: bool
    """Whether the table was searched to its end."""


P = ParamSpec("P")
R = TypeVar("R")


def _kept(read: Callable[Concatenate[TableIndex, P], R]) -> Callable[Concatenate[TableIndex, P], R]:
    """A method whose table is read at the first call for some arguments alone. Nobody waits for what another reads."""

    @wraps(read)
    def look(self: TableIndex, *args: P.args, **kwargs: P.kwargs) -> R:
        key = (read.__name__, *args, *kwargs.items())
        if key not in self._read:
            self._read.setdefault(key, read(self, *args, **kwargs))
        return self._read[key]

    return look


class TableIndex:
    """A table of a run's folder. Rows have numbers from 0, in the order of the files."""

    def __init__(self, folder: Path, table: str) -> None:
        """Raises `InvalidInput` when the run has no such table, or its files cannot be read."""
        self.table = table
        counts = _count_rows(folder, table)
        self._paths = [path for path, _ in counts]
        self._starts = [0, *accumulate(count for _, count in counts)]
        self._groups: OrderedDict[tuple[int, int], pa.Table] = OrderedDict()
        self._read: dict[tuple[Any, ...], Any] = {}
        """What was read, by method and arguments."""
        self._reading = threading.Lock()
        self.schema: pa.Schema = _open_table(self._paths[0]).schema_arrow

    def __len__(self) -> int:
        """Number of rows."""
        return self._starts[-1]

    def row(self, number: int) -> dict[str, Any]:
        """Return a row as plain values. Raises `IndexError` when there is none of this number."""
        if not 0 <= number < len(self):
            raise IndexError(f"row {number} of {len(self)}")
        file = bisect_right(self._starts, number) - 1
        place = number - self._starts[file]
        sizes, group = self._group_sizes(file), 0
        while place >= sizes[group]:
            place, group = place - sizes[group], group + 1
        return self._group(file, group).slice(place, 1).to_pylist()[0]

    @_kept
    def find(self, uid: str, column: str = "uid") -> int | None:
        """Return the number of the first row with a uid (an `id` in `inputs/`); None when there is none."""
        for first, batch in self._batches([column]):
            place = pc.index(batch.column(0), uid).as_py()
            if place >= 0:
                return first + place
        return None

    def find_all(self, uids: Set[str], column: str = "uid") -> dict[str, int]:
        """Return the numbers of the first rows with these uids, in one reading; uids that are not there are left
        out.
        """
        found: dict[str, int] = {}
        wanted = pa.array(sorted(uids), pa.string())
        for first, batch in self._batches([column]):
            for place in np.flatnonzero(as_mask(pc.is_in(batch.column(0), wanted))).tolist():
                found.setdefault(batch.column(0)[place].as_py(), first + place)
            if len(found) == len(wanted):
                break
        return found

    @_kept
    def numbers(self) -> list[str]:
        """Return the paths that `values` takes: columns of numbers and their parts, and the filters that have scores in
        the first rows.
        """
        paths = [path for name in self.schema.names for path in _numeric(self.schema.field(name).type, name)]
        if FILTERS not in self.schema.names:
            return paths
        _, batch = next(self._batches([FILTERS]))
        names = pc.unique(pc.struct_field(pc.list_flatten(batch.column(0)), "name")).to_pylist()
        return [*paths, *(f"{FILTERS}.{name}" for name in sorted(names))]

    def values(self, path: str) -> np.ndarray:
        """Return a number of each row, as float64; NaN where a row has none.

        `path` is a column, a part of one (`reward.total`), or a filter's score (`filters.` and its name). Raises
        `InvalidInput` when the table has no such number.
        """
        self.read_ahead([path])
        return self._read["values", path]

    def read_ahead(self, paths: Sequence[str], columns: Sequence[str] = ()) -> None:
        """Read several numbers and text columns in one pass over the table, so that `values` and `counts` return them
        quickly. What another thread reads is waited for. Raises what `values` raises.
        """
        if not self._read.keys() >= {*(("values", path) for path in paths), *(("counts", name) for name in columns)}:
            with self._reading:
                self._read_columns(paths, columns)

    def _read_columns(self, paths: Sequence[str], columns: Sequence[str]) -> None:
        found = {path: np.full(len(self), np.nan) for path in paths if ("values", path) not in self._read}
        counts = {column: Counter[str]() for column in columns if ("counts", column) not in self._read}
        for path in (*found, *counts):
            self._check_column(path.partition(".")[0])
        wanted = dict.fromkeys([*(FILTERS if path.startswith(f"{FILTERS}.") else path for path in found), *counts])
        for first, batch in self._batches([*wanted]):
            for column, count in counts.items():
                for each in pc.value_counts(batch.column(column)).to_pylist():
                    count[each["values"]] += each["counts"]
            for path, values in found.items():
                column, *parts = path.split(".")
                if column not in batch.schema.names:  # it has no such part
                    raise InvalidInput("no number in this table has this name; name one, as reward.total", field=path)
                array = batch.column(column)
                if column == FILTERS and len(parts) == 1:
                    rows, scores, _ = _scores(array, parts[0])
                    values[first + rows] = scores
                else:
                    values[first : first + len(array)] = _numbers(array, parts, path)
        for column, count in counts.items():
            del count[None]  # type: ignore[arg-type]
            self._read["counts", column] = Counter(dict(count.most_common()))
        self._read.update({("values", path): values for path, values in found.items()})

    @_kept
    def ascending(self, path: str) -> np.ndarray:
        """Return the row numbers in ascending order of the number that `path` names, as in `values`; rows without it
        are left out.
        """
        values = self.values(path)
        order = np.argsort(values, kind="stable")
        return order[: len(order) - np.count_nonzero(np.isnan(values))]

    @_kept
    def shuffled(self, seed: int = 0) -> np.ndarray:
        """Return all row numbers in a random order: the first ones are a sample."""
        return np.random.default_rng(seed).permutation(len(self))

    @_kept
    def disputed(self) -> np.ndarray:
        """Return the numbers of the rows that some filters pass and others do not, those with the most even split
        first.

        Accepted rows passed all, so these are rows of `rejected/` that have every filter's verdict. Empty where rows do
        not have single verdicts.
        """
        column = next((name for name in (FILTERS, "payload") if name in self.schema.names), None)
        if column is None:
            return np.array([], np.int64)
        divided: list[tuple[float, int]] = []
        for first, batch in self._batches([column]):
            shares = _shares_of_filters(batch.column(0)) if column == FILTERS else _shares_of_payloads(batch.column(0))
            divided += [(abs(share - 0.5), first + row) for row, share in shares if 0 < share < 1]
        return np.array([number for _, number in sorted(divided)], np.int64)

    def counts(self, columns: Sequence[str]) -> dict[str, Counter[str]]:
        """Count the rows for each value of some text columns, the most frequent first; rows without a value do not
        count.

        One reading covers all columns that were not counted before.
        """
        self.read_ahead((), columns)
        return {column: self._read["counts", column] for column in columns}

    def json_texts(self, column: str, fields: Sequence[str], *, among: Set[str]) -> list[tuple[str, ...]]:
        """Return some fields of the JSON objects in a text column, for objects whose fields are all in `among`. Objects
        of which a wanted field is no text are left out.
        """
        self._check_column(column)
        found: list[tuple[str, ...]] = []
        for _, batch in self._batches([column]):
            for text in batch.column(0).to_pylist():
                value = _object(text)
                texts = tuple(each for field in fields if isinstance(each := value.get(field), str))
                if len(texts) == len(fields) and value.keys() <= among:
                    found.append(texts)
        return found

    @_kept
    def matching(self, column: str, value: str) -> list[int]:
        """Return the numbers of the rows that have this value in a text column, e.g. `kind` or `reason`, or among those
        of a column of lists.
        """
        self._check_column(column)
        return [first + place for first, batch in self._batches([column]) for place in _places(batch.column(0), value)]

    def select(self, columns: Sequence[str], among: tuple[str, Sequence[str]] | None = None) -> pa.Table:
        """Return some columns of all rows, or parts of columns (`episode.question`); with `among`, only the rows whose
        text column has one of the values.
        """
        wanted = [*columns, among[0]] if among and among[0] not in columns else list(columns)
        for column in wanted:
            self._check_column(column.partition(".")[0])
        names = list(dict.fromkeys(column.partition(".")[0] for column in columns))
        values = pa.array(among[1], pa.string()) if among else None
        parts = []
        for _, batch in self._batches(wanted):
            mask = pc.is_in(batch.column(among[0]), value_set=values) if among else None
            parts.append((batch if mask is None else batch.filter(mask)).select(names))
        schema = parts[0].schema if parts else pa.schema([self.schema.field(name) for name in names])
        return pa.Table.from_batches(parts, schema)

    def search(
        self, text: str, *, first: int = 0, count: int = 100, seconds: float = 2.0, near: Sequence[int] = ()
    ) -> Found:
        """Find the rows for which every condition of a text holds, as `pipelines.search` reads it. `near` are the
        numbers of the rows similar to the one that a condition `like` names.

        The search begins at row `first`, and ends with `count` rows or once `seconds` have passed; `Found.searched` is
        then the next call's `first`. Raises `InvalidInput` as `bind_search`.
        """
        wanted = bind_search(text, self.schema, self.numbers(), self.values, near)
        rows: list[int] = []
        until = time.monotonic() + seconds
        for begin, batch in self._batches(wanted.columns, first):
            for number in wanted.rows(begin, batch):
                if begin + number < first:
                    continue
                if len(rows) == count:
                    return Found(rows=tuple(rows), searched=rows[-1] + 1, is_complete=False)
                rows.append(begin + number)
            done = begin + batch.num_rows
            if time.monotonic() >= until and done < len(self):
                return Found(rows=tuple(rows), searched=done, is_complete=False)
        return Found(rows=tuple(rows), searched=len(self), is_complete=True)

    def _batches(self, columns: Sequence[str], first: int = 0) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Row groups from the one with row `first` on, each with the number of its first row; all rows at once where no
        column is wanted, for which no file is read.
        """
        if not columns:
            yield 0, pa.RecordBatch.from_arrays([pa.nulls(len(self))], ["nothing"])
            return
        for file in range(max(0, bisect_right(self._starts, first) - 1), len(self._paths)):
            start = self._starts[file]
            with _open_table(self._paths[file]) as opened:
                for group in range(opened.num_row_groups):
                    size = opened.metadata.row_group(group).num_rows
                    if start + size > first:
                        table = opened.read_row_group(group, columns=list(columns), use_threads=False)
                        for batch in table.combine_chunks().to_batches():
                            yield start, batch
                    start += size

    @_kept
    def _group_sizes(self, file: int) -> list[int]:
        with _open_table(self._paths[file]) as opened:
            return [opened.metadata.row_group(group).num_rows for group in range(opened.num_row_groups)]

    def _group(self, file: int, group: int) -> pa.Table:
        if (file, group) not in self._groups:
            with _open_table(self._paths[file]) as opened:
                self._groups[file, group] = opened.read_row_group(group)
            if len(self._groups) > _GROUPS_KEPT:
                self._groups.popitem(last=False)
        self._groups.move_to_end((file, group))
        return self._groups[file, group]

    def _check_column(self, column: str) -> None:
        if column not in self.schema.names:
            raise InvalidInput(f"{self.table} has no such column", field=column)


def tables_of(folder: Path) -> list[str]:
    """Return the names of the tables in a folder that have rows."""
    return sorted({path.parent.name for path in folder.glob("*/*.parquet") if not path.parent.name.startswith(".")})


def _count_rows(folder: Path, table: str) -> list[tuple[Path, int]]:
    """The table's files with their numbers of rows: by the manifest, which saves opening each of thousands."""
    try:
        entries = parse_json((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
        known = {folder / each["path"]: int(each["rows"]) for each in entries}
    except (OSError, ValueError, KeyError, TypeError):
        known = {}
    paths = sorted((folder / table).glob("*.parquet"))
    if not paths:
        raise InvalidInput(f"this run has no table {table!r}; it has {', '.join(tables_of(folder))}", file=folder)
    return [(path, known[path] if path in known else _open_table(path).metadata.num_rows) for path in paths]


def _open_table(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, memory_map=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInput(f"not a readable Parquet file ({error})", file=path) from error


def _numbers(array: pa.Array, parts: Sequence[str], path: str) -> np.ndarray:
    """A column or a part of it as float64."""
    try:
        for part in parts:
            array = pc.struct_field(array, part)
        return pc.cast(array, pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, KeyError) as error:
        raise InvalidInput("no number in this table has this name; name one, as reward.total", field=path) from error


def _scores(array: pa.Array, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a column of filter scores: rows that this filter measured, its scores, whether they passed."""
    flat, rows = pc.list_flatten(array), pc.list_parent_indices(array).to_numpy()
    mask = as_mask(pc.equal(pc.struct_field(flat, "name"), name))
    scores = pc.struct_field(flat, "score").to_numpy(zero_copy_only=False)[mask]
    return rows[mask], scores, as_mask(pc.struct_field(flat, "passed"))[mask]


def _shares_of_filters(array: pa.Array) -> Iterator[tuple[int, float]]:
    """Rows with the share of their filters that passed."""
    flat, rows = pc.list_flatten(array), pc.list_parent_indices(array).to_numpy()
    asked = np.bincount(rows, minlength=len(array))
    passed = np.bincount(rows, as_mask(pc.struct_field(flat, "passed")), minlength=len(array))
    for row in np.flatnonzero(asked).tolist():
        yield row, float(passed[row] / asked[row])


def _shares_of_payloads(array: pa.Array) -> Iterator[tuple[int, float]]:
    """The same, of rows as JSON; those that tell nothing of filters are left out."""
    mask = as_mask(pc.match_substring(array, f'"{FILTERS}"'))
    for row in np.flatnonzero(mask).tolist():
        try:
            passed = [bool(each["passed"]) for each in _object(array[row].as_py())[FILTERS]]
        except (KeyError, TypeError):
            continue
        if passed:
            yield row, sum(passed) / len(passed)


def _places(array: pa.Array, value: str) -> list[int]:
    """Of a value in a column of texts, or of lists of texts."""
    if not pa.types.is_list(array.type):
        return np.flatnonzero(as_mask(pc.equal(array, value))).tolist()
    found = as_mask(pc.equal(pc.list_flatten(array), value))
    return sorted(set(pc.list_parent_indices(array).to_numpy()[found].tolist()))


def _object(text: str | None) -> dict[str, Any]:
    """The object of a JSON text; an empty one when it is none."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _numeric(kind: pa.DataType, path: str) -> list[str]:
    """The numbers in a column of a type, by path; none of a list's."""
    if pa.types.is_struct(kind):
        return [found for field in kind for found in _numeric(field.type, f"{path}.{field.name}")]
    return [path] if pa.types.is_floating(kind) or pa.types.is_integer(kind) else []
