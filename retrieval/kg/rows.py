"""Rows of tables: TSV with or without a header, JSON Lines, Parquet."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.schemas import InvalidInput, parse_json
from trailforge.schemas.files import TOO_LONG, is_too_long, limited_lines, open_unpacked

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@[A-Za-z0-9-]+|\^\^\S+)', re.DOTALL)
_DATE = re.compile(r"([+-]?)(\d{1,4})(?:-(\d\d)(?:-(\d\d)(?:T[\d:.]+Z?)?)?)?")
_MONTHS = tuple("January February March April May June July August September October November December".split())


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
