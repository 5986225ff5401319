"""Reject questions that fewer of their facts answer as well."""

from __future__ import annotations

from trailforge.schemas import KgQuestion, Verdict

REASON = "shortcut"


def check(row: KgQuestion) -> Verdict:
    """Score: the fewest entities that are left when one fact is left out, as far as they were counted."""
    spare = [fact for fact in row.chain.facts if fact.left_without < 2]
    detail = f"the answer is clear without {spare[0].triple.text!r}" if spare else ""
    return Verdict(keep=not spare, reason=REASON, score=float(row.fewest_left), detail=detail)
