"""The graph of GraphRAG: entities, relations with what passages say of them, and nested communities."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from trailforge.inference import Sampling
from trailforge.retrieval.backends.graph import key_of

Facts = dict[str, list[list[Any]]]
"""What a passage says, as JSON: entities [name, kind, description], relations [source, target, description, weight]."""

_turn = threading.Lock()
"""igraph draws from one generator for the whole process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRagConfig:
    """Settings of GraphRAG: the released numbers, except for sampling, which suits models that reason.

    Lengths are in tokens as `estimate_tokens` counts them.
    """

    extraction: Literal["names", "model"] = "model"
    """How entities are found. `names`: entities are the names in a passage and its title, related where a sentence has
    both. `model`: a model writes entities and relations down, is asked again for what it left out, and merges
    descriptions."""
    reports: Literal["extractive", "model"] = "model"
    """How reports on communities are written: from sentences of their entities, or by a model."""
    search: Literal["local", "global"] = "global"
    """How the graph is searched; `global` asks a model in every search: once for each `context_tokens` of reports, and
    once more."""
    kinds: tuple[str, ...] = ("person", "organization", "place", "event", "work", "other")
    """Kinds of entities that a model looks for. The released four (organization, person, geo, event) leave out films
    and songs."""
    gleanings: int = 1
    """Number of times that a model is asked again for what it left out of a passage."""
    merged_from: int = 2
    """Number of descriptions of an entity or relation from which on a model merges them; fewer are joined as they
    are."""
    description_tokens: int = 500
    """Length of a merged description."""
    merge_input_tokens: int = 4000
    """Length of the descriptions that a model merges at once."""
    named_tokens: int = 100
    """Length of a description without a model: it is embedded, and encoders read little more."""
    largest_community: int = 10
    """Number of entities above which a community is divided again."""
    level: int = 2
    """Deepest level of communities whose reports are searched, 0 being the largest ones."""
    smallest_report: int = 2
    """Number of entities of a community from which on a model writes its report. 3 saves calls: of two, their relation
    says all."""
    report_tokens: int = 2000
    report_input_tokens: int = 8000
    """Length of what a model reads for a report."""
    extract_tokens: int = 200
    """Length of a report without a model."""
    entities: int = 20
    """Number of entities nearest to a query that a search begins with. The released code says 10, and takes twice as
    many."""
    compared_up_to: int = 50_000
    """Number of entities up to which a query is compared with all; among more an approximate index finds the nearest,
    as in `dense`."""
    order: Literal["entities", "passages"] = "entities"
    """Order of the passages found: as released, by their entity's place and then by its relations there; or by the best
    cosine of an entity plus the passage's own."""
    context_tokens: int = 12_000
    passage_share: float = 0.5
    report_share: float = 0.15
    """Share of reports in the context, and in the `k` results of a search."""
    seed: int = 86
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 12_288
    """Largest number of tokens of a reply, thoughts included."""

    @property
    def sampling(self) -> Sampling:
        """Return the sampling of all calls."""
        return Sampling(temperature=self.temperature, top_p=self.top_p, max_tokens=self.max_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRagPlainConfig(GraphRagConfig):
    """Settings of GraphRAG without a model."""

    extraction: Literal["names"] = "names"
    reports: Literal["extractive"] = "extractive"
    search: Literal["local"] = "local"


@dataclass(slots=True)
class GraphEntity:
    """An entity of a corpus."""

    name: str
    """The entity's name in its most frequent spelling."""
    kind: str
    descriptions: list[str] = field(default_factory=list)
    passages: list[int] = field(default_factory=list)
    """Rows of the passages that name the entity, ascending."""
    relations: list[int] = field(default_factory=list)

    @property
    def description(self) -> str:
        """Return all descriptions of the entity, joined into one text."""
        return " ".join(self.descriptions)


@dataclass(slots=True)
class GraphRelation:
    """A relation between two entities, in either direction."""

    source: int
    target: int
    weight: float = 0.0
    """Sum of the strengths that the passages give the relation."""
    descriptions: list[str] = field(default_factory=list)
    passages: list[int] = field(default_factory=list)

    @property
    def description(self) -> str:
        """Return all descriptions of the relation, joined into one text."""
        return " ".join(self.descriptions)


@dataclass(slots=True)
class EntityGraph:
    """Entities and relations in the order in which passages name them first."""

    entities: list[GraphEntity] = field(default_factory=list)
    relations: list[GraphRelation] = field(default_factory=list)
    lost_passages: int = 0
    """Number of passages without entities and relations, because a model's reply could not be used."""

    def degree(self, relation: GraphRelation) -> int:
        """Return how many relations the two entities of a relation have together, by which relations are ranked."""
        return sum(len(self.entities[end].relations) for end in (relation.source, relation.target))


def merge_facts(facts: Sequence[Facts | None]) -> EntityGraph:
    """Merge the facts of each passage into one graph; None stands for a passage whose facts are unknown. Names are the
    same when their words are (`key_of`).
    """
    graph = EntityGraph(lost_passages=sum(found is None for found in facts))
    rows: dict[str, int] = {}
    pairs: dict[tuple[int, int], int] = {}

    def entity(name: str, kind: str, description: str, passage: int) -> int:
        row = rows.setdefault(key_of(name) or name, len(graph.entities))
        if row == len(graph.entities):
            graph.entities.append(GraphEntity(" ".join(name.split()), kind))
        found = graph.entities[row]
        found.kind = found.kind or kind
        _put(description, passage, found)
        return row

    for passage, said in enumerate(facts):
        if said is None:
            continue
        for name, kind, description in said["entities"]:
            entity(name, kind, description, passage)
        for source, target, description, weight in said["relations"]:
            ends = sorted({entity(name, "", "", passage) for name in (source, target)})
            if len(ends) < 2:
                continue
            row = pairs.setdefault((ends[0], ends[1]), len(graph.relations))
            if row == len(graph.relations):
                graph.relations.append(GraphRelation(ends[0], ends[1]))
                for end in ends:
                    graph.entities[end].relations.append(row)
            graph.relations[row].weight += weight
            _put(description, passage, graph.relations[row])
    return graph


def _put(description: str, passage: int, thing: GraphEntity | GraphRelation) -> None:
    if description and description not in thing.descriptions:
        thing.descriptions.append(description)
    if thing.passages[-1:] != [passage]:
        thing.passages.append(passage)


# Communities


@dataclass(slots=True)
class EntityCommunity:
    """Entities that are more closely related to each other than to others."""

    level: int
    """Depth of the community: 0 for a part of the whole graph, 1 for a part of one of level 0, …"""
    parent: int | None
    """Index of the community that contains this one, in the list of all communities; None at level 0."""
    members: list[int]
    """Rows of the entities, ascending."""
    relations: list[int] = field(default_factory=list)
    """Rows of the relations between members, the one whose entities have most relations first."""
    passages: list[int] = field(default_factory=list)
    """Rows of the passages that state these relations, ascending."""
    title: str = ""
    text: str = ""
    """Report on the community."""
    rating: float = 0.0
    """Importance of the community: 0 to 10 by a model; without one, the number of its relations."""


def find_communities(graph: EntityGraph, largest: int, seed: int) -> list[EntityCommunity]:
    """Find communities of two entities or more, level by level: Leiden by modularity over the graph, and again within
    each community of more than `largest` entities.

    Entities without a relation are in none. A community that Leiden does not divide keeps its size.
    """
    import igraph

    related = [row for row, entity in enumerate(graph.entities) if entity.relations]
    places = {row: place for place, row in enumerate(related)}
    ends = [(places[relation.source], places[relation.target]) for relation in graph.relations]
    whole = igraph.Graph(n=len(related), edges=ends)
    whole.es["weight"] = [max(relation.weight, 1e-9) for relation in graph.relations]
    found: list[EntityCommunity] = []
    waiting: list[tuple[int | None, list[int]]] = [(None, list(range(len(related))))] if related else []
    with _turn:
        igraph.set_random_number_generator(random.Random(seed))
        try:
            for parent, within in waiting:
                for part in _divide(whole, within, is_whole=parent is None):
                    level = 0 if parent is None else found[parent].level + 1
                    found.append(EntityCommunity(level, parent, [related[place] for place in part]))
                    if len(part) > largest:
                        waiting.append((len(found) - 1, part))
        finally:
            igraph.set_random_number_generator(random)
    for community in found:
        _add_relations(community, graph)
    return found


def _divide(whole: Any, within: list[int], *, is_whole: bool) -> list[list[int]]:
    """The communities of a part of the graph; none when it is one, or of single entities."""
    part = whole.induced_subgraph(within)
    clusters = part.community_leiden(objective_function="modularity", weights="weight", n_iterations=-1)
    parts = sorted(sorted(within[place] for place in cluster) for cluster in clusters if len(cluster) > 1)
    return parts if is_whole or len(clusters) > 1 else []


def _add_relations(community: EntityCommunity, graph: EntityGraph) -> None:
    members = set(community.members)
    rows = {row for member in members for row in graph.entities[member].relations}
    inner = [row for row in rows if {graph.relations[row].source, graph.relations[row].target} <= members]
    community.relations = sorted(inner, key=lambda row: (-graph.degree(graph.relations[row]), row))
    community.passages = sorted({passage for row in inner for passage in graph.relations[row].passages})
