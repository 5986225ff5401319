"""Reject trajectories that search for `#k`, or for a question whose reference was filled with nothing."""

from __future__ import annotations

import re

from trailforge.schemas import Trajectory, Verdict

REASON = "unresolved_reference"
_REFERENCE = re.compile(r"#\d+")


def check(row: Trajectory) -> Verdict:
    """Score: how many queries are unresolved, or refer to a step without an answer."""
    bad = [step.query for step in row.steps if _REFERENCE.search(step.query) or not step.passages]
    detail = f"query {bad[0]!r}" if bad else ""
    return Verdict(keep=not bad, reason=REASON, score=float(len(bad)), detail=detail)
