"""Reject a trajectory that tells the same as an earlier one of its question: same kind, queries and answers."""

from __future__ import annotations

from collections.abc import Sequence

from rewards import normalize_answer
from schemas import Trajectory, Verdict

REASON = "duplicate_trajectory"


def check(row: Trajectory, earlier: Sequence[Trajectory]) -> Verdict:
    """Score: how many earlier trajectories are the same. `earlier`: the question's rows before this one."""
    same = [other for other in earlier if _signature(other) == _signature(row)]
    detail = f"same as {same[0].uid}" if same else ""
    return Verdict(keep=not same, reason=REASON, score=float(len(same)), detail=detail)


def _signature(row: Trajectory) -> tuple[object, ...]:
    steps = tuple((normalize_answer(s.query), normalize_answer(s.answer)) for s in row.steps)
    return row.reflection_error, steps
