"""Read tables of triples and of names, under any usual column names, and N-Triples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

from trailforge.retrieval.kg.rows import INSTANCE_OF, Gathered, Row, TextFile, date_of, text_of
from trailforge.rows import (
    InvalidRow,
    JsonRow,
    bare_name,
    find_columns,
    head_of,
    open_file,
    parse_column_map,
    read_rows,
)
from trailforge.schemas import InvalidInput

SUBCLASS_OF = "subclass of"
_RDF, _RDFS = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2000/01/rdf-schema#"
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_IS_A = {f"{_RDF}type": INSTANCE_OF, f"{_RDFS}subClassOf": SUBCLASS_OF}
_LABELS = frozenset({f"{_RDFS}label", f"{_SKOS}prefLabel", "http://schema.org/name", "https://schema.org/name"})
_ALIASES = frozenset({f"{_SKOS}altLabel"})
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
"""Usual column names of the fields of a triple, for `rows.tables.find_columns`."""
NAMES: dict[str, tuple[str, ...]] = {
    "id": ("id", "qid", "pid", "mid", "entityid", "relationid", "nodeid", "iri", "uri"),
    "label": ("label", "name", "title", "preflabel", "entity", "relation"),
    "aliases": ("aliases", "alias", "synonyms", "altlabel", "altlabels"),
    "types": ("types", "type", "kinds", "kind", "instanceof", "classes", "class"),
}
"""Usual column names of the fields of a name."""
_OF_IDS = ("id", "qid", "pid", "mid", "wikidataid", "wikidataqid", "entityid", "iri", "uri")
"""What the name of a column of ids has more than that of the names beside it: `head_qid` and `head`."""
TRIPLE_FORM = (
    "a table of triples has the columns head, relation, tail (TSV, CSV, JSON or Parquet; --columns "
    "head=COLUMN,relation=COLUMN,tail=COLUMN for other names), or three columns and no header"
)
"""End of a message about the form of triples."""


def head_lines(path: Path) -> list[str]:
    """Return the lines at the start of a file, at least one, the last of which may be cut; bytes that are no UTF-8
    become U+FFFD. Raises `InvalidInput` for a file that cannot be read."""
    with open_file(path) as file:
        return head_of(file).decode("utf-8", "replace").split("\n")


def parse_columns(text: str) -> dict[str, str]:
    """Parse `head=subject,tail=object` to a map from the fields of a triple to the columns that hold them. Raises
    `InvalidInput` for an unknown field."""
    return parse_column_map(text, TRIPLES, "triples")


def triple_rows(path: Path, column_map: Mapping[str, str]) -> Iterator[Row]:
    """Yield the rows of a table of triples. A table without a header has three columns.

    Raises `InvalidInput` for a file that cannot be read, and for a table without the columns.
    """
    given = tuple(column_map.items())
    first = head_lines(path)[0].strip()
    if first.isascii() and first.isdigit():
        raise InvalidInput(
            "is OpenKE's form: a count, and then head, tail and relation by number; put the names of entity2id.txt "
            f"and relation2id.txt in their place; {TRIPLE_FORM}",
            file=path,
        )
    rows = read_rows(
        path,
        is_row=lambda keys: set(ENDS) <= _roles(keys, given).keys(),
        choose=lambda names: list(_triple_columns(tuple(names), given).values()),
        unnamed=lambda cells: None if given or _is_header(cells) else _three(cells, path),
        plain_tabs=True,
    )
    for row in rows:
        yield _triple_row(row, path, given)


def _triple_row(row: JsonRow | InvalidRow, path: Path, given: tuple[tuple[str, str], ...]) -> Row:
    if isinstance(row, InvalidRow):
        return Row(path, row.row, {}, problem=row.problem, fault=row.field, text=row.payload)
    value = row.value
    if isinstance(value, list) and len(value) == len(ENDS):
        return Row(path, row.row, dict(zip(ENDS, value, strict=True)), text=row.text)
    if not isinstance(value, dict):
        problem = "neither a JSON object nor a list of head, relation and tail"
        return Row(path, row.row, {}, problem=problem, text=row.text)
    try:
        return Row(path, row.row, value, _triple_columns(tuple(value), given), text=row.text)
    except InvalidInput as error:
        return Row(path, row.row, value, problem=error.problem, fault=error.field, text=row.text)


@lru_cache(maxsize=256)
def _triple_columns(names: tuple[str, ...], given: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The column of each field. Beside a column of ids, as `head_id`, one of the same name without `id` has labels.

    Where a map names the column of an end, one of ids beside it is read all the same: the end has its names.
    """
    columns = dict(given)
    found = find_columns(names, TRIPLES, columns, needed=ENDS, form=f"; {TRIPLE_FORM}")
    bare = {bare_name(name): name for name in reversed(names)}
    for end in ENDS:
        if f"{end}_label" in found:
            continue
        here = bare_name(found[end])
        ids = next((bare[here + more] for more in _OF_IDS if here + more in bare), None)
        named = next((bare[here.removesuffix(more)] for more in _OF_IDS if _is_beside(here, more, bare)), None)
        if ids is not None:
            found[end], found[f"{end}_label"] = ids, found[end]
        elif named is not None:
            found[f"{end}_label"] = named
    return found


