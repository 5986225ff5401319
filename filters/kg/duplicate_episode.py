"""Reject an episode that asks and answers the same as an earlier one of its question."""

from __future__ import annotations

from collections.abc import Sequence

from trailforge.filters.kg.redundant_search import request_of
from trailforge.rewards import normalize_answer
from trailforge.schemas import KgTrajectory, Verdict

REASON = "duplicate_episode"


def check(row: KgTrajectory, earlier: Sequence[KgTrajectory]) -> Verdict:
    """Score: how many earlier episodes are the same. `earlier`: those of the question that were kept so far."""
    same = [other for other in earlier if _signature(other) == _signature(row)]
    detail = f"same as {same[0].uid}" if same else ""
    return Verdict(keep=not same, reason=REASON, score=float(len(same)), detail=detail)


def _signature(row: KgTrajectory) -> tuple[object, ...]:
    return tuple(request_of(step) for step in row.steps), normalize_answer(row.final_answer)
