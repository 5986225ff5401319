"""Read graphs from their sources: Wikidata5M and CoDEx as published, tables of triples, and JSON in the form of KQA
Pro.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trailforge.retrieval.kg.rows import (
    INSTANCE_OF,
    Gathered,
    NamedThings,
    Row,
    TextFile,
    members_of,
    readable,
    text_of,
    value_of,
)
from trailforge.retrieval.kg.tables import (
    ENDS,
    SUBCLASS_OF,
    has_names,
    head_lines,
    holds_statements,
    name_rows,
    read_statements,
    triple_rows,
)
from trailforge.schemas import InvalidInput, parse_json, read_limited

_KQA = re.compile(r'\s*{\s*("concepts"|"entities")\s*:\s*{')
_BROKEN = "\ufffd"


class KgSource(Protocol):
    """The interface of a graph's published files, from which a store is built."""

    @property
    def name(self) -> str:
        """Return the name of the graph or of its format."""
        ...

    def files(self) -> list[Path]:
        """Return the files to be read. Raises `InvalidInput` when something is missing."""
        ...

    def read(self, into: Gathered) -> None:
        """Read all rows. Raises `InvalidInput` for files that cannot be used at all."""
        ...


@dataclass(frozen=True, slots=True)
class Wikidata5M:
    """A folder with the files of Wikidata5M, unpacked, gzipped, or in the published `.tar.gz` archives.

    Triples are `wikidata5m_{transductive,inductive}_{train,valid,test}.txt` of both splits, names
    `wikidata5m_entity.txt` and `wikidata5m_relation.txt`.
    """

    folder: Path
    name = "wikidata5m"

    def files(self) -> list[Path]:
        """Return the files to be read; see `KgSource.files`."""
        return sorted({file.path for file in self._found().values()})

    def read(self, into: Gathered) -> None:
        """Read all rows; see `KgSource.read`."""
        files = self._found()
        _named_lines(files["wikidata5m_entity"], into, into.entities)
        _named_lines(files["wikidata5m_relation"], into, into.relations)
        for split in _WIKIDATA5M_TRIPLES:
            _triple_lines(files[split], into)

    def _found(self) -> dict[str, TextFile]:
        found: dict[str, TextFile] = {}
        for path in sorted(self.folder.glob("wikidata5m_*")):
            packed = path.name.endswith((".tar.gz", ".tgz", ".tar"))
            for file in members_of(path) if packed else [TextFile(path)]:
                stem = Path(file.member or path.name).name.removesuffix(".gz").removesuffix(".txt")
                found.setdefault(stem, file)
        wanted = (*_WIKIDATA5M_TRIPLES, "wikidata5m_entity", "wikidata5m_relation")
        missing = [f"{stem}.txt" for stem in wanted if stem not in found]
        if missing:
            raise InvalidInput(
                f"lacks {', '.join(missing)}; expected Wikidata5M's archives transductive, inductive and alias",
                file=self.folder,
            )
        return {stem: found[stem] for stem in wanted}


_WIKIDATA5M_TRIPLES = tuple(
    f"wikidata5m_{split}_{part}" for split in ("transductive", "inductive") for part in ("train", "valid", "test")
)


