"""A knowledge graph's records: entities, triples, what a mention matched, and a store's figures (DynaSearcher)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

MatchKind = Literal["label", "alias", "word_order", "fuzzy"]
"""How a name agrees with a mention, case, accents and punctuation aside: it is the label, it is an alias, it has the
same words in another order, or it is only similar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgEntity:
    """A node of the graph."""

    SCHEMA_VERSION: ClassVar[str] = "1.0"

    id: str
    label: str
    """The first name that the source gives; the id where it gives none."""
    aliases: tuple[str, ...]
    """Its other names."""
    degree: int
    """Triples it is head of, plus triples it is tail of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgTriple:
    """An edge, readable: ids with their labels."""

    SCHEMA_VERSION: ClassVar[str] = "1.0"

    head: str
    relation: str
    tail: str
    head_label: str
    relation_label: str
    tail_label: str

    @property
    def text(self) -> str:
        """As a model reads it, one line."""
        return f"{self.head_label} | {self.relation_label} | {self.tail_label}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityMatch:
    """An entity that a mention may mean."""

    SCHEMA_VERSION: ClassVar[str] = "1.0"

    entity_id: str
    label: str
    name: str
    """The name that matched best: the label or an alias."""
    kind: MatchKind
    score: float
    """0 to 1; 1 only for the label itself. Rounded to 6 decimals."""
    margin: float
    """How far the score is above that of the best other entity: 0 when names collide, negative for all but the best,
    the score itself when there is no other."""
    overlap: int
    """Words of the sub-query that the entity or its neighbourhood has; counted only where scores are equal."""
    degree: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationMatch:
    """A relation that a phrase may mean."""

    SCHEMA_VERSION: ClassVar[str] = "1.0"

    relation_id: str
    label: str
    name: str
    """The name that matched best: the label or an alias."""
    score: float
    """0 to 1. Rounded to 6 decimals."""
    margin: float
    """As in `EntityMatch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgStats:
    """What a store holds."""

    SCHEMA_VERSION: ClassVar[str] = "1.0"

    entities: int
    relations: int
    triples: int
    """Distinct ones."""
    duplicate_triples: int
    """Rows of the source that gave a triple again."""
    names: int
    """Labels and aliases of all entities."""
    words: int
    """Distinct words in these names."""
    unnamed_entities: int
    """The source has triples of them but no name."""
    isolated_entities: int
    """The source names them but has no triple of them."""
    rows: int
    """Rows read."""
    invalid_rows: int
    """Rows left out, each with its reason in `rejected.parquet` in the store's folder."""
    mean_degree: float
    max_degree: int
    bytes: int
    """All files of the store."""
