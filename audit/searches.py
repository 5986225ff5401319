"""The searches for a question's documents, and at what rank these are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trailforge.audit.documents import FoundDocument
from trailforge.mcts.plan import gold_plan, resolve
from trailforge.pipelines.audited import AuditedBy, AuditedSearch
from trailforge.retrieval import Retriever
from trailforge.schemas import Document, Passage, Question

_READ = 5
"""Passages of a search that are read for what is stated beside the documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuery:
    """A search that is to be made."""

    by: AuditedBy
    query: str
    hop: int | None = None


def plan_searches(question: Question, documents: Sequence[FoundDocument]) -> tuple[PlannedQuery, ...]:
    """The question as it stands, each sub-question with the answers before it, and for each document its title with
    the sentence that counts in it, else with sub-question and answer: what finds it if anything does. Where no document
    is known, each question with its answer."""
    answers = {number: hop.answer for number, hop in enumerate(question.decomposition, start=1)}
    plan = gold_plan(question.decomposition).sub_questions[: question.num_hops or None]
    asked = {number: resolve(text, answers) for number, text in enumerate(plan, start=1)}
    found = [PlannedQuery(by="question", query=question.question)]
    found += [
        PlannedQuery(by="sub_question", query=text, hop=number)
        for number, text in asked.items()
        if text != question.question
    ]
    if not documents:
        found.append(PlannedQuery(by="best_wording", query=f"{question.question} {question.answer}"))
        found += [PlannedQuery(by="best_wording", query=f"{text} {answers[n]}", hop=n) for n, text in asked.items()]
    for each in documents:
        hops = [number for number in each.audited.hops if number in asked]
        words = each.wanted.document.facts[:1] or tuple(f"{asked[n]} {answers[n]}" for n in hops)
        query = " ".join((each.audited.title, *words)).strip()
        if query:
            found.append(PlannedQuery(by="best_wording", query=query, hop=hops[0] if len(hops) == 1 else None))
    return tuple({each.query: each for each in reversed(found)}.values())[::-1]


async def search_for(
    queries: Sequence[PlannedQuery], documents: Sequence[FoundDocument], retriever: Retriever, depth: int
) -> tuple[tuple[AuditedSearch, ...], tuple[Document, ...]]:
    """At what rank each search has each document among its first `depth` passages; and the first few, each once, or all
    where nothing says what the question rests on.

    What none of them finds is searched for by its title alone.
    """
    searches, brought = list[AuditedSearch](), dict[str, Document]()
    read = _READ if documents else depth

    async def search(each: PlannedQuery) -> None:
        passages = await retriever.retrieve(each.query, depth)
        ranks = tuple(_rank_of(document, passages) for document in documents)
        searches.append(AuditedSearch(by=each.by, query=each.query, hop=each.hop, ranks=ranks))
        brought.update((p.id, Document(id=p.id, title=p.title, text=p.text)) for p in passages[:read])

    for each in queries:
        await search(each)
    for number, document in enumerate(documents):
        is_found = any(each.ranks[number] is not None for each in searches)
        if document.audited.is_there and document.audited.title and not is_found:
            await search(PlannedQuery(by="best_wording", query=document.audited.title))
    return tuple(searches), tuple(brought.values())


def _rank_of(document: FoundDocument, passages: Sequence[Passage]) -> int | None:
    own = set(document.audited.passages)
    return next((rank for rank, passage in enumerate(passages, start=1) if passage.id in own), None)
