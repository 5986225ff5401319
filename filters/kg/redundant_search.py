"""Reject episodes that search in vain: for what they have asked before, or with results that they all have read."""

from __future__ import annotations

from trailforge.rewards import normalize_answer
from trailforge.schemas import KgStep, KgTrajectory, Verdict

REASON = "redundant_search"


def check(row: KgTrajectory) -> Verdict:
    """Score: how many searches are redundant."""
    redundant = redundant_steps(row)
    detail = f"{redundant[0][0].query!r} {redundant[0][1]}" if redundant else ""
    return Verdict(keep=not redundant, reason=REASON, score=float(len(redundant)), detail=detail)


def redundant_steps(row: KgTrajectory) -> list[tuple[KgStep, str]]:
    """The searches that are redundant, each with why."""
    redundant: list[tuple[KgStep, str]] = []
    asked: set[object] = set()
    shown: set[object] = set()
    for step in row.steps:
        request, results = request_of(step), results_of(step)
        if request in asked:
            redundant.append((step, "was asked before"))
        elif results and results <= shown:
            redundant.append((step, "shows nothing new"))
        asked.add(request)
        shown |= results
    return redundant


def request_of(step: KgStep) -> tuple[str, frozenset[str], frozenset[str]]:
    """What a search asks, wording aside that says nothing: query, mentions, relations."""
    names, phrases = (frozenset(map(normalize_answer, texts)) for texts in (step.mentions, step.phrases))
    return normalize_answer(step.query), names, phrases


def results_of(step: KgStep) -> frozenset[object]:
    """What a search shows: documents by id, triples by their ends."""
    triples = {(triple.head, triple.relation, triple.tail) for triple in step.triples_kept}
    return frozenset({document.id for document in step.documents} | triples)
