"""Reject guided episodes that come to the right answer by a wrong one on the way."""

from __future__ import annotations

from trailforge.rewards import normalize_answer, same_answer
from trailforge.schemas import Hop, KgStep, KgTrajectory, Verdict

REASON = "wrong_intermediate"


def check(row: KgTrajectory) -> Verdict:
    """Score: how many gold hops were answered otherwise. The last hop is `wrong_answer`'s, which knows its aliases.

    Free episodes do not say what they take from a search, and are not asked.
    """
    wrong = wrong_steps(row)
    detail = f"{wrong[0][0].answer!r} instead of {wrong[0][1].answer!r} to {wrong[0][0].query!r}" if wrong else ""
    return Verdict(keep=not wrong, reason=REASON, score=float(len(wrong)), detail=detail)


def wrong_steps(row: KgTrajectory) -> list[tuple[KgStep, Hop]]:
    """The searches of a guided episode, but that of the last hop, that took something else than their gold answers."""
    asked = zip(row.steps[: len(row.gold_hops) - 1], row.gold_hops, strict=False) if row.plan else ()
    return [(step, hop) for step, hop in asked if not _is_right(step, hop.answer)]


def _is_right(step: KgStep, gold: str) -> bool:
    """Not the name of what was searched for, which may cover the answer: the Volkswagen Beetle is no Volkswagen."""
    answer = step.answer or ""
    subjects = {normalize_answer(link.label or "") for link in step.entities if link.is_searched}
    names_subject = normalize_answer(answer) in subjects - {normalize_answer(gold)}
    return same_answer(answer, gold) and not names_subject
