"""Reject reflective trajectories whose mistake stands in none of the passages that were read.

A mistake is told as a misreading or as a wrong turn: "the results lead me to X". With an X that came from nowhere the
telling is untrue, and the row shows how to make answers up before it shows how to mend them. Yes and no are exempt.
"""

from __future__ import annotations

from trailforge.filters.ungrounded_answer import is_grounded
from trailforge.schemas import Trajectory, Verdict

REASON = "ungrounded_mistake"


def check(row: Trajectory) -> Verdict:
    """Score: how many mistakes no passage of their step contains."""
    invented = [step for step in row.steps if step.is_mistake and not is_grounded(step)]
    detail = f"no passage says {invented[0].answer!r} ({invented[0].query!r})" if invented else ""
    return Verdict(keep=not invented, reason=REASON, score=float(len(invented)), detail=detail)
