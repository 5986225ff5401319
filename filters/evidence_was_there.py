"""Reject retrieval errors that are none: the passages of the wrong step did hold the right answer.

By the diff alone a pair whose passages differ is a retrieval error. If the first search had already brought the answer,
a row that blames the search and searches again teaches doubt in good results.
"""

from __future__ import annotations

from trailforge.rewards import mentions
from trailforge.schemas import Trajectory, Verdict

REASON = "evidence_was_there"


def check(row: Trajectory) -> Verdict:
    """Score: how many of the blamed step's passages mention the answer that the mended step finds."""
    holding: list[str] = []
    if row.reflection_error == "retrieval":
        mistake = next(i for i, step in enumerate(row.steps) if step.is_mistake)
        answer = row.steps[mistake + 1].answer
        holding = [p.title for p in row.steps[mistake].passages if mentions(f"{p.title}. {p.text}", answer)]
    detail = f"{holding[0]!r} was among the first results" if holding else ""
    return Verdict(keep=not holding, reason=REASON, score=float(len(holding)), detail=detail)
