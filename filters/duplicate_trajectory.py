"""Reject a trajectory that tells the same as an earlier one of its question: same kind, same finds, same answers.

What a search finds counts, not its wording: a query in other words that brings the same passages shows nothing new. Of
a search that is blamed (`retrieval`) the passages alone count, whatever was read from them, and so of the last step,
whose answer is the right one in either, by this name or another.
"""

from __future__ import annotations

from collections.abc import Sequence

from trailforge.rewards import same_answer
from trailforge.schemas import Step, Trajectory, Verdict

REASON = "duplicate_trajectory"


def check(row: Trajectory, earlier: Sequence[Trajectory]) -> Verdict:
    """Score: how many earlier trajectories are the same. `earlier`: the question's rows before this one."""
    same = [other for other in earlier if _tell_the_same(other, row)]
    detail = f"same as {same[0].uid}" if same else ""
    return Verdict(keep=not same, reason=REASON, score=float(len(same)), detail=detail)


def _tell_the_same(row: Trajectory, other: Trajectory) -> bool:
    if row.reflection_error != other.reflection_error or _finds(row) != _finds(other):
        return False
    pairs = list(zip(row.steps, other.steps, strict=True))[:-1]
    blames_search = row.reflection_error == "retrieval"
    return all((a.is_mistake and blames_search) or same_answer(a.answer, b.answer) for a, b in pairs)


def _finds(row: Trajectory) -> list[tuple[bool, frozenset[str]]]:
    """For each step: is it a mistake, and the ids of its passages."""
    return [(step.is_mistake, _ids(step)) for step in row.steps]


def _ids(step: Step) -> frozenset[str]:
    return frozenset(passage.id for passage in step.passages)
