"""Reject episodes that break the protocol's grammar, end without an answer or needed mending."""

from __future__ import annotations

from trailforge.protocols import KG_SEARCH
from trailforge.schemas import KgTrajectory, Verdict

REASON = "malformed"


def check(row: KgTrajectory) -> Verdict:
    """Score: how many rules are broken."""
    problems = KG_SEARCH.validate(row.messages, strict=True)
    detail = f"{problems[0]} ({row.stop})" if problems else ""
    return Verdict(keep=not problems, reason=REASON, score=float(len(problems)), detail=detail)
