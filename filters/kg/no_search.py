"""Reject episodes that answer without a search: they would teach to answer from memory."""

from __future__ import annotations

from trailforge.schemas import KgTrajectory, Verdict

REASON = "no_search"


def check(row: KgTrajectory) -> Verdict:
    """Score: executed searches."""
    detail = "" if row.num_tool_calls else "no search was executed"
    return Verdict(keep=row.num_tool_calls > 0, reason=REASON, score=float(row.num_tool_calls), detail=detail)
