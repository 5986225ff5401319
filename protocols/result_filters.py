"""Filters that choose which triples and documents of a search's results an agent reads (DynaSearcher, section 4.3.3).

They are part of the tool, so that generation, evaluation and training show an agent the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trailforge.inference import (
    ChatTurn,
    Client,
    Meter,
    Prompts,
    Request,
    Sampling,
    ServedModel,
    ask_json,
    fill,
    open_thread_safe_model,
)
from trailforge.protocols.base import passage_lines
from trailforge.protocols.turns import Search
from trailforge.retrieval.kg import MAX_KEPT, KgResult, TripleQuery, filter_template, keep_triples
from trailforge.rewards import mentions
from trailforge.schemas import InvalidInput, KgTriple, Passage, ServerUnavailable

KgFilter = Literal["model", "asked", "first", "none"]
"""The rule that chooses which triples of the graph an agent reads.

`model`: the paper's rule, by which a model keeps up to five. `asked`: up to five triples of an entity that was matched
surely, with the relation that is asked for or leading to another name in the query. `first`: the best five. `none`: all
that are offered.
"""

SURE = 0.9
"""Score from which a name is taken for an entity: "Roman Polansky" is Roman Polanski, but "George VI" is not George II.
"""


UNASKED = MAX_KEPT
"""Number of triples that are kept without asking a model, since there is nothing to choose."""
DocumentFilter = Literal["model", "none"]
"""The rule that chooses which documents an agent reads. `model`: those that a model says help. `none`: all."""

_PROMPTS = Prompts("trailforge.protocols")
PROMPT = "keep_documents"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"keep": {"type": "array", "items": {"type": "integer"}}},
    "required": ["keep"],
    "additionalProperties": False,
}
"""JSON schema of the model's reply: the numbers of documents, from 1, as in `retrieval.kg.tool.SCHEMA`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFilter:
    """Chooses which of a search's results an agent reads."""

    rule: KgFilter = "first"
    """The rule for triples."""
    documents: DocumentFilter = "none"
    client: Client | None = None
    """The client of the model that the rules `model` ask; None where no rule asks one."""
    model: str = ""
    seed: int = 0
    max_tokens: int = 2048
    """Most tokens of the model's reply, with room for a reasoning model's thoughts."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` where a model is to choose and there is none."""
        if "model" in (self.rule, self.documents) and self.client is None:
            raise InvalidInput("the filter of search results asks a model: say which one", field="filter_model")

    async def keep(
        self, question: str, search: Search, found: KgResult, meter: Meter | None = None
    ) -> tuple[KgTriple, ...]:
        """Return the triples of `found` that are kept. When there are no more than may be kept, no model is called.
        Raises what the client raises.
        """
        match self.rule:
            case "none":
                return tuple(found.triples)
            case "first":
                return tuple(found.triples[:MAX_KEPT])
            case "asked":
                return asked_for(search.query, found)
        if len(found.triples) <= UNASKED:
            return tuple(found.triples)
        assert self.client is not None
        query = TripleQuery(
            question=question, sub_query=search.query, entities=search.entities, relations=search.relations
        )
        return await keep_triples(
            self.client,
            self.model,
            query,
            found.triples,
            seed=self.seed,
            sampling=Sampling(max_tokens=self.max_tokens),
            meter=meter,
        )

    async def keep_documents(
        self, question: str, search: Search, found: Sequence[Passage], meter: Meter | None = None
    ) -> tuple[Passage, ...]:
        """Return the documents that are kept, in the order they were found. Raises what the client raises."""
        if self.documents == "none" or not found:
            return tuple(found)
        assert self.client is not None
        documents = "\n".join(passage_lines(found))
        prompt = fill(_PROMPTS.text(PROMPT), question=question, sub_query=search.query, documents=documents)
        request = Request(
            model=self.model,
            prompt=(ChatTurn(role="user", content=prompt),),
            sampling=Sampling(max_tokens=self.max_tokens),
            seed=self.seed,
            purpose=PROMPT,
        )
        kept = set((await ask_json(self.client, request, SCHEMA, meter))["keep"])
        return tuple(passage for number, passage in enumerate(found, start=1) if number in kept)


_MENDS = "(--filter-model URL#MODEL, `filter_model` of presets), or say --kg-filter first, which asks none"


def named_model(rule: KgFilter, documents: DocumentFilter, served: ServedModel | None) -> ServedModel | None:
    """Return the model that filters call: `served`, where the rule for triples (`rule`) or that for documents
    (`documents`) asks a model; None where neither does. Raises `InvalidInput` when a model is asked and `served` is
    None.
    """
    if "model" not in (rule, documents):
        return None
    if served is None:
        raise InvalidInput(f"a model filters what searches find: name it {_MENDS}", field="filter_model")
    return served


def open_filter(rule: KgFilter, documents: DocumentFilter, served: ServedModel | None) -> ResultFilter:
    """Open a filter by a rule for triples and a rule for documents, and check that its model `served` answers; the
    filter can be used from any thread and event loop, as trainers do. Raises `InvalidInput` when a rule asks a model
    and none is named, and `ServerUnavailable` for a model that cannot be reached.
    """
    served = named_model(rule, documents, served)
    if served is None:
        return ResultFilter(rule=rule, documents=documents)
    shared = open_thread_safe_model(served, "filters")
    try:
        shared.check()
    except ServerUnavailable as error:
        problem = f"{served.model} at {served.url} filters what searches find, and is not there ({error}): start it, or"
        raise ServerUnavailable(f"{problem} name another {_MENDS}") from error
    return ResultFilter(rule=rule, documents=documents, client=shared, model=served.model, max_tokens=served.max_tokens)


def filter_prompts() -> str:
    """Return the prompts by which models choose results."""
    return f"{filter_template()}{_PROMPTS.text(PROMPT)}"


def asked_for(query: str, found: KgResult) -> tuple[KgTriple, ...]:
    """Return up to five triples of surely matched entities, with a relation that is asked for or that leads to another
    name in the query.
    """
    sure = {match.entity_id for one in found.entities for match in one.matches[:1] if match.score >= SURE}
    relations = {match.relation_id for one in found.relations for match in one.matches[:1]}
    kept = []
    for triple in found.triples:
        ends = {triple.head: triple.tail_label, triple.tail: triple.head_label}
        others = [label for entity, label in ends.items() if entity in sure]
        if others and (triple.relation in relations or any(mentions(query, label) for label in others)):
            kept.append(triple)
    return tuple(kept[:MAX_KEPT])
