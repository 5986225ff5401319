"""Reject questions that name what has to be found on the way."""

from __future__ import annotations

from trailforge.filters.kg_questions.reading import names_in
from trailforge.schemas import KgQuestion, Verdict

REASON = "bridge_named"


def check(row: KgQuestion) -> Verdict:
    """Score: share of the bridges that have a name in the question; 0 without bridges."""
    named = [names[0] for bridge in row.chain.bridges if (names := names_in(row.question, bridge))]
    detail = f"it names {named[0]!r}, which has to be found" if named else ""
    score = len(named) / len(row.chain.bridges) if named else 0.0
    return Verdict(keep=not named, reason=REASON, score=round(score, 6), detail=detail)