@dataclass(frozen=True, slots=True)
class Codex:
    """A checkout of CoDEx's `data/`: `triples/*/{train,valid,test}.txt` of all sizes, English labels.

    Types of entities in `types/`, where it exists, become triples *instance of*.
    """

    folder: Path
    name = "codex"

    def files(self) -> list[Path]:
        """Return the files to be read; see `KgSource.files`."""
        triples = [p for p in sorted(self.folder.glob("triples/*/*.txt")) if p.stem in ("train", "valid", "test")]
        if not triples:
            raise InvalidInput("has no triples/*/train.txt; expected the folder data/ of CoDEx", file=self.folder)
        return [*self._names().values(), *triples, *self._types()]

    def read(self, into: Gathered) -> None:
        """Read all rows; see `KgSource.read`."""
        for kind, path in self._names().items():
            _named_objects(path, into, into.entities if kind == "entities" else into.relations)
        types = self._types()
        for path in self.files()[2:]:
            if path not in types:
                _triple_lines(TextFile(path), into)
        if types:
            classes, of_entities = types
            _named_objects(classes, into, into.entities)
            for number, (key, found) in enumerate(_object(of_entities).items(), start=1):
                for each in _listed(Row(of_entities, number, {key: found}), key, into):
                    into.instance(key, str(each))

    def _types(self) -> list[Path]:
        paths = [self.folder / "types" / "en" / "types.json", self.folder / "types" / "entity2types.json"]
        return paths if all(path.is_file() for path in paths) else []

    def _names(self) -> dict[str, Path]:
        return {kind: self.folder / kind / "en" / f"{kind}.json" for kind in ("entities", "relations")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Triples and names in tables: TSV, JSON Lines (each gzipped too) or Parquet.

    Triples have the columns `head`, `relation`, `tail` (an id, or a value as `value_of` reads it), and may have
    `head_label`, `relation_label`, `tail_label`; a TSV file without a header has the first three. Where an id is
    missing, the label is the id. Names have `id` (or `qid`, `pid`, `mid`), `label` and `aliases` (a list, or a text
    with `|` between them), entities also `types`, each an id or a label, that become triples *instance of*; a TSV file
    without a header has an id and then the names, the label first. Without a name an id is its own.
    """

    triples: tuple[Path, ...]
    entities: tuple[Path, ...] = ()
    relations: tuple[Path, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    """Pairs of a field and the column of triples that holds it, where their names differ: `(("head", "head_qid"),
    ("head_label", "head"))`."""
    name: str = "tables"

    def files(self) -> list[Path]:
        """Return the files to be read; see `KgSource.files`."""
        return [*self.entities, *self.relations, *self.triples]

    def read(self, into: Gathered) -> None:
        """Read all rows; see `KgSource.read`."""
        for path in self.entities:
            _named_rows(path, into, into.entities)
        for path in self.relations:
            _named_rows(path, into, into.relations)
        labelled: set[tuple[str, str, str]] = set()
        for path in self.triples:
            if holds_statements(path):
                read_statements(TextFile(path), into)
                continue
            for row in triple_rows(path, dict(self.columns)):
                _labelled_triple(row, labelled, into)


@dataclass(frozen=True, slots=True)
class KqaJson:
    """A `kb.json` as KQA Pro has it: concepts, entities, and their relations, each of which names one direction.

    Relations have no ids there, so their names are their ids. A concept that an entity or concept is `instanceOf`
    becomes a triple, *instance of* or *subclass of*; so does an attribute, whose tail is a value.
    """

    path: Path
    name = "kqa"

    def files(self) -> list[Path]:
        """Return the files to be read; see `KgSource.files`."""
        return [self.path]

    def read(self, into: Gathered) -> None:
        """Read all rows; see `KgSource.read`."""
        graph = _object(self.path)
        number = 0
        for kind, is_a in (("concepts", SUBCLASS_OF), ("entities", INSTANCE_OF)):
            for key, fields in _fields(graph.get(kind)).items():
                number += 1
                row = Row(self.path, number, {**_fields(fields), "id": key, "label": _fields(fields).get("name")})
                if _named_row(row, into, into.entities):
                    _kqa_triples(row, key, is_a, into)


def open_source(
    path: Path, *, entities: Iterable[Path] = (), relations: Iterable[Path] = (), columns: dict[str, str] | None = None
) -> KgSource:
    """Return the source at a path: a folder of Wikidata5M, of CoDEx, or of `triples.tsv`, `entities.tsv` and
    `relations.tsv`; KQA Pro's `kb.json`, which begins with its concepts or entities; else a table of triples.

    `entities`, `relations`: tables of names, for a source of tables. `columns`: the column of each field of the triples
    whose name differs. Raises `InvalidInput` for a folder that is none of these.
    """
    if path.is_dir():
        if (path / "triples").is_dir():
            return Codex(path)
        if any(path.glob("wikidata5m*")):
            return Wikidata5M(path)
        if not (path / "triples.tsv").is_file():
            raise InvalidInput(
                "holds neither Wikidata5M's files, nor CoDEx's triples/, nor triples.tsv; tables of triples are given "
                "by file: trailforge kg build triples.parquet --entities names.jsonl --out KG",
                file=path,
            )
        entities = [file for file in (path / "entities.tsv", *entities) if file.is_file()]
        relations = [file for file in (path / "relations.tsv", *relations) if file.is_file()]
        path = path / "triples.tsv"
    if path.name == "kb.json" or _KQA.match("\n".join(head_lines(path))):
        return KqaJson(path)
    return Tables(
        triples=(path,),
        entities=tuple(entities),
        relations=tuple(relations),
        columns=tuple((columns or {}).items()),
    )


def _triple_lines(file: TextFile, into: Gathered) -> None:
    for number, line in file.lines():
        parts = line.split("\t")
        if len(parts) == len(ENDS) and all(map(str.strip, parts)) and _BROKEN not in line:
            into.triple(*parts)
        else:
            into.reject(file, number, None, _problem(line, "expected head, relation and tail, each with a tab"), line)


def _named_lines(file: TextFile, into: Gathered, things: NamedThings) -> None:
    for number, line in file.lines():
        key, *names = line.split("\t")
        if key.strip() and any(map(str.strip, names)) and _BROKEN not in line:
            into.named(things, key, names)
        else:
            into.reject(file, number, None, _problem(line, "expected an id and its names, each with a tab"), line)


def _problem(line: str, expected: str) -> str:
    return "not UTF-8 text" if _BROKEN in line else expected


def _named_rows(path: Path, into: Gathered, things: NamedThings) -> None:
    if has_names(path):
        for row in name_rows(path):
            _named_row(row, into, things)
    else:
        _named_lines(TextFile(path), into, things)


def _named_objects(path: Path, into: Gathered, things: NamedThings) -> None:
    for number, (key, fields) in enumerate(_object(path).items(), start=1):
        _named_row(Row(path, number, {**_fields(fields), "id": key}), into, things)


def _named_row(row: Row, into: Gathered, things: NamedThings) -> bool:
    """Take in an id with label and aliases; False when the row is invalid."""
    key, label = text_of(row.get("id")), text_of(row.get("label"))
    aliases, types = _parted(row.get("aliases")), _parted(row.get("types")) if things is into.entities else []
    if row.problem or key is None or label is None:
        field = row.fault if row.problem else "label" if key else "id"
        into.reject(row.file, row.number, field, row.problem or "must be a text that is not empty", row.payload)
    elif aliases is None or types is None:
        field = "aliases" if aliases is None else row.columns.get("types", "types")
        into.reject(row.file, row.number, field, "must be a list of texts", row.payload)
    else:
        into.named(things, key, [label, *aliases])
        for kind in types:
            into.instance(key, kind)
        return True
    return False


def _parted(value: Any) -> list[str] | None:
    """The texts of a list, or of a text with `|` between them; None for anything else."""
    texts = value.split("|") if isinstance(value, str) else value or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return None
    return [text for each in texts if (text := text_of(each))]


def _labelled_triple(row: Row, labelled: set[tuple[str, str, str]], into: Gathered) -> None:
    ids = [text_of(row.get(end)) or text_of(row.get(f"{end}_label")) for end in ENDS]
    bad = next((row.columns.get(end, end) for end, key in zip(ENDS, ids, strict=True) if key is None), None)
    if row.problem or bad:
        problem = row.problem or "must be a text that is not empty"
        into.reject(row.file, row.number, row.fault if row.problem else bad, problem, row.payload)
        return
    head, relation, tail = (str(key) for key in ids)
    value = value_of(tail)
    if value is None:
        into.triple(head, relation, tail)
    else:
        into.fact(head, relation, value)
    named = (("head", head), ("relation", relation), ("tail", tail))
    for end, key in named if value is None else named[:2]:
        label = text_of(row.get(f"{end}_label"))
        kind = "relation" if end == "relation" else "entity"
        if label and (kind, key, label) not in labelled:
            labelled.add((kind, key, label))
            (into.relations if kind == "relation" else into.entities).add(key, [label])


def _kqa_triples(row: Row, key: str, is_a: str, into: Gathered) -> None:
    for concept in _listed(row, "instanceOf", into):
        into.triple(key, is_a, str(concept))
    for position, attribute in enumerate(_listed(row, "attributes", into)):
        fields = _fields(attribute)
        name, value = text_of(fields.get("key")), _kqa_value(_fields(fields.get("value")))
        if name is None or value is None:
            payload = json.dumps(attribute, ensure_ascii=False)
            into.reject(row.file, row.number, f"attributes[{position}]", "must have key and value", payload)
        else:
            into.fact(key, name, value)
    for position, relation in enumerate(_listed(row, "relations", into)):
        fields = _fields(relation)
        name, other = text_of(fields.get("predicate", fields.get("relation"))), text_of(fields.get("object"))
        direction = fields.get("direction")
        if name is None or other is None or direction not in ("forward", "backward"):
            expected = "must have predicate, object, and a direction that is forward or backward"
            payload = json.dumps(relation, ensure_ascii=False)
            into.reject(row.file, row.number, f"relations[{position}]", expected, payload)
        else:
            into.triple(*((key, name, other) if direction == "forward" else (other, name, key)))


def _kqa_value(value: dict[str, Any]) -> str | None:
    """A value with its unit, a date as people read it; None where there is none."""
    content, unit = value.get("value"), value.get("unit")
    if isinstance(content, float) and content.is_integer():
        content = int(content)
    text = str(content) if isinstance(content, int | float) and not isinstance(content, bool) else text_of(content)
    if text is None:
        return None
    if value.get("type") == "date":
        return value_of(text) or text
    return f"{text} {unit}" if isinstance(unit, str) and unit not in ("", "1") else text


def _listed(row: Row, field: str, into: Gathered) -> list[Any]:
    value = row.fields.get(field) or []
    if isinstance(value, list):
        return value
    into.reject(row.file, row.number, field, "must be a list", row.payload)
    return []


def _object(path: Path) -> dict[str, Any]:
    with readable(path), TextFile(path).opened() as file:
        try:
            value = parse_json(read_limited(file, path).decode("utf-8-sig"))
        except ValueError as error:
            raise InvalidInput(f"not JSON ({error})", file=path) from error
    if not isinstance(value, dict):
        raise InvalidInput("not a JSON object", file=path)
    return value


def _fields(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
