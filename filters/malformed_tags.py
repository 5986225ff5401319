"""Reject conversations that break the grammar of their protocol."""

from __future__ import annotations

from trailforge.protocols import REACT
from trailforge.schemas import Trajectory, Verdict

REASON = "malformed_tags"


def check(row: Trajectory) -> Verdict:
    """Score: how many rules of the protocol are broken."""
    problems = REACT.validate(row.messages, strict=True)
    return Verdict(
        keep=not problems,
        reason=REASON,
        score=float(len(problems)),
        detail=problems[0] if problems else "",
    )
