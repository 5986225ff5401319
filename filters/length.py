"""Reject conversations that are too long to train on, or that search more often than the agent may."""

from __future__ import annotations

from trailforge.schemas import Trajectory, Verdict

REASON = "too_long"


def check(row: Trajectory, *, max_tokens: int, max_tool_calls: int) -> Verdict:
    """Score: the estimated number of tokens."""
    too_long = row.token_estimate > max_tokens
    too_many = row.num_tool_calls > max_tool_calls
    detail = ""
    if too_long or too_many:
        detail = (
            f"about {row.token_estimate} tokens (at most {max_tokens}), "
            f"{row.num_tool_calls} searches (at most {max_tool_calls})"
        )
    return Verdict(
        keep=not (too_long or too_many),
        reason=REASON,
        score=float(row.token_estimate),
        detail=detail,
    )
