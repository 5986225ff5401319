"""A knowledge graph's records: entities, triples, what a mention matched, and a store's figures (DynaSearcher)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.bundle import FilterScore
from trailforge.schemas.provenance import Provenance
from trailforge.schemas.question import AskedQuestion, Hop
from trailforge.schemas.versions import Earlier, migration

MatchKind = Literal["label", "alias", "word_order", "unqualified", "fuzzy"]
"""How a name agrees with a mention, case, accents and punctuation aside: it is the label, it is an alias, it has the
same words in another order, it does so without a bracket or up to a comma, or it is only similar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgEntity:
    """A node of the graph."""

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

    relation_id: str
    label: str
    name: str
    """The name that matched best: the label or an alias."""
    score: float
    """0 to 1. Rounded to 6 decimals."""
    margin: float
    """As in `EntityMatch`."""
    direction: Literal["out", "into"] | None = None
    """Which end of its triples the phrase is said of: `out` the head ("directed by"), `into` the tail ("director of");
    None where it may be either ("director")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgStats:
    """What a store holds."""

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
    entities_by_name: int = 0
    """The source has no id of them but their name: two of one name are one. 0 also in stores of earlier versions."""


KgShape = Literal["chain", "intersection", "intersection_inside"]
"""`chain`: one start, one fact after the other. `intersection`: two chains meet in the answer. `intersection_inside`:
they meet in a bridge, from which a chain leads on."""
KgWriter = Literal["model", "templates"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KgNode:
    """An entity of a question."""

    id: str
    label: str
    aliases: tuple[str, ...]
    kind: str
    """What the graph says it is an instance of (`person` for a human); empty when it says nothing."""
    role: str
    """What a person does, where the graph says so; else empty."""
    matches: int
    """Of a start: entities that have its label as a name. Of a bridge or answer: entities that satisfy all that leads
    to it, with every namesake of the starts taken for the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgFact:
    """A triple of a question, and the way it is followed."""

    triple: KgTriple
    known: str
    """Id of the end that it is followed from: a start or a bridge."""
    found: str
    """Id of the end that it leads to: a bridge or the answer."""
    relation_aliases: tuple[str, ...]
    fan_out: int
    """Entities that the relation leads to from `known` in this direction, `found` among them."""
    left_without: int
    """Entities that satisfy the question when this fact is left out of it. Counted up to the sampler's limit."""

    @property
    def is_forward(self) -> bool:
        """Is it followed from its head to its tail?"""
        return self.known == self.triple.head


@dataclass(frozen=True, slots=True, kw_only=True)
class FactChain:
    """Facts that lead from one or two starts to an answer, and to nothing else in the graph."""

    STORED_AS: ClassVar[str] = "FactChain"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    id: str
    """Hash of the facts."""
    shape: KgShape
    facts: tuple[KgFact, ...]
    """Each after those that lead to its `known`."""
    starts: tuple[KgNode, ...]
    """Named in the question."""
    bridges: tuple[KgNode, ...]
    """Found on the way, in the order in which they are found; not named in the question."""
    answer: KgNode

    @property
    def found(self) -> tuple[KgNode, ...]:
        """What is found, in order: bridges, then the answer. The k-th is the answer of hop k of a decomposition."""
        return (*self.bridges, self.answer)

    def leading_to(self, node: KgNode) -> tuple[KgFact, ...]:
        """The facts that lead to a bridge or the answer: one, or two where chains meet."""
        return tuple(fact for fact in self.facts if fact.found == node.id)

    def needed_for(self, node: KgNode) -> tuple[int, ...]:
        """Numbers, from 1, of the earlier findings that a bridge or the answer is found from."""
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
    """One hop for each bridge and one for the answer: two facts that meet are one hop."""
    chain: FactChain
    path: tuple[str, ...]
    """The facts as text, in their order."""
    entities: tuple[str, ...]
    """Ids of all entities: starts, bridges, answer."""
    relations: tuple[str, ...]
    """Ids of the facts' relations, in their order."""
    shape: KgShape
    hops: int
    """How many facts there are."""
    num_answers: int
    """Entities of the graph that satisfy the question."""
    fewest_left: int
    """The smallest `left_without` of its facts: above 1 when no fact can be spared."""
    as_of: str
    """ISO date of the graph: what is asked was true then."""
    writer: KgWriter
    filters: tuple[FilterScore, ...]
    preset: str
    provenance: Provenance

    @property
    def golds(self) -> tuple[str, ...]:
        """The gold answer, then its aliases."""
        return (self.answer, *self.answer_aliases)

    def asked(self) -> AskedQuestion:
        """As training asks it."""
        return AskedQuestion(
            id=self.uid,
            text=self.question,
            golds=self.golds,
            num_hops=len(self.decomposition) or None,
            hops=self.decomposition,
            source_id=self.provenance.source_id,
        )
