"""Rows of tables (TSV with or without a header, JSON Lines, Parquet), and what they come to before they are a graph:
names and triples by id, and the rows that cannot be used.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.retrieval.kg.columns import as_texts
from trailforge.schemas import InvalidInput, RejectedRow, parse_json
from trailforge.schemas.files import TOO_LONG, is_too_long, limited_lines, open_unpacked

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@[A-Za-z0-9-]+|\^\^\S+)', re.DOTALL)
_DATE = re.compile(r"([+-]?)(\d{1,4})(?:-(\d\d)(?:-(\d\d)(?:T[\d:.]+Z?)?)?)?")
_MONTHS = tuple("January February March April May June July August September October November December".split())

_GATHERED = 500_000
"""Texts that are moved into Arrow at once."""
_MOST_INVALID = 0.05
"""Share of invalid rows above which the source is taken for a wrong or broken one."""
_ENOUGH_INVALID = 1000
"""Invalid rows from which their share is looked at while reading."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row by its fields."""

    file: Path
    number: int
    """From 1: the line of a text file, the position in another."""
    fields: dict[str, Any]
    problem: str = ""
    """Why it cannot be used; empty when it has fields."""
    text: str = ""
    """As it stands in a text file."""

    @property
    def payload(self) -> str:
        """The row as it was."""
        return self.text or json.dumps(self.fields, ensure_ascii=False, default=str)


def table_rows(path: Path, unnamed: Sequence[str]) -> Iterator[Row]:
    """The rows of a table. `unnamed`: what the columns of a TSV file are when its first line names none of them.

    Raises `InvalidInput` for a file that cannot be read.
    """
    kind = _kind(path)
    if kind == "parquet":
        return _parquet_rows(path)
    return _json_rows(path) if kind == "json" else _tsv_rows(path, unnamed)


def has_header(path: Path) -> bool:
    """Whether the columns of a table have names: always, but for TSV files whose first line has none of ours."""
    if _kind(path) != "tsv":
        return True
    first = next(TextFile(path).lines(), (1, ""))
    return bool({"head", "id"} & set(first[1].split("\t")))


def text_of(value: Any) -> str | None:
    """An id or a label: a text that is not empty, or a whole number; None for anything else."""
    if isinstance(value, str):
        return " ".join(value.split()) or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def value_of(text: str) -> str | None:
    """What a literal says, as people read it: RDF's, with language or type, or a date; None for anything else.

    `"Ulm"@de` is Ulm, `"42"^^xsd:integer` 42, `+1879-03-14T00:00:00Z` 14 March 1879; with 00 for what is not known,
    `1879-03-00` is March 1879.
    """
    quoted = _QUOTED.fullmatch(text)
    inside = quoted[1].replace('\\"', '"') if quoted else text
    date = _DATE.fullmatch(inside) if not quoted or "date" in text.lower() or inside[:1] in ("+", "-") else None
    if date is None:
        return " ".join(inside.split()) or None if quoted else None
    year, month, day = int(date[2]), int(date[3] or 0), int(date[4] or 0)
    if month > len(_MONTHS) or (not quoted and not date[3]):
        return None
    parts = [str(day) if day and month else "", _MONTHS[month - 1] if month else "", str(year)]
    return " ".join(filter(None, parts)) + (" BC" if date[1] == "-" else "")


def _kind(path: Path) -> str:
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    return {"parquet": "parquet", "jsonl": "json"}.get(ending, "tsv")


def _tsv_rows(path: Path, unnamed: Sequence[str]) -> Iterator[Row]:
    lines = TextFile(path).lines()
    names = next(lines)[1].split("\t") if has_header(path) else list(unnamed)
    for number, line in lines:
        values = line.split("\t")
        problem = "" if len(values) == len(names) else f"has {len(values)} columns, expected {len(names)}"
        if "\ufffd" in line:
            problem = "not UTF-8 text"
        yield Row(path, number, dict(zip(names, values, strict=False)), problem, line)


def _json_rows(path: Path) -> Iterator[Row]:
    for number, line in TextFile(path).lines():
        try:
            value = parse_json(line)
            json.dumps(value, ensure_ascii=False).encode()  # an escape may be half of a surrogate pair
        except ValueError as error:
            yield Row(path, number, {}, f"not JSON ({error})", line)
            continue
        problem = "" if isinstance(value, dict) else "not a JSON object"
        yield Row(path, number, value if not problem else {}, problem, line)


