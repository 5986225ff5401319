"""Records of a knowledge graph: entities, triples, the matches of a name, the size of a store, and questions over the
graph (DynaSearcher).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.bundle import FilterScore
from trailforge.schemas.provenance import Provenance
from trailforge.schemas.question import AskedQuestion, Hop
from trailforge.schemas.versions import Earlier, migration

MatchKind = Literal["label", "alias", "word_order", "unqualified", "fuzzy"]
"""How a name agrees with a mention, ignoring case, accents and punctuation: it is the label, it is an alias, it has the
same words in another order, it agrees without a bracket or up to a comma, or it is only similar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgEntity:
    """An entity of a knowledge graph, with its id, names and number of triples."""

    id: str
    label: str
    """The first name that the source gives; the id where it gives none."""
    aliases: tuple[str, ...]
    """Other names of the entity."""
    degree: int
    """Number of triples with this entity as head, plus the number with it as tail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgTriple:
    """An edge of the graph, readable: ids together with their labels."""

    head: str
    relation: str
    tail: str
    head_label: str
    relation_label: str
    tail_label: str

    @property
    def text(self) -> str:
        """Return the triple as one line of text for a model to read."""
        return f"{self.head_label} | {self.relation_label} | {self.tail_label}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityMatch:
    """An entity that a mention may mean."""

    entity_id: str
    label: str
    name: str
    """The name that matched best: the label or an alias."""
    kind: MatchKind
    score: float
    """Agreement of the names from 0 to 1, rounded to 6 decimals; 1 only for the label itself."""
    margin: float
    """Difference between this score and that of the best other entity: 0 when names collide, negative for all but the
    best, the score itself when there is no other."""
    overlap: int
    """Number of words of the sub-query that the entity or its neighbourhood also has; counted only where scores are
    equal."""
    degree: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationMatch:
    """A relation that a phrase may mean."""

    relation_id: str
    label: str
    name: str
    """The name that matched best: the label or an alias."""
    score: float
    """Similarity from 0 to 1, rounded to 6 decimals."""
    margin: float
    """Difference between this score and that of the best other relation; see `EntityMatch.margin`."""
    direction: Literal["out", "into"] | None = None
    """End of the triple that the phrase describes: `out` the head ("directed by"), `into` the tail ("director of");
    None where it may be either ("director")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgStats:
    """Size of a knowledge graph's store."""

    entities: int
    relations: int
    triples: int
    """Number of distinct triples."""
    duplicate_triples: int
    """Number of source rows that repeat a triple."""
    names: int
    """Number of labels and aliases of all entities."""
    words: int
    """Number of distinct words in these names."""
    unnamed_entities: int
    """Number of entities that have triples but no name in the source."""
    isolated_entities: int
    """Number of entities that have a name but no triple in the source."""
    rows: int
    """Number of source rows that were read."""
    invalid_rows: int
    """Number of source rows left out, each listed with its reason in `rejected.parquet` in the store's folder."""
    mean_degree: float
    max_degree: int
    bytes: int
    """Size in bytes of all files of the store."""
    entities_by_name: int = 0
    """Number of entities that the source identifies by name alone, so that two of one name become one. 0 also in stores
    of earlier versions."""


