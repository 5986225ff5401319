"""Reject episodes that say the final answer before anything shows it: they know it by heart, or were told.

What stands in the question is no leak.
"""

from __future__ import annotations

from filters.kg.ungrounded_answer import shows
from rewards import mentions
from schemas import KgTrajectory, Verdict

REASON = "answer_leaked"


def check(row: KgTrajectory) -> Verdict:
    """Score: how many turns before the first result that shows the answer mention it."""
    if mentions(row.question, row.final_answer):
        return Verdict(keep=True, reason=REASON, score=0.0)
    shown = next((step.index for step in row.steps if shows(step, row.final_answer)), len(row.steps))
    turns = [message.content for message in row.messages if message.role == "assistant"]
    # The turn after a result has read it; an answer that nothing shows is `ungrounded_answer`'s.
    leaks = [turn for turn in turns[: min(shown + 1, len(turns) - 1)] if mentions(turn, row.final_answer)]
    detail = f"{row.final_answer!r} stands in {leaks[0][:200]!r}" if leaks else ""
    return Verdict(keep=not leaks, reason=REASON, score=float(len(leaks)), detail=detail)
