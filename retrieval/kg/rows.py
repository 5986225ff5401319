"""Read the rows of triples and names, and collect them before the graph is built, together with rows that cannot be
used.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from trailforge.retrieval.kg.columns import as_texts
from trailforge.schemas import TOO_LONG, InvalidInput, RejectedRow, is_too_long, limited_lines, open_unpacked

pc: Any = pyarrow.compute  # its stubs lack the functions
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@[A-Za-z0-9-]+|\^\^\S+)', re.DOTALL)
_DATE = re.compile(r"([+-]?)(\d{1,4})(?:-(\d\d)(?:-(\d\d)(?:T[\d:.]+Z?)?)?)?")
_MONTHS = tuple("January February March April May June July August September October November December".split())

INSTANCE_OF = "instance of"
CODE = r"[A-Z]\d+|/\w+/\S+|\w+:\S+|<.*>|_:\S+"
"""Pattern of an id of Wikidata, of Freebase, or any URI, which no entity has as a name."""
_DIGITS, _LETTERS = r"[0-9]+", r"[A-Za-z]+"
_GATHERED = 500_000
"""Texts that are moved into Arrow at once."""
_MOST_INVALID = 0.05
"""Share of invalid rows above which the source is taken for a wrong or broken one."""
_ENOUGH_INVALID = 1000
"""Invalid rows from which their share is looked at while reading."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row with its fields, or with the reason why it cannot be used."""

    file: Path
    number: int
    """Number of the row from 1: the line of a text file, the position in another."""
    fields: dict[str, Any]
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column of each field, where it differs from the field's name."""
    problem: str = ""
    """Reason why the row cannot be used; empty when it has fields."""
    fault: str | None = None
    """Name of the field at fault; None when there is none."""
    text: str = ""
    """Text of the row in a text file."""

    @property
    def payload(self) -> str:
        """Return the row as text, for the list of rejected rows."""
        return self.text or json.dumps(self.fields, ensure_ascii=False, default=str)

    def get(self, name: str) -> Any:
        """Return the content of a field; None where it has no column."""
        return self.fields.get(self.columns.get(name, name))


def text_of(value: Any) -> str | None:
    """Return an id or a label: a text that is not empty, or a whole number; None for anything else."""
    if isinstance(value, str):
        return " ".join(value.split()) or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def value_of(text: str) -> str | None:
    """Return the readable form of a literal: one of RDF, with language or type, or a date; None for anything else.

    `"Ulm"@de` is Ulm, `"42"^^xsd:integer` 42, `+1879-03-14T00:00:00Z` 14 March 1879; where 00 stands for an unknown
    part, `1879-03-00` is March 1879.
    """
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        inside = quoted[1].replace('\\"', '"')
        return (date_of(inside) if "date" in text.lower() or inside[:1] in ("+", "-") else None) or _one_line(inside)
    date = _DATE.fullmatch(text)
    return date_of(text) if date and date[3] else None


def date_of(text: str) -> str | None:
    """Return a date in readable form; None for a text that is no date."""
    date = _DATE.fullmatch(text)
    if date is None:
        return None
    year, month, day = int(date[2]), int(date[3] or 0), int(date[4] or 0)
    if month > len(_MONTHS):
        return None
    parts = [str(day) if day and month else "", _MONTHS[month - 1] if month else "", str(year)]
    return " ".join(filter(None, parts)) + (" BC" if date[1] == "-" else "")


