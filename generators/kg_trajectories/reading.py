"""Run an episode's searches, each stored as a `KgStep`, and have the model read short answers from what they found.

It reads in its own words, or from spans that stand there. With the answers comes the self-check: does the knowledge
graph say the same as the documents? Where not, one of them is stale or wrong. For every kept triple that has the asked
entity with the asked relation, the model is asked for the value ("Who is the director of Metropolis?"), and may say
that it is not stated; it is not asked where a sentence states plainly what the graph has. It reads only the documents
that are about the entity. Its answer and the triples' values conflict when they are not the same, both are of one kind,
and the graph does not join them: a town and its country are no conflict.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from trailforge.filters import SoughtFact, is_plainly_stated
from trailforge.filters.kg import facts_to_read, read_by
from trailforge.generators.answer_reading import PURPOSE, read_facts, read_passages
from trailforge.generators.kg_trajectories.config import PROMPTS, KgContext
from trailforge.inference import Asker, Meter, Sampling
from trailforge.mcts import ask_relation
from trailforge.protocols import Observation, Search, one_line
from trailforge.protocols.environment import Environment, GraphFound
from trailforge.protocols.result_filters import ResultFilter
from trailforge.retrieval import LazyRetriever
from trailforge.retrieval.kg import KgResult, KgStore, KgTool, match_entity
from trailforge.rewards import is_abstention, mentions, normalize_answer, other_names, same_answer
from trailforge.schemas import (
    ITEM_ERRORS,
    EntityLink,
    KgConflict,
    KgStep,
    KgTrajectory,
    KgTriple,
    Passage,
    Question,
    RelationLink,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTool:
    """The search tool of an episode, over one question's documents and a run's graph."""

    question: Question
    context: KgContext
    environment: Environment

    @classmethod
    def open(cls, question: Question, context: KgContext) -> SearchTool:
        """Open the tool; the documents themselves are opened by the first search."""
        config = context.config
        environment = Environment(
            documents=LazyRetriever(lambda: context.retrieval.for_question(question)),
            kg=KgTool(context.store, config.kg),
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
        """Search the documents and the graph, and return what the agent is shown; the result's `detail` is the search
        as a `KgStep`. Raises what retrieval and the model that filters triples raise. `meter` counts that model's
        calls.
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
    """Return for each name in a search of the graph every entity that it matched, or one link without an entity where
    it matched none.
    """
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
    """Return for each phrase by which a search asked for a relation the graph's relation that fits best, by whose label
    the triples were ranked; a link without a relation where none fits.
    """
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


Offer = Callable[[str, Sequence[KgTriple], Sequence[tuple[Passage, str]], Sequence[Passage], Collection[str]], str]
"""Makes a grammar of what was read, for a model that would make names up: it may answer with nothing else.

Of the query, triples, the sentences that are read, their passages, and ids of the entities that are asked about.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Reads short answers for one episode with a model. `sample` is the number of the draw, 0 for the plain reading;
    with `offer` the model chooses from spans of the text that this function lists, without it uses its own words.
    """

    context: KgContext
    asker: Asker
    temperature: float = 0.0
    sample: int = 0
    offer: Offer | None = None

    async def answer(
        self,
        query: str,
        passages: Sequence[Passage],
        triples: Sequence[KgTriple],
        searched: Collection[str] = (),
        *,
        prompt: str = "",
        purpose: str = "read",
    ) -> str:
        """Read a short answer to `query` from passages and triples, without braces and tags; empty when the model finds
        none or its reply was cut.

        `searched` are the ids of the entities asked about, `prompt` is the name of a prompt, by default that for guided
        episodes, and `purpose` the heading under which the call is counted.
        """
        config, names = self.context.config.reading, self.context.config.prompts
        triples, sentences = triples[: config.num_triples], await self._sentences(query, passages)
        lines = [
            *(f"({p.title}) {sentence}" for p, sentence in sentences),
            *(f"({t.head_label}) The {t.relation_label} of {t.head_label} is {t.tail_label}." for t in triples),
        ]
        lines = lines[::-1] if config.order == "best_last" else lines
        grammar = self.offer(query, triples, sentences, passages, searched) if self.offer else None
        sampling = Sampling(
            temperature=self.temperature,
            top_p=self.context.config.guided.top_p,
            max_tokens=config.max_tokens,
            stop=config.stop,
        )
        answer = await read_passages(
            PROMPTS.text(prompt or names.answer),
            query,
            lines,
            self.asker,
            purpose=purpose,
            sampling=sampling,
            most_words=config.max_answer_words,
            sample=self.sample,
            grammar=grammar,
        )
        return clean_answer(answer)

    async def _sentences(self, query: str, passages: Sequence[Passage]) -> list[tuple[Passage, str]]:
        config = self.context.config.reading
        if config.reader == "passages":
            return [(passage, passage.text) for passage in passages]
        return await self.context.retrieval.best_sentences(query, passages, config.num_sentences)