KgShape = Literal["chain", "intersection", "intersection_inside"]
"""Shape of a question. `chain`: one start, one fact after the other. `intersection`: two chains meet in the answer.
`intersection_inside`: they meet in a bridge, from which a chain leads on."""
KgWriter = Literal["model", "templates"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KgNode:
    """An entity that a question involves."""

    id: str
    label: str
    aliases: tuple[str, ...]
    kind: str
    """What the graph says the entity is an instance of (`person` for a human); empty when it says nothing."""
    role: str
    """Occupation of a person, where the graph states it; else empty."""
    matches: int
    """For a start, the number of entities that have its label as a name. For a bridge or answer, the number of entities
    that satisfy all facts leading to it, with every namesake of the starts taken for the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgFact:
    """A triple that a question asks for, with the direction in which it is followed."""

    triple: KgTriple
    known: str
    """Id of the entity that is known before: a start or a bridge."""
    found: str
    """Id of the entity that the fact leads to: a bridge or the answer."""
    relation_aliases: tuple[str, ...]
    fan_out: int
    """Number of entities that the relation leads to from `known` in this direction, `found` among them."""
    left_without: int
    """Number of entities that satisfy the question when this fact is left out of it, counted up to the sampler's
    limit."""

    @property
    def is_forward(self) -> bool:
        """Tell whether the triple is followed from its head to its tail."""
        return self.known == self.triple.head


@dataclass(frozen=True, slots=True, kw_only=True)
class FactChain:
    """Facts that lead from one or two named entities to an answer, and to nothing else in the graph."""

    STORED_AS: ClassVar[str] = "FactChain"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    id: str
    """Hash of the facts."""
    shape: KgShape
    facts: tuple[KgFact, ...]
    """Facts in an order in which each comes after those that lead to its `known`."""
    starts: tuple[KgNode, ...]
    """Entities that the question names."""
    bridges: tuple[KgNode, ...]
    """Entities that are found on the way, in the order in which they are found; the question does not name them."""
    answer: KgNode

    @property
    def found(self) -> tuple[KgNode, ...]:
        """Return the entities that are found, in order: intermediate ones, then the answer. The k-th is the answer of
        hop k of a decomposition.
        """
        return (*self.bridges, self.answer)

    def leading_to(self, node: KgNode) -> tuple[KgFact, ...]:
        """Return the facts that lead to an intermediate entity or the answer: one, or more where chains meet or a
        starting entity is described.
        """
        return tuple(fact for fact in self.facts if fact.found == node.id)

    def needed_for(self, node: KgNode) -> tuple[int, ...]:
        """Return the numbers, from 1, of the earlier entities from which an intermediate one or the answer is found."""
        numbers = {each.id: number for number, each in enumerate(self.found, start=1)}
        return tuple(sorted(numbers[fact.known] for fact in self.leading_to(node) if fact.known in numbers))


@dataclass(frozen=True, slots=True, kw_only=True)
class KgQuestion:
    """A question over a knowledge graph, with the facts that it asks for. The table `kg_questions`."""

    STORED_AS: ClassVar[str] = "KgQuestion"
    SCHEMA_VERSION: ClassVar[str] = "1.1"
    EARLIER: ClassVar[Earlier] = {"1.0": migration()}

    uid: str
    question: str
    answer: str
    answer_aliases: tuple[str, ...]
    decomposition: tuple[Hop, ...]
    """Gold hops: one for each bridge and one for the answer. Two facts that meet are one hop."""
    chain: FactChain
    path: tuple[str, ...]
    """Facts of the question as text, in their order."""
    entities: tuple[str, ...]
    """Ids of all entities of the question: starts, bridges, answer."""
    relations: tuple[str, ...]
    """Ids of the facts' relations, in their order."""
    shape: KgShape
    hops: int
    """Number of facts of the question."""
    num_answers: int
    """Number of entities of the graph that satisfy the question."""
    fewest_left: int
    """The smallest `left_without` of its facts: above 1 when no fact can be spared."""
    as_of: str
    """ISO date of the graph: the answer was true then."""
    writer: KgWriter
    filters: tuple[FilterScore, ...]
    preset: str
    provenance: Provenance

    @property
    def golds(self) -> tuple[str, ...]:
        """Return the gold answer, then its aliases."""
        return (self.answer, *self.answer_aliases)

    def asked(self) -> AskedQuestion:
        """Return the question as training asks it."""
        return AskedQuestion(
            id=self.uid,
            text=self.question,
            golds=self.golds,
            num_hops=len(self.decomposition) or None,
            hops=self.decomposition,
            source_id=self.provenance.source_id,
        )
