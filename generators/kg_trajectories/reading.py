"""Short answers that the model reads from what a search found, in its own words or from spans that stand there.

With them the self-check: does the knowledge graph say the same as the documents? Where not, one of them is stale or
wrong. For every search whose kept triples hold the asked entity with the asked relation, the model answers the query
from the documents alone. That answer and the triples' values conflict when they are not the same, both are of one kind,
and the graph does not join them: a town and its country are no conflict.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from trailforge.generators.kg_trajectories.config import PROMPTS, KgContext
from trailforge.inference import Sampling
from trailforge.inference.asker import Asker, fill
from trailforge.protocols.base import one_line
from trailforge.retrieval.kg import KgStore, match_entity
from trailforge.rewards import mentions, same_answer
from trailforge.rewards.answers import read_short_answer
from trailforge.schemas import KgConflict, KgStep, KgTriple, Passage


class Offer(Protocol):
    """Makes a grammar of what was read, for a model that would make names up: it may answer with nothing else."""

    def __call__(
        self,
        query: str,
        triples: Sequence[KgTriple],
        sentences: Sequence[tuple[Passage, str]],
        passages: Sequence[Passage],
        searched: Collection[str],
    ) -> str:
        """`sentences`: those of the passages that are read. `searched`: ids of the entities that are asked about."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Who reads for one episode. `sample` 0 is the plain reading; without `offer` the model uses its own words."""

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
    ) -> str:
        """A short answer, free of braces and tags; empty when the model says nothing, or not to its end.

        `searched`: ids of the entities that are asked about.
        """
        config = self.context.config.reading
        triples, sentences = triples[: config.num_triples], await self._sentences(query, passages)
        lines = [
            *(f"({t.head_label}) The {t.relation_label} of {t.head_label} is {t.tail_label}." for t in triples[::-1]),
            *(f"({p.title}) {sentence}" for p, sentence in sentences[::-1]),  # a small model heeds what stands last
        ]
        grammar = self.offer(query, triples, sentences, passages, searched) if self.offer else None
        reply = await self.asker.text(
            fill(PROMPTS.text(self.context.config.prompts.answer), question=query, context="\n".join(lines)),
            purpose="read",
            sampling=Sampling(
                temperature=self.temperature,
                top_p=self.context.config.guided.top_p,
                max_tokens=config.max_tokens,
                stop=config.stop,
            ),
            sample=self.sample,
            grammar=grammar,
        )
        return clean_answer(read_short_answer(reply.answer or "", config.max_answer_words))

    async def _sentences(self, query: str, passages: Sequence[Passage]) -> list[tuple[Passage, str]]:
        config = self.context.config.reading
        if config.reader == "passages":
            return [(passage, passage.text) for passage in passages]
        return await self.context.retrieval.best_sentences(query, passages, config.num_sentences)


def clean_answer(answer: str) -> str:
    """An answer that can stand in a box: no tags, no braces, one line."""
    return " ".join(re.sub(r"[{}\\]", " ", one_line(answer)).split())


_SURE = 0.9
"""Score from which a text is taken for an entity of the graph."""
_FIGURE = re.compile(r"\d")


async def find_conflicts(steps: Sequence[KgStep], reading: Reading) -> tuple[KgConflict, ...]:
    """The conflicts of an episode's searches. Asks the model once for each search that has values to compare."""
    found, only_absent = [], reading.context.config.self_check == "absent"
    for step in steps:
        if facts := find_asked_facts(step):
            answer = await reading.answer(step.query, step.documents, ())
            conflict = find_conflict(step, facts, answer, reading.context.store)
            if conflict and not (only_absent and _is_shown(step, facts)):
                found.append(conflict)
    return tuple(found)


def find_asked_facts(step: KgStep) -> list[tuple[KgTriple, bool]]:
    """The kept triples with a searched entity and an asked relation, each with whether its tail is the value."""
    entities = {link.entity_id for link in step.entities if link.is_searched}
    relations = {link.relation_id for link in step.relations}
    kept = [t for t in step.triples_kept if t.relation in relations]
    return [(t, t.head in entities) for t in kept if (t.head in entities) != (t.tail in entities)]


def find_conflict(
    step: KgStep, facts: Sequence[tuple[KgTriple, bool]], answer: str, store: KgStore
) -> KgConflict | None:
    """The conflict between what triples and documents say; None when they agree or cannot be compared.

    `answer`, the documents' answer, counts only where a document has it and the query has not.
    """
    values = {(t.tail, t.tail_label) if is_tail else (t.head, t.head_label) for t, is_tail in facts}
    ids, names = {key for key, _ in values}, sorted({label for _, label in values})
    if not answer or mentions(step.query, answer) or not _stands_in(step.documents, answer):
        return None
    aliases = [alias for key in ids for alias in store.aliases(key)]
    if any(same_answer(answer, name) for name in (*names, *aliases)):
        return None
    if any(bool(_FIGURE.search(answer)) != bool(_FIGURE.search(name)) for name in names):
        return None
    if _is_other_kind(answer, facts, store) or _is_near(answer, ids, store):
        return None
    return KgConflict(step=step.index, kg_value=", ".join(names), document_value=answer)


def _is_shown(step: KgStep, facts: Sequence[tuple[KgTriple, bool]]) -> bool:
    """A document mentions what the graph has."""
    return any(_stands_in(step.documents, t.tail_label if is_tail else t.head_label) for t, is_tail in facts)


def _stands_in(documents: Sequence[Passage], answer: str) -> bool:
    return any(mentions(f"{d.title}. {d.text}", answer) for d in documents)


def _is_other_kind(answer: str, facts: Sequence[tuple[KgTriple, bool]], store: KgStore) -> bool:
    """The graph knows what the documents say, but as a thing that can have no such place: a country is no year.

    Of one kind are things that stand in this relation, and those that have a triple with the same tail: two cities.
    """
    known = [match.entity_id for match in match_entity(store, answer) if match.score >= _SURE]
    triple, is_tail = facts[0]
    place = "into" if is_tail else "out"
    is_placed = any(triple.relation == r for entity in known for r, _ in store.relations_of(entity, place))
    kinds = _tails(store, triple.tail if is_tail else triple.head)
    return bool(known) and not is_placed and not any(kinds & _tails(store, entity) for entity in known)


def _tails(store: KgStore, entity: str) -> set[tuple[str, str]]:
    relations = [relation for relation, _ in store.relations_of(entity, "out")]
    return {(relation, tail) for relation in relations for tail in store.neighbours(entity, relation, "out")}


def _is_near(answer: str, values: set[str], store: KgStore) -> bool:
    """A triple joins what the documents say with one of the values: a part and its whole, two names of one thing."""
    known = {match.entity_id for match in match_entity(store, answer) if match.score >= _SURE}
    return any({t.head, t.tail} & known for value in values for t in store.triples_of(value))