def _is_beside(column: str, more: str, bare: Mapping[str, str]) -> bool:
    """Is this a column of ids with one of names beside it?"""
    return column.endswith(more) and column != more and column.removesuffix(more) in bare


def _roles(names: Sequence[str], given: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The fields of triples that have a column among these names, with it."""
    try:
        return find_columns(names, TRIPLES, dict(given), needed=())
    except InvalidInput:
        return {}


def _is_header(cells: Sequence[str]) -> bool:
    """Whether at least two columns are called as those of triples are, or all three where these are letters."""
    found = _roles(cells, ())
    words = [end for end in ENDS if len(found.get(end, "")) > 1]
    return len(words) > 1 or found.keys() >= set(ENDS)


def _three(cells: Sequence[str], path: Path) -> Sequence[str]:
    if len(cells) != len(ENDS):
        number = f"{len(cells)} column{'s' * (len(cells) != 1)}"
        raise InvalidInput(f"has {number}, and no header that is known; {TRIPLE_FORM}", file=path, row=1)
    return ENDS


def name_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a table of names with a header (`has_names`). Raises `InvalidInput` for one that cannot be
    read."""
    for row in read_rows(path, is_row=lambda keys: {"id", "label"} <= set(_name_columns(tuple(keys))), plain_tabs=True):
        if isinstance(row, InvalidRow):
            yield Row(path, row.row, {}, problem=row.problem, fault=row.field, text=row.payload)
        elif isinstance(row.value, dict):
            yield Row(path, row.row, row.value, _name_columns(tuple(row.value)), text=row.text)
        else:
            yield Row(path, row.row, {}, problem="not a JSON object", text=row.text)


def has_names(path: Path) -> bool:
    """Tell whether a table of names begins with the names of its columns. False only for a text file whose first line
    is a row already."""
    first = head_lines(path)[0]
    if first.startswith(("{", "[", "PAR1")):
        return True
    found = _name_columns(tuple(re.split(r"[\t,;]", first)))
    return "id" in found and (len(found) > 1 or found["id"] == "id")


@lru_cache(maxsize=256)
def _name_columns(names: tuple[str, ...]) -> dict[str, str]:
    return find_columns(names, NAMES, {}, needed=())


_STATEMENT = re.compile(
    r"\s*+(?P<head><[^<>\s]*+>|_:[^\s<>\"]++)\s*+<(?P<relation>[^<>\s]*+)>\s*+"
    r"(?:(?P<tail><[^<>\s]*+>|_:[^\s<>\"]++)"
    r"|\"(?P<value>(?:[^\"\\]|\\.)*+)\"(?:@(?P<language>[A-Za-z0-9-]++)|\^\^<(?P<kind>[^<>\s]*+)>)?+)"
    r"(?:\s*+<[^<>\s]*+>|\s++_:[^\s<>\"]++)?+\s*+\.\s*+(?:#.*+)?"
)
"""Of N-Triples, or of N-Quads, whose graph is not read (the W3C's RDF 1.1)."""
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}
_NO_TABLE = re.compile(r"(@prefix|@base|prefix|base)\b|<(\?xml|rdf:rdf|!doctype)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RdfStatement:
    """A statement of N-Triples. IRIs are without their angle brackets, blank nodes with `_:` before them."""

    head: str
    relation: str
    tail: str
    """Tail of the statement: an IRI or a blank node, or the content of a value."""
    kind: str | None
    """IRI of a value's type, empty where it has none; None for an entity."""
    language: str = ""
    """Code of a value's language in small letters; empty where it has none."""


def holds_statements(path: Path) -> bool:
    """Tell whether a file is N-Triples. Raises `InvalidInput` for other RDF, and for a file that cannot be read."""
    lines = (line.strip() for line in head_lines(path))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if _NO_TABLE.match(first):
        problem = f"is RDF in Turtle or XML; convert it to N-Triples (rapper -o ntriples, riot); {TRIPLE_FORM}"
        raise InvalidInput(problem, file=path)
    return first.startswith(("<", "_:"))


def read_statement(line: str) -> RdfStatement | None:
    """Return the statement of a line; None for a line that is none."""
    found = _STATEMENT.fullmatch(line)
    if found is None:
        return None
    try:
        head, relation, tail = (_unescaped(found[end] or "") for end in ENDS)
        value = _unescaped(found["value"] or "")
    except (ValueError, OverflowError):
        return None
    if found["tail"]:
        return RdfStatement(_bare_iri(head), relation, _bare_iri(tail), None)
    return RdfStatement(_bare_iri(head), relation, value, found["kind"] or "", (found["language"] or "").lower())


def name_of_iri(iri: str) -> str:
    """Return the last part of an IRI in readable form: `Fritz Lang` of `http://dbpedia.org/resource/Fritz_Lang`."""
    last = re.split(r"[/#:]", iri.rstrip("/#"))[-1]
    return " ".join(unquote(last, errors="replace").replace("_", " ").split()) or iri


def _bare_iri(text: str) -> str:
    return text[1:-1] if text.startswith("<") else text


def _unescaped(text: str) -> str:
    """Raises `ValueError` for a number that is no character's."""
    if "\\" not in text:
        return text
    found = _ESCAPE.sub(_unescape_one, text)
    found.encode()  # an escape may be half of a surrogate pair
    return found


def _unescape_one(found: re.Match[str]) -> str:
    number = found[1] or found[2]
    return chr(int(number, 16)) if number else _ESCAPED.get(found[3], found[3])


def read_statements(file: TextFile, into: Gathered) -> None:
    """Read a file of N-Triples. An IRI is named by its labels, the English one first, else by its last part."""
    entities: dict[str, None] = {}
    relations: dict[str, None] = {}
    names: dict[str, list[tuple[bool, str, str]]] = {}
    for number, line in file.lines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = read_statement(line) if "\ufffd" not in line else None
        if found is None:
            expected = "no statement of N-Triples, as <http://a/Vienna> <http://a/country> <http://a/Austria> ."
            into.reject(file, number, None, "not UTF-8 text" if "\ufffd" in line else expected, line)
            continue
        if found.kind is not None and found.relation in _LABELS | _ALIASES:
            is_alias = found.relation in _ALIASES
            names.setdefault(found.head, []).append((is_alias, found.language, found.tail))
            into.rows += 1
            continue
        entities[found.head] = None
        relation = _IS_A.get(found.relation, found.relation)
        if relation == found.relation:
            relations[relation] = None
        if found.kind is None:
            entities[found.tail] = None
            into.triple(found.head, relation, found.tail)
        elif value := (date_of(found.tail) if "date" in found.kind.lower() else None) or text_of(found.tail):
            into.fact(found.head, relation, value)
        else:
            into.reject(file, number, "tail", "must be a text that is not empty", line)
    for things, keys in ((into.entities, entities), (into.relations, relations)):
        for key in keys:
            things.add(key, list(_names_in_order(names.get(key, ()))) or [name_of_iri(key)])


def _names_in_order(names: Iterable[tuple[bool, str, str]]) -> Iterator[str]:
    """Labels before aliases, of each those in English first, then those in no language."""
    languages = {"en": 0, "": 1}
    ordered = sorted(names, key=lambda each: (each[0], languages.get(each[1].partition("-")[0], 2)))
    yield from (name for _, _, name in ordered)
