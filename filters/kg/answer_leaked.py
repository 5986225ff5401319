"""Reject episodes that say the final answer before anything shows it: they know it by heart, or were told.

What stands in the question is no leak.
"""

from __future__ import annotations

from trailforge.filters.kg.ungrounded_answer import shows
from trailforge.rewards import mentions
from trailforge.schemas import KgTrajectory, Verdict

REASON = "answer_leaked"


def check(row: KgTrajectory) -> Verdict:
    """Score: how many turns before the first result that shows the answer mention it."""
    leaks = leaking_turns(row)
    detail = f"{row.final_answer!r} stands in {next(iter(leaks.values()))[:200]!r}" if leaks else ""
    return Verdict(keep=not leaks, reason=REASON, score=float(len(leaks)), detail=detail)


def leaking_turns(row: KgTrajectory) -> dict[int, str]:
    """The turns, by number, that say the answer too early."""
    if mentions(row.question, row.final_answer):
        return {}
    shown = next((step.index for step in row.steps if shows(step, row.final_answer)), len(row.steps))
    turns = [message.content for message in row.messages if message.role == "assistant"]
    # The turn after a result has read it; an answer that nothing shows is `ungrounded_answer`'s.
    early = enumerate(turns[: min(shown + 1, len(turns) - 1)])
    return {number: turn for number, turn in early if mentions(turn, row.final_answer)}
