"""The tool of a KG-search episode: one request goes to the documents and to the knowledge graph at once.

What it did is kept with the observation, as a `KgStep`, from which the row's annotations are made.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from trailforge.generators.kg_trajectories.config import KgContext
from trailforge.inference import Meter, Sampling
from trailforge.protocols.grammar import Observation, Search
from trailforge.retrieval import LazyRetriever, Retriever
from trailforge.retrieval.kg import MAX_KEPT, KgResult, KgTool, TripleQuery, keep_triples
from trailforge.rewards import mentions
from trailforge.schemas import EntityLink, KgStep, KgTriple, Question, RelationLink

SURE = 0.9
"""Score from which a name is taken for an entity: "Roman Polansky" is Roman Polanski, "George VI" not George II."""


class Labels(NamedTuple):
    """A triple as the agent reads it."""

    head: str
    relation: str
    tail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTool:
    """The tool over one question's documents and a run's graph."""

    question: Question
    context: KgContext
    documents: Retriever
    kg: KgTool

    @classmethod
    def open(cls, question: Question, context: KgContext) -> SearchTool:
        """The documents are opened by the first search."""
        return cls(
            question=question,
            context=context,
            documents=LazyRetriever(lambda: context.retrieval.for_question(question)),
            kg=KgTool(context.store, context.config.kg, context.count_tokens),
        )

    async def search(self, search: Search, meter: Meter) -> Observation:
        """Ask both; `detail` is the `KgStep` of it. Raises what retrieval and the model of the KG filter raise.

        `meter` counts the calls of the filter.
        """
        found, passages = await asyncio.gather(
            asyncio.to_thread(self.kg.search, search.entities, search.relations, search.query),
            self.documents.retrieve(search.query, self.context.config.top_k),
        )
        kept = await self._kept(search, found, meter)
        step = KgStep(
            index=0,
            sub_question=search.query,
            query=search.query,
            entities=entity_links(found, self.context.config.kg.entities_per_mention),
            relations=relation_links(found),
            triples_offered=found.triples,
            triples_kept=kept,
            documents=tuple(passages),
            answer=None,
        )
        return Observation(passages=step.documents, triples=tuple(map(labels, kept)), detail=step)

    async def _kept(self, search: Search, found: KgResult, meter: Meter) -> tuple[KgTriple, ...]:
        config, offered = self.context.config, found.triples
        if config.kg_filter == "none":
            return tuple(offered)
        if config.kg_filter == "asked":
            return asked_for(search.query, found)
        query = TripleQuery(
            question=self.question.question,
            sub_query=search.query,
            entities=search.entities,
            relations=search.relations,
        )
        kept = await keep_triples(
            self.context.client,
            self.context.model,
            query,
            offered,
            seed=self.context.seed,
            sampling=Sampling(max_tokens=config.filter_max_tokens),
            meter=meter,
        )
        return kept.triples


def asked_for(query: str, found: KgResult) -> tuple[KgTriple, ...]:
    """Up to five triples of surely matched entities, by a relation asked for or to what the query names too."""
    sure = {match.entity_id for one in found.entities for match in one.matches[:1] if match.score >= SURE}
    relations = {match.relation_id for one in found.relations for match in one.matches[:1]}
    kept = []
    for triple in found.triples:
        ends = {triple.head: triple.tail_label, triple.tail: triple.head_label}
        others = [label for entity, label in ends.items() if entity in sure]
        if others and (triple.relation in relations or any(mentions(query, label) for label in others)):
            kept.append(triple)
    return tuple(kept[:MAX_KEPT])


def labels(triple: KgTriple) -> Labels:
    """A triple without its ids."""
    return Labels(triple.head_label, triple.relation_label, triple.tail_label)


def entity_links(found: KgResult, searched: int) -> tuple[EntityLink, ...]:
    """All matches of all mentions; the first `searched` of each were looked up."""
    return tuple(
        EntityLink(
            mention=one.mention,
            entity_id=match.entity_id if match else None,
            label=match.label if match else None,
            score=match.score if match else None,
            margin=match.margin if match else None,
            is_searched=match is not None and place < searched,
        )
        for one in found.entities
        for place, match in enumerate(one.matches or (None,))
    )


def relation_links(found: KgResult) -> tuple[RelationLink, ...]:
    """The best match of each phrase, by whose label the triples were ranked."""
    best = [(one.phrase, one.matches[0] if one.matches else None) for one in found.relations]
    return tuple(
        RelationLink(
            phrase=phrase,
            relation_id=match.relation_id if match else None,
            label=match.label if match else None,
            score=match.score if match else None,
        )
        for phrase, match in best
    )
