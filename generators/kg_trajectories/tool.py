"""The tool of a KG-search episode; each search is noted as a `KgStep`, of which the row's annotations are made."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trailforge.generators.kg_trajectories.config import KgContext
from trailforge.inference import Meter
from trailforge.protocols.environment import Environment, GraphFound
from trailforge.protocols.result_filters import ResultFilter
from trailforge.protocols.turns import Observation, Search
from trailforge.retrieval import LazyRetriever
from trailforge.retrieval.kg import KgResult, KgTool
from trailforge.schemas import EntityLink, KgStep, Question, RelationLink


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTool:
    """The tool over one question's documents and a run's graph."""

    question: Question
    context: KgContext
    environment: Environment

    @classmethod
    def open(cls, question: Question, context: KgContext) -> SearchTool:
        """The documents are opened by the first search."""
        config = context.config
        environment = Environment(
            documents=LazyRetriever(lambda: context.retrieval.for_question(question)),
            kg=KgTool(context.store, config.kg, context.count_tokens),
            filters=ResultFilter(
                rule=config.kg_filter,
                documents=config.document_filter,
                client=context.client,
                model=context.model,
                seed=context.seed,
                max_tokens=config.filter_max_tokens,
            ),
            top_k=config.top_k,
        )
        return cls(question=question, context=context, environment=environment)

    async def search(self, search: Search, meter: Meter) -> Observation:
        """Ask both; `detail` is the `KgStep` of it. Raises what retrieval and the model of the KG filter raise.

        `meter` counts the calls of the filters.
        """
        observed = await self.environment.search_graph(self.question.question, search, meter)
        graph = observed.detail
        assert isinstance(graph, GraphFound)
        step = KgStep(
            index=0,
            sub_question=search.query,
            query=search.query,
            entities=entity_links(graph.found),
            relations=relation_links(graph.found),
            triples_offered=graph.found.triples,
            triples_kept=graph.kept,
            documents=observed.passages,
            answer=None,
        )
        return replace(observed, detail=step)


def entity_links(found: KgResult) -> tuple[EntityLink, ...]:
    """All matches of all mentions."""
    return tuple(
        EntityLink(
            mention=one.mention,
            entity_id=match.entity_id if match else None,
            label=match.label if match else None,
            score=match.score if match else None,
            margin=match.margin if match else None,
            is_searched=match is not None and place < one.searched,
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