def clean_answer(answer: str) -> str:
    r"""Return an answer on one line, without tags and braces, so that it fits into `\boxed{}`."""
    return " ".join(re.sub(r"[{}\\]", " ", one_line(answer)).split())


async def read_answer(row: KgTrajectory, reading: Reading) -> KgTrajectory:
    """Return the episode with what a model said when it was asked for each fact behind the answer over all that the
    episode read.
    """

    async def read(question: str) -> str:
        documents, triples = read_by(row)
        # The nearest triples first, as no more than some are shown.
        triples = sorted(triples, key=lambda each: not mentions(question, each.head_label))
        name = reading.context.config.prompts.read_fact
        return await reading.answer(question, documents, triples, prompt=name, purpose=PURPOSE)

    return replace(row, readings=await read_facts(facts_to_read(row), read))


_SURE = 0.9
"""Score from which a text is taken for an entity of the graph."""
_FIGURE = re.compile(r"\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFact:
    """The values that the graph gives for one entity and one relation, in one search."""

    step: KgStep
    known: str
    """Id of the entity that was searched for."""
    triples: tuple[KgTriple, ...]
    is_tail: bool
    """Whether the values are the tails of the triples."""

    @property
    def question(self) -> str:
        """Return the question that asks for the value."""
        triple = self.triples[0]
        if self.is_tail:
            return ask_relation(triple.head_label, triple.relation_label)
        return f"Who or what has {triple.tail_label} as {triple.relation_label}?"

    @property
    def values(self) -> Mapping[str, str]:
        """Return the labels of the values by their ids."""
        ends = (((t.tail, t.tail_label) if self.is_tail else (t.head, t.head_label)) for t in self.triples)
        return dict(ends)

    def documents(self, store: KgStore) -> list[Passage]:
        """Return the documents about the entity: those titled with one of its names, or mentioning its label or the
        searched name.
        """
        triple = self.triples[0]
        label = triple.head_label if self.is_tail else triple.tail_label
        called = {label, *(link.mention for link in self.step.entities if link.entity_id == self.known)}
        titles = {normalize_answer(name) for name in (*called, *_aliases(store, self.known))}
        return [
            document
            for document in self.step.documents
            if normalize_answer(re.sub(r" \(.*\)$", "", document.title)) in titles
            or any(mentions(f"{document.title}. {document.text}", name) for name in called)
        ]


async def find_conflicts(steps: Sequence[KgStep], reading: Reading) -> tuple[KgConflict, ...]:
    """Return the contradictions between graph and documents in an episode's searches. The model is asked once for each
    fact that a document may mention.
    """
    found = await asyncio.gather(*(_conflict(fact, reading) for step in steps for fact in find_asked_facts(step)))
    return tuple(conflict for conflict in found if conflict)


async def _conflict(fact: AskedFact, reading: Reading) -> KgConflict | None:
    context = reading.context
    documents = fact.documents(context.store)
    is_left = _is_shown if context.config.self_check == "absent" else _is_plain
    if not documents or is_left(fact, documents):
        return None
    name = context.config.prompts.read_fact
    try:
        answer = await reading.answer(fact.question, documents, (), (fact.known,), prompt=name, purpose="self_check")
    except ITEM_ERRORS:
        return None
    return find_conflict(fact, answer, documents, context.store)


def find_asked_facts(step: KgStep) -> list[AskedFact]:
    """Return the kept triples with a searched entity and an asked relation, by entity and relation."""
    entities = {link.entity_id for link in step.entities if link.is_searched}
    relations = {link.relation_id for link in step.relations}
    facts: dict[tuple[str, str, bool], list[KgTriple]] = {}
    for triple in step.triples_kept:
        is_tail = triple.head in entities
        if triple.relation in relations and is_tail != (triple.tail in entities):
            known = triple.head if is_tail else triple.tail
            facts.setdefault((known, triple.relation, is_tail), []).append(triple)
    return [
        AskedFact(step=step, known=known, triples=tuple(triples), is_tail=is_tail)
        for (known, _, is_tail), triples in facts.items()
    ]


def find_conflict(fact: AskedFact, answer: str, documents: Sequence[Passage], store: KgStore) -> KgConflict | None:
    """Return the contradiction between the graph's triples and the answer that was read from documents; None when they
    agree or cannot be compared. `answer` has one value, or several separated by semicolons; only values that a document
    contains count.
    """
    said = [part for part in map(str.strip, answer.split(";")) if part and not is_abstention(part)]
    said = [part for part in said if not mentions(fact.question, part) and _stands_in(documents, part)]
    names = sorted(set(fact.values.values()))
    aliases = [alias for key in fact.values for alias in _aliases(store, key)]
    if not said or any(_is_same(part, name) for part in said for name in (*names, *aliases)):
        return None
    part = said[0]
    if any(bool(_FIGURE.search(part)) != bool(_FIGURE.search(name)) for name in names):
        return None
    if _is_other_kind(part, fact, store) or _is_near(part, set(fact.values), store):
        return None
    return KgConflict(step=fact.step.index, kg_value=", ".join(names), document_value="; ".join(said))


def _is_same(first: str, second: str) -> bool:
    """Do they say the same, or is one name in whole words part of the other? 953 is not "before 953"."""
    if same_answer(first, second):
        return True
    is_figure = bool(_FIGURE.search(first) or _FIGURE.search(second))
    return not is_figure and (mentions(first, second) or mentions(second, first))


def _is_shown(fact: AskedFact, documents: Sequence[Passage]) -> bool:
    """A document mentions what the graph has. Not of figures: 953 stands in "before 953"."""
    return any(not _FIGURE.search(name) and _stands_in(documents, name) for name in fact.values.values())


def _is_plain(fact: AskedFact, documents: Sequence[Passage]) -> bool:
    """A sentence states plainly what the graph has: nobody has to be asked whether they agree."""
    triple = fact.triples[0]
    subject = triple.head_label if fact.is_tail else triple.tail_label
    stated = (SoughtFact(fact.question, (name, *other_names(name)), (subject,)) for name in fact.values.values())
    return any(is_plainly_stated(each, documents) for each in stated)


def _stands_in(documents: Sequence[Passage], answer: str) -> bool:
    return any(mentions(f"{d.title}. {d.text}", name) for d in documents for name in (answer, *other_names(answer)))


def _is_other_kind(answer: str, fact: AskedFact, store: KgStore) -> bool:
    """The graph knows what the documents say, but as a thing that can have no such place: a country is no year.

    Of one kind are things that stand in this relation, and those that have a triple with the same tail: two cities.
    """
    known = [match.entity_id for match in match_entity(store, answer) if match.score >= _SURE]
    triple, is_tail = fact.triples[0], fact.is_tail
    place = "into" if is_tail else "out"
    is_placed = any(triple.relation == r for entity in known for r, _ in store.relations_of(entity, place))
    kinds = _tails(store, triple.tail if is_tail else triple.head)
    return bool(known) and not is_placed and not any(kinds & _tails(store, entity) for entity in known)


def _aliases(store: KgStore, entity: str) -> tuple[str, ...]:
    return store.aliases(entity) if entity in store else ()


def _tails(store: KgStore, entity: str) -> set[tuple[str, str]]:
    if entity not in store:
        return set()
    relations = [relation for relation, _ in store.relations_of(entity, "out")]
    return {(relation, tail) for relation in relations for tail in store.neighbours(entity, relation, "out")}


def _is_near(answer: str, values: set[str], store: KgStore) -> bool:
    """A triple joins what the documents say with one of the values: a part and its whole, two names of one thing."""
    known = {match.entity_id for match in match_entity(store, answer) if match.score >= _SURE}
    return any({t.head, t.tail} & known for value in values if value in store for t in store.triples_of(value))
