"""Reject trajectories that accept an answer which none of the step's passages contains.

Such rows teach an agent to make answers up. The paper lets the model fall back on its own knowledge; we do not.
Steps marked as mistakes are `ungrounded_mistake`'s. Yes and no are exempt; a small number may stand there as a word or
as a figure.
"""

from __future__ import annotations

from trailforge.rewards import normalize_answer, states
from trailforge.schemas import Step, Trajectory, Verdict

REASON = "ungrounded_answer"
_NEVER_QUOTED = {"yes", "no"}


def check(row: Trajectory) -> Verdict:
    """Score: share of the accepted answers that a passage of their step contains."""
    accepted = [step for step in row.steps if not step.is_mistake]
    ungrounded = [step for step in accepted if not is_grounded(step)]
    detail = f"no passage says {ungrounded[0].answer!r} ({ungrounded[0].query!r})" if ungrounded else ""
    return Verdict(
        keep=not ungrounded,
        reason=REASON,
        score=1 - len(ungrounded) / len(accepted) if accepted else 0.0,
        detail=detail,
    )


def is_grounded(step: Step) -> bool:
    """Does a passage of the step contain its answer?"""
    if normalize_answer(step.answer) in _NEVER_QUOTED:
        return True
    return any(states(f"{p.title}. {p.text}", step.answer) for p in step.passages)
