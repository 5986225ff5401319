"""Reject questions that more than one entity of the graph answers, or with a bridge that may be several."""

from __future__ import annotations

from trailforge.schemas import KgQuestion, Verdict

REASON = "not_unique"


def check(row: KgQuestion) -> Verdict:
    """Score: the most entities that fit what leads to the answer, or to a bridge."""
    several = [node for node in row.chain.found if node.matches != 1]
    detail = f"{several[0].matches} entities may be {several[0].label!r}" if several else ""
    score = float(max(node.matches for node in row.chain.found))
    return Verdict(keep=not several, reason=REASON, score=score, detail=detail)