def _one_line(text: str) -> str | None:
    return " ".join(text.split()) or None


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file, alone or inside an archive."""

    path: Path
    member: str | None = None
    """Name inside the tar archive `path`; None when it is a file by itself."""

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}/{self.member}"

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines that are not empty, with their numbers from 1. Bytes that are no UTF-8 become U+FFFD.

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
        """Open the file for reading bytes, unpacking gzip."""
        if self.member is not None:
            with tarfile.open(self.path) as archive:
                file = archive.extractfile(self.member)
                assert file is not None  # `members_of` lists files alone
                yield file
            return
        with open_unpacked(self.path) as file:
            yield file


def members_of(path: Path) -> list[TextFile]:
    """Return the files in a tar archive. Raises `InvalidInput` when it cannot be read."""
    with readable(path), tarfile.open(path) as archive:
        return [TextFile(path, member.name) for member in archive.getmembers() if member.isfile()]


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn errors of reading a file within a `with` block into `InvalidInput` that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidInput("no such file", file=path) from error
    except IsADirectoryError as error:
        raise InvalidInput("is a folder, expected a file", file=path) from error
    except EOFError as error:
        raise InvalidInput("the file is cut short; fetch it again", file=path) from error
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInput(f"the file is damaged ({error}); fetch it again", file=path) from error
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
        """Add one thing's names, the label first. Repeated and empty ones are left out."""
        distinct = dict.fromkeys(" ".join(name.split()) for name in names)
        distinct.pop("", None)
        self._ids.fresh.append(key)
        self._names.fresh += distinct
        self._fresh_counts.append(len(distinct))
        if len(self._fresh_counts) >= _GATHERED:
            self._flush()

    def ids(self) -> pa.ChunkedArray:
        """Return the id of each addition."""
        return self._ids.all()

    def names(self) -> tuple[pa.ChunkedArray, np.ndarray]:
        """Return all names, and how many each addition has."""
        self._flush()
        return self._names.all(), np.concatenate(self._counts)

    def _flush(self) -> None:
        self._ids.flush()
        self._names.flush()
        self._counts.append(np.array(self._fresh_counts, np.int64))
        self._fresh_counts.clear()


class Gathered:
    """Collects the rows of a graph's source while it is read, and counts those that cannot be used."""

    def __init__(self) -> None:
        self.entities, self.relations = NamedThings(), NamedThings()
        self.rejected: list[RejectedRow] = []
        self._values: set[str] = set()
        self.rows = 0
        """Read, the invalid ones too."""
        self._heads, self._relations, self._tails = _Texts(), _Texts(), _Texts()

    def named(self, things: NamedThings, key: str, names: Iterable[str]) -> None:
        """Add a valid row about one of the entities or relations: its id and names, the label first."""
        self.rows += 1
        things.add(key, names)

    def triple(self, head: str, relation: str, tail: str) -> None:
        """Add a valid row that is a triple, by ids."""
        self.rows += 1
        self._heads.fresh.append(head)
        self._relations.fresh.append(relation)
        self._tails.fresh.append(tail)
        if len(self._heads.fresh) >= _GATHERED:
            for column in (self._heads, self._relations, self._tails):
                column.flush()

    def instance(self, key: str, kind: str) -> None:
        """Add the kind of an entity, such as *human*, as a triple *instance of*. `key` and `kind` are ids or labels. It
        is not counted as a row, since it is a field of the entity's own."""
        self.rows -= 1
        self.triple(key, INSTANCE_OF, kind)

    def fact(self, head: str, relation: str, value: str) -> None:
        """Add a valid row that is a triple with a value instead of a tail: a date, a number, a text."""
        key = value_id(value)
        if key not in self._values:
            self._values.add(key)
            self.entities.add(key, [value])
        self.triple(head, relation, key)

    def triples(self) -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray]:
        """Return all heads, relations and tails, by id."""
        return self._heads.all(), self._relations.all(), self._tails.all()

    def reject(self, file: object, row: int, field: str | None, problem: str, payload: str) -> None:
        """Add a row that cannot be used. Raises `InvalidInput` when there are too many of them."""
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


def shape_of(key: str) -> str:
    """Return the pattern of an id, with each run of digits as 0 and of letters as a: `n0012` becomes `a0`."""
    return re.sub(_LETTERS, "a", re.sub(_DIGITS, "0", key))


def shapes_of(keys: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return `shape_of` of each id."""
    return pc.replace_substring_regex(pc.replace_substring_regex(keys, _DIGITS, "0"), _LETTERS, "a")


def value_id(value: str) -> str:
    """Return the id of a value: the value between quotation marks, which no entity's id has."""
    return f'"{value}"'


def codes_of(groups: Sequence[pa.ChunkedArray]) -> tuple[pa.LargeStringArray, list[np.ndarray]]:
    """Return the texts of each group as numbers (int32), and the texts that the numbers stand for: each distinct text
    once, in the order in which they first come."""
    encoded = pa.chunked_array(list(chain.from_iterable(g.chunks for g in groups)), pa.large_string())
    encoded = encoded.dictionary_encode().unify_dictionaries()
    numbers = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks] or [np.zeros(0, np.int32)])
    distinct = encoded.chunk(0).dictionary if encoded.num_chunks else as_texts([])
    return distinct, np.split(numbers, np.cumsum([len(group) for group in groups])[:-1])
