"""Read an opened store: entities, names and triples, from memory-mapped files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from trailforge.retrieval.kg.build import id_hash
from trailforge.retrieval.kg.columns import Texts, bits_of, load, places
from trailforge.retrieval.kg.folding import Spellings, name_words
from trailforge.retrieval.kg.graph import Adjacency
from trailforge.retrieval.kg.layout import check_hashes, check_once, hold_files, raise_damage, read_manifest, reads
from trailforge.retrieval.kg.names import NameIndex
from trailforge.retrieval.kg.rows import CODE, shape_of
from trailforge.schemas import InvalidInput, KgEntity, KgTriple

Direction = Literal["out", "into"]
"""Side of a triple that an entity is on: `out` as its head, `into` as its tail."""
_CODE = re.compile(CODE)
_MOST_SHAPES = 10_000
_WORDINGS = "relation_aliases.txt"


@cache
def _common_wordings() -> dict[str, tuple[str, ...]]:
    """What people call Wikidata's common relations, by the words of the label; `<` before what asks the way back."""
    lines = (files("trailforge.retrieval.kg") / _WORDINGS).read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return {" ".join(name_words(label)): tuple(others) for label, *others in rows}


class KgStore:
    """A knowledge graph on disk, read-only. Opening reads no column, so it takes milliseconds at any size.

    Callers outside the package identify entities and relations by id, the package itself by row; `out` and `into` allow
    walking the graph, by row too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stats = (manifest := read_manifest(folder)).stats
        """What the store holds."""
        self.held_files = hold_files(folder, manifest)
        """To be looked at around every search."""
        self._ids = Texts.load(folder, "ids")
        self._id_rows = load(folder, "ids.buckets"), load(folder, "ids.rows")
        self._names, self._names_of = Texts.load(folder, "names"), load(folder, "names.of")
        self._relations = Texts.load(folder, "relations")
        self._relation_names = Texts.load(folder, "relation_names"), load(folder, "relation_names.of")
        self.out, self.into = Adjacency.load(folder, "out"), Adjacency.load(folder, "into")
        self.names = NameIndex(folder)

    @classmethod
    def open(cls, folder: Path) -> KgStore:
        """Open a folder that `build_kg` made. Files are compared by size; `check_once` compares all their bytes.

        Raises `InvalidInput` when the folder is no store, and `RetrievalError` when it is damaged or of another format.
        """
        return cls(folder)

    def check(self) -> None:
        """Compare every file with its hash. Raises `RetrievalError` when one is damaged."""
        check_hashes(self.folder)

    def check_once(self) -> None:
        """Run `check`, unless that was done since any file was written. Call it before the store is used."""
        check_once(self.folder)

    def __len__(self) -> int:
        return len(self._ids)

    # By id

    @reads
    def __contains__(self, entity: object) -> bool:
        return isinstance(entity, str) and self.find(entity) is not None

    @reads
    def entity(self, entity: str) -> KgEntity:
        """Return an entity by id. Raises `InvalidInput` for an unknown id, as all methods do."""
        row = self.row(entity)
        label, *aliases = self.names_of(row)
        return KgEntity(id=entity, label=label, aliases=tuple(aliases), degree=self.degree_of(row))

    @reads
    def label(self, entity: str) -> str:
        """Return the entity's first name."""
        return self.label_of(self.row(entity))

    @reads
    def aliases(self, entity: str) -> tuple[str, ...]:
        """Return the entity's other names."""
        return tuple(self.names_of(self.row(entity))[1:])

    @reads
    def degree(self, entity: str) -> int:
        """Return the number of triples with the entity as head, plus the number with it as tail."""
        return self.degree_of(self.row(entity))

    @reads
    def relation_label(self, relation: str) -> str:
        """Return the first name of a relation."""
        return self.relation_names[self.relation_row(relation)][0]

    @reads
    def relations_of(self, entity: str, direction: Direction) -> list[tuple[str, int]]:
        """Return the relations that an entity has in a direction, with the number of neighbours over each."""
        row, side = self.row(entity), getattr(self, direction)
        lengths = side.run_lengths(row).tolist()
        return [(self._relations[r], n) for r, n in zip(side.relations_of(row).tolist(), lengths, strict=True)]

    @reads
    def neighbours(self, entity: str, relation: str, direction: Direction) -> list[str]:
        """Return the entities that a relation leads to: from a head to its tails (`out`), or back (`into`)."""
        side: Adjacency = getattr(self, direction)
        return self._ids.many(side.neighbours_of(self.row(entity), self.relation_row(relation)))

    def triples_of(self, entity: str, relation: str | None = None) -> Iterator[KgTriple]:
        """Return the entity's triples as head, then those as tail; only of one relation if one is given. A loop is
        returned once."""
        try:
            yield from self._triples_of(self.row(entity), None if relation is None else self.relation_row(relation))
        except Exception as error:
            raise_damage(self.folder, error)
            raise

    def _triples_of(self, row: int, wanted: int | None) -> Iterator[KgTriple]:
        for side in (self.out, self.into):
            for each in side.relations_of(row).tolist() if wanted is None else [wanted]:
                for other in side.neighbours_of(row, each).tolist():
                    if side is self.out:
                        yield self.triple(row, each, other)
                    elif other != row:
                        yield self.triple(other, each, row)

    # By row

    def find(self, entity: str) -> int | None:
        """Return the row of an entity; None for an unknown id."""
        starts, rows = self._id_rows
        bucket = id_hash(entity) >> (32 - bits_of(starts))
        return next(
            (r for r in rows[int(starts[bucket]) : int(starts[bucket + 1])].tolist() if self._ids[r] == entity), None
        )

    def is_value(self, row: int) -> bool:
        """Tell whether a row is a value of a fact, such as a date, a number or a text, rather than an entity."""
        return self._ids[row].startswith('"') and not self.out.degree(row)

    def row(self, entity: str) -> int:
        """Return the row of an entity. Raises `InvalidInput` for an unknown id."""
        row = self.find(entity)
        if row is None:
            raise InvalidInput(f"{self.folder} has no entity {entity!r}", field="entity")
        return row

    def relation_row(self, relation: str) -> int:
        """Return the row of a relation."""
        row = self._relation_rows.get(relation)
        if row is None:
            raise InvalidInput(f"{self.folder} has no relation {relation!r}", field="relation")
        return row

    def id_of(self, row: int) -> str:
        """Return an entity's id."""
        return self._ids[row]

    def label_of(self, row: int) -> str:
        """Return an entity's first name."""
        return self._names[int(self._names_of[row])]

    def labels_of(self, rows: np.ndarray) -> list[str]:
        """Return the first names of several entities."""
        return self._names.many(self._names_of[rows])

    def is_named(self, row: int) -> bool:
        """Tell whether an entity's label is a name. An entity without names has its id as its label: that counts as a
        name unless it is a code, such as `Q42` or a URI, or is built like the ids of this graph's named entities."""
        label = self.label_of(row)
        return label != self._ids[row] or not (_CODE.fullmatch(label) or shape_of(label) in self._code_shapes)

    @cached_property
    def _code_shapes(self) -> frozenset[str]:
        """How the ids of named entities are built, as some from everywhere show."""
        rows = np.unique(np.linspace(0, max(len(self) - 1, 0), min(len(self), _MOST_SHAPES)).astype(np.int64))
        pairs = zip(self._ids.many(rows), self.labels_of(rows), strict=True)
        return frozenset(shape_of(key) for key, label in pairs if key != label and not key.startswith('"'))

    def names_of(self, row: int) -> list[str]:
        """Return all names of an entity, the label first."""
        return self._names.between(int(self._names_of[row]), int(self._names_of[row + 1]))

    @reads
    def namesakes(self, name: str) -> np.ndarray:
        """Return the entities that have this name, as label or alias, as ascending rows; case, accents and punctuation
        are ignored.
        """
        words = name_words(name)
        names = self.names.exactly(words)
        same = [name_words(text) == words for text in self._names.many(names)]
        return np.unique(self.owners(names[np.array(same, bool)]))

    @reads
    def has_word(self, word: str) -> bool:
        """Tell whether a name of an entity, label or alias, has this word; case and accents are ignored."""
        return any(self.names.vocabulary.find(each) is not None for each in name_words(word))

    def owners(self, names: np.ndarray) -> np.ndarray:
        """Return the rows of the entities whose names these are; names are given by their rows. Shape as given."""
        return places(self._names_of, names, "right") - 1

    def are_labels(self, names: np.ndarray, owners: np.ndarray) -> np.ndarray:
        """Return which names, by row, are the labels (not aliases) of their entities `owners`; shape as given."""
        return self._names_of[owners] == names

    def name_texts(self, names: np.ndarray) -> list[str]:
        """Return the texts of names, given by their rows."""
        return self._names.many(names)

    def degree_of(self, row: int) -> int:
        """Return the degree of an entity; see `degree`."""
        return self.out.degree(row) + self.into.degree(row)

    def degrees(self, rows: np.ndarray) -> np.ndarray:
        """Return `degree` of several entities; int64, shape as given."""
        return self.out.degrees(rows) + self.into.degrees(rows)

    def triple(self, head: int, relation: int, tail: int) -> KgTriple:
        """Return the triple of these rows in readable form."""
        return KgTriple(
            head=self._ids[head],
            relation=self._relations[relation],
            tail=self._ids[tail],
            head_label=self.label_of(head),
            relation_label=self.relation_names[relation][0],
            tail_label=self.label_of(tail),
        )

    def relation_id(self, row: int) -> str:
        """Return a relation's id."""
        return self._relations[row]

    @cached_property
    def relation_names(self) -> list[list[str]]:
        """Return all names of every relation, by row, the label first. They are held in memory: there are about a
        thousand."""
        texts, starts = self._relation_names
        bounds = starts.tolist()
        names = texts.between(0, len(texts))
        return [names[first:last] for first, last in pairwise(bounds)]

    @cached_property
    def relation_words(self) -> list[frozenset[str]]:
        """Return the words of all names of every relation, by row."""
        words: list[set[str]] = [set() for _ in self.relation_names]
        for row, name, is_reversed in self.relation_wordings:
            if not is_reversed:
                words[row].update(name_words(name))
        return list(map(frozenset, words))

    @cached_property
    def relation_wordings(self) -> list[tuple[int, str, bool]]:
        """Return all wordings of relations, those of a relation together: the relation's row, the wording, and True
        where it leads from tail to head. A relation's label comes first.

        They are its names; common wordings of Wikidata's relations where a relation of that label has no alias; and
        wordings for the reverse direction of any relation of that label.
        """
        common = _common_wordings()
        found: list[tuple[int, str, bool]] = []
        for row, names in enumerate(self.relation_names):
            others = common.get(" ".join(name_words(names[0])), ())
            found += [(row, name, False) for name in names]
            found += [(row, name, False) for name in others if not name.startswith("<") and len(names) == 1]
            found += [(row, name[1:], True) for name in others if name.startswith("<")]
        return found

    @cached_property
    def relation_wording_words(self) -> Spellings:
        """Return the words of all `relation_wordings`, in their order."""
        return Spellings.of([name_words(name) for _, name, _ in self.relation_wordings])

    @cached_property
    def relation_wordings_with(self) -> dict[str, list[int]]:
        """Return for each word the positions in `relation_wordings` of those that contain it."""
        found: dict[str, list[int]] = {}
        for place, words in enumerate(self.relation_wording_words.distinct):
            for word in words:
                found.setdefault(word, []).append(place)
        return found

    @cached_property
    def _relation_rows(self) -> dict[str, int]:
        return {self._relations[row]: row for row in range(len(self._relations))}
