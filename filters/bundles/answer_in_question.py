"""Reject questions that give their answer away: in their own words, or in a query of the gold plan."""

from __future__ import annotations

from trailforge.rewards import mentions
from trailforge.schemas import BundleQuestion, Verdict

REASON = "answer_in_question"


def check(row: BundleQuestion) -> Verdict:
    """Score: how many of the question and its queries mention the answer. Options are there to be chosen from."""
    if row.options:
        return Verdict(keep=True, reason=REASON, score=0.0)
    leaks = [text for text in (row.question, *(node.query for node in row.dag_nodes)) if mentions(text, row.answer)]
    detail = f"{row.answer!r} stands in {leaks[0]!r}" if leaks else ""
    return Verdict(keep=not leaks, reason=REASON, score=float(len(leaks)), detail=detail)
