"""Reject questions that give their answer away, and those with a sub-question that gives its own away."""

from __future__ import annotations

from filters.kg_questions.reading import names_in
from schemas import KgQuestion, Verdict

REASON = "answer_in_question"


def check(row: KgQuestion) -> Verdict:
    """Score: how many of the question and its sub-questions have a name of what they ask for."""
    asked = [(row.question, row.chain.answer)]
    asked += [(hop.question, node) for hop, node in zip(row.decomposition, row.chain.found, strict=False)]
    leaks = [(names[0], text) for text, node in asked if (names := names_in(text, node))]
    detail = "{!r} stands in {!r}".format(*leaks[0]) if leaks else ""
    return Verdict(keep=not leaks, reason=REASON, score=float(len(leaks)), detail=detail)
