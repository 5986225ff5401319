"""Rows of tables of triples and names, and what they come to before they are a graph: names and triples by id, and the
rows that cannot be used.
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
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import numpy as np
import pyarrow as pa

from trailforge.retrieval.kg.columns import as_texts
from trailforge.rows import InvalidRow, JsonRow, read_rows
from trailforge.rows.tables import bare_name, find_columns, parse_column_map
from trailforge.schemas import InvalidInput, RejectedRow
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
    columns: Mapping[str, str] = MappingProxyType({})
    """The column of each field, where they are called otherwise."""
    problem: str = ""
    """Why it cannot be used; empty when it has fields."""
    field: str | None = None
    """The field at fault."""
    text: str = ""
    """As it stands in a text file."""

    @property
    def payload(self) -> str:
        """The row as it was."""
        return self.text or json.dumps(self.fields, ensure_ascii=False, default=str)

    def get(self, field: str) -> Any:
        """What a field holds; None where it has no column."""
        return self.fields.get(self.columns.get(field, field))


ENDS = ("head", "relation", "tail")
TRIPLES: dict[str, tuple[str, ...]] = {
    "head": (
        *("headid", "headqid", "subjectid", "head", "subject", "headentity", "h", "subj", "s", "node1", "entity1"),
        *("from", "fromid", "startid", "start", "sourceid", "source", "src", "xid", "e1"),
    ),
    "relation": (
        *("relationid", "relationpid", "predicateid", "relation", "predicate", "rel", "r", "pred", "p", "property"),
        *("relationtype", "relationship", "edgetype", "edge", "label", "type"),
    ),
    "tail": (
        *("tailid", "tailqid", "objectid", "tail", "object", "tailentity", "t", "obj", "o", "node2", "entity2"),
        *("to", "toid", "endid", "end", "targetid", "target", "dst", "dest", "destination", "yid", "e2"),
    ),
    "head_label": ("headlabel", "headname", "subjectlabel", "subjectname", "node1label", "sourcename", "xname"),
    "relation_label": ("relationlabel", "relationname", "predicatelabel", "predicatename", "labellabel"),
    "tail_label": ("taillabel", "tailname", "objectlabel", "objectname", "node2label", "targetname", "yname"),
}
"""Columns of triples by field, as `rows.tables.find_columns` takes them."""
NAMES: dict[str, tuple[str, ...]] = {
    "id": ("id", "qid", "pid", "mid", "entityid", "relationid", "nodeid", "iri", "uri"),
    "label": ("label", "name", "title", "preflabel", "entity", "relation"),
    "aliases": ("aliases", "alias", "synonyms", "altlabel", "altlabels"),
}
"""Columns of names by field."""
_OF_ID = re.compile(r"(head|subject|relation|predicate|tail|object)[qp]?id")
TRIPLE_FORM = (
    "a table of triples has the columns head, relation, tail (TSV, CSV, JSON or Parquet; --columns "
    "head=COLUMN,relation=COLUMN,tail=COLUMN for other names), or three columns and no header"
)
"""What a message about the form of triples ends with."""


def parse_columns(text: str) -> dict[str, str]:
    """A column map of triples (`rows.tables.parse_column_map`)."""
    return parse_column_map(text, TRIPLES, "triples")


def triple_rows(path: Path, column_map: Mapping[str, str]) -> Iterator[Row]:
    """The rows of a table of triples. One without a header has three columns.

    Raises `InvalidInput` for a file that cannot be read, and for a table without the columns.
    """
    given = tuple(column_map.items())
    first = next(TextFile(path).lines(), (1, ""))[1] if path.exists() else ""
    if _is_number(first.strip()):
        raise InvalidInput(
            "is OpenKE's form: a count, and then head, tail and relation by number; put the names of entity2id.txt "
            f"and relation2id.txt in their place; {TRIPLE_FORM}",
            file=path,
        )
    rows = read_rows(
        path,
        is_row=lambda keys: set(ENDS) <= _roles(keys, given),
        choose=lambda names: list(_triple_columns(tuple(names), given).values()),
        unnamed=lambda cells: None if given or len(_roles(cells, given).intersection(ENDS)) > 1 else _three(cells),
        plain_tabs=True,
    )
    for row in rows:
        yield _triple_row(row, path, given)


def _triple_row(row: JsonRow | InvalidRow, path: Path, given: tuple[tuple[str, str], ...]) -> Row:
    if isinstance(row, InvalidRow):
        return Row(path, row.row, {}, problem=row.problem, field=row.field, text=row.payload)
    value = row.value
    if isinstance(value, list) and len(value) == len(ENDS):
        return Row(path, row.row, dict(zip(ENDS, value, strict=True)), text=row.text)
    if not isinstance(value, dict):
        problem = "neither a JSON object nor a list of head, relation and tail"
        return Row(path, row.row, {}, problem=problem, text=row.text)
    try:
        return Row(path, row.row, value, _triple_columns(tuple(value), given), text=row.text)
    except InvalidInput as error:
        return Row(path, row.row, value, problem=error.problem, field=error.field, text=row.text)


@lru_cache(maxsize=256)
def _triple_columns(names: tuple[str, ...], given: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The column of each field. Beside a column of ids, as `head_id`, one of the same name without `id` has labels."""
    found = find_columns(names, TRIPLES, dict(given), needed=ENDS, form=f"; {TRIPLE_FORM}")
    bare = {bare_name(name): name for name in reversed(names)}
    for end in ENDS:
        of_id = _OF_ID.fullmatch(bare_name(found[end])) if end not in dict(given) else None
        if of_id and of_id[1] in bare:
            found.setdefault(f"{end}_label", bare[of_id[1]])
    return found


def _roles(names: Sequence[str], given: tuple[tuple[str, str], ...]) -> set[str]:
    """The fields of triples that have a column among these names."""
    try:
        return set(find_columns(names, TRIPLES, dict(given), needed=()))
    except InvalidInput:
        return set()


def _three(cells: Sequence[str]) -> Sequence[str]:
    if len(cells) != len(ENDS):
        raise InvalidInput(f"has {len(cells)} columns, and no header that is known; {TRIPLE_FORM}", row=1)
    return ENDS


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def name_rows(path: Path) -> Iterator[Row]:
    """The rows of a table of names with a header (`has_names`). Raises `InvalidInput` for one that cannot be read."""
    for row in read_rows(path, is_row=lambda keys: {"id", "label"} <= set(_name_columns(tuple(keys))), plain_tabs=True):
        if isinstance(row, InvalidRow):
            yield Row(path, row.row, {}, problem=row.problem, field=row.field, text=row.payload)
        elif isinstance(row.value, dict):
            yield Row(path, row.row, row.value, _name_columns(tuple(row.value)), text=row.text)
        else:
            yield Row(path, row.row, {}, problem="not a JSON object", text=row.text)


def has_names(path: Path) -> bool:
    """Whether the columns of a table of names are named: always, but for text whose first line is a row itself."""
    first = next(TextFile(path).lines(), (1, ""))[1]
    if first.lstrip().startswith(("{", "[", "PAR1")):
        return True
    found = _name_columns(tuple(re.split(r"[\t,;]", first)))
    return "id" in found and (len(found) > 1 or found["id"] == "id")


@lru_cache(maxsize=256)
def _name_columns(names: tuple[str, ...]) -> dict[str, str]:
    return find_columns(names, NAMES, {}, needed=())


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