def _parquet_rows(path: Path) -> Iterator[Row]:
    with readable(path):
        try:
            with pq.ParquetFile(path) as file:
                rows = (row for batch in file.iter_batches() for row in batch.to_pylist())
                for number, row in enumerate(rows, start=1):
                    yield Row(path, number, row)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise InvalidInput(f"cannot be read as Parquet ({error})", file=path) from error


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file, or a file inside an archive."""

    path: Path
    member: str | None = None
    """Name inside the tar archive `path`; None when it is a file by itself."""

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}/{self.member}"

    def lines(self) -> Iterator[tuple[int, str]]:
        """Lines that are not empty, with their numbers from 1. Bytes that are no UTF-8 become U+FFFD.

        Raises `InvalidInput` for a file that is missing, cut short or cannot be read, and for a line that is too long.
        """
        with readable(self.path), self.opened() as file:
            for number, line in enumerate(limited_lines(file), start=1):
                if is_too_long(line):
                    raise InvalidInput(TOO_LONG, file=self, row=number)
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                if text:
                    yield number, text.removeprefix("\ufeff") if number == 1 else text

    @contextmanager
    def opened(self) -> Iterator[IO[bytes] | io.BufferedReader[Any]]:
        """Its bytes, unpacked where it is gzip."""
        if self.member is not None:
            with tarfile.open(self.path) as archive:
                file = archive.extractfile(self.member)
                assert file is not None  # `members_of` lists files alone
                yield file
            return
        with open_unpacked(self.path) as file:
            yield file


def members_of(path: Path) -> list[TextFile]:
    """The files in a tar archive. Raises `InvalidInput` when it cannot be read."""
    with readable(path), tarfile.open(path) as archive:
        return [TextFile(path, member.name) for member in archive.getmembers() if member.isfile()]


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into `InvalidInput` that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidInput("no such file", file=path) from error
    except IsADirectoryError as error:
        raise InvalidInput("is a folder, expected a file", file=path) from error
    except EOFError as error:
        raise InvalidInput("the file is cut short", file=path) from error
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInput(f"the file is damaged ({error})", file=path) from error
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror or error})", file=path) from error


class _Texts:
    """Texts that are moved from Python objects into Arrow, chunk by chunk."""

    def __init__(self) -> None:
        self._chunks: list[pa.LargeStringArray] = []
        self.fresh: list[str] = []

    def flush(self) -> None:
        """Move what is fresh."""
        self._chunks.append(as_texts(self.fresh))
        self.fresh.clear()

    def all(self) -> pa.ChunkedArray:
        """All texts in order; they are given away, so that their memory can be."""
        self.flush()
        chunks, self._chunks = self._chunks, []
        return pa.chunked_array(chunks, pa.large_string())


class NamedThings:
    """Entities or relations with their names, in the order of the source. An id may come several times."""

    def __init__(self) -> None:
        self._ids, self._names = _Texts(), _Texts()
        self._counts: list[np.ndarray] = []
        self._fresh_counts: list[int] = []

    def add(self, key: str, names: Iterable[str]) -> None:
        """One thing's names, the label first. Repeated and empty ones are left out."""
        distinct = dict.fromkeys(" ".join(name.split()) for name in names)
        distinct.pop("", None)
        self._ids.fresh.append(key)
        self._names.fresh += distinct
        self._fresh_counts.append(len(distinct))
        if len(self._fresh_counts) >= _GATHERED:
            self._flush()

    def ids(self) -> pa.ChunkedArray:
        """The id of each addition."""
        return self._ids.all()

    def names(self) -> tuple[pa.ChunkedArray, np.ndarray]:
        """All names, and how many each addition has."""
        self._flush()
        return self._names.all(), np.concatenate(self._counts)

    def _flush(self) -> None:
        self._ids.flush()
        self._names.flush()
        self._counts.append(np.array(self._fresh_counts, np.int64))
        self._fresh_counts.clear()


class Gathered:
    """Where a source puts its rows."""

    def __init__(self) -> None:
        self.entities, self.relations = NamedThings(), NamedThings()
        self.rejected: list[RejectedRow] = []
        self._values: set[str] = set()
        self.rows = 0
        """Read, the invalid ones too."""
        self._heads, self._relations, self._tails = _Texts(), _Texts(), _Texts()

    def named(self, things: NamedThings, key: str, names: Iterable[str]) -> None:
        """A valid row about one of the entities or relations: its id and names, the label first."""
        self.rows += 1
        things.add(key, names)

    def triple(self, head: str, relation: str, tail: str) -> None:
        """A valid row that is a triple, by ids."""
        self.rows += 1
        self._heads.fresh.append(head)
        self._relations.fresh.append(relation)
        self._tails.fresh.append(tail)
        if len(self._heads.fresh) >= _GATHERED:
            for column in (self._heads, self._relations, self._tails):
                column.flush()

    def fact(self, head: str, relation: str, value: str) -> None:
        """A valid row that is a triple with a value instead of a tail: a date, a number, a text."""
        key = value_id(value)
        if key not in self._values:
            self._values.add(key)
            self.entities.add(key, [value])
        self.triple(head, relation, key)

    def triples(self) -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray]:
        """All heads, relations and tails, by id."""
        return self._heads.all(), self._relations.all(), self._tails.all()

    def reject(self, file: object, row: int, field: str | None, problem: str, payload: str) -> None:
        """A row that cannot be used. Raises `InvalidInput` when there are too many of them."""
        self.rows += 1
        detail = str(InvalidInput(problem, file=file, row=row, field=field))
        rejected = RejectedRow(
            uid=f"{file}:{row}", stage="kg", reason=InvalidInput.reason, score=0.0, detail=detail, payload=payload
        )
        self.rejected.append(rejected)
        if len(self.rejected) > _ENOUGH_INVALID:
            self.check()

    def check(self) -> None:
        """Raise `InvalidInput` with the first reason when more than 5 % of the rows are invalid."""
        share = len(self.rejected) / max(self.rows, 1)
        if share > _MOST_INVALID:
            raise InvalidInput(
                f"{len(self.rejected):,} of {self.rows:,} rows are invalid ({share:.0%}, at most {_MOST_INVALID:.0%}); "
                f"the first: {self.rejected[0].detail}"
            )


def value_id(value: str) -> str:
    """The id of a value: between quotation marks, as no entity's is."""
    return f'"{value}"'


def codes_of(groups: Sequence[pa.ChunkedArray]) -> tuple[pa.LargeStringArray, list[np.ndarray]]:
    """Groups of texts as numbers (int32, same lengths), and the distinct texts in the order they first come."""
    encoded = pa.chunked_array(list(chain.from_iterable(g.chunks for g in groups)), pa.large_string())
    encoded = encoded.dictionary_encode().unify_dictionaries()
    numbers = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks] or [np.zeros(0, np.int32)])
    distinct = encoded.chunk(0).dictionary if encoded.num_chunks else as_texts([])
    return distinct, np.split(numbers, np.cumsum([len(group) for group in groups])[:-1])
