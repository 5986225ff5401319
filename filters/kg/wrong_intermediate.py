"""Reject guided episodes that come to the right answer by a wrong one on the way."""

from __future__ import annotations

from rewards import same_answer
from schemas import KgTrajectory, Verdict

REASON = "wrong_intermediate"


def check(row: KgTrajectory) -> Verdict:
    """Score: how many gold hops were answered otherwise. The last hop is `wrong_answer`'s, which knows its aliases.

    Free episodes do not say what they take from a search, and are not asked.
    """
    asked = zip(row.steps[: len(row.gold_hops) - 1], row.gold_hops, strict=False) if row.plan else ()
    wrong = [(step, hop) for step, hop in asked if not same_answer(step.answer or "", hop.answer)]
    detail = f"{wrong[0][0].answer!r} instead of {wrong[0][1].answer!r} to {wrong[0][0].query!r}" if wrong else ""
    return Verdict(keep=not wrong, reason=REASON, score=float(len(wrong)), detail=detail)
