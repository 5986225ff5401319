"""Reject episodes that break the protocol's grammar or whose plan breaks a rule: nobody should learn from them."""

from __future__ import annotations

from trailforge.protocols import R_SEARCH
from trailforge.schemas import SearchEpisode, Verdict

REASON = "malformed"


def check(episode: SearchEpisode) -> Verdict:
    """Score: how many rules are broken."""
    problems = R_SEARCH.validate(episode.messages, strict=True)
    detail = problems[0] if problems else ""
    return Verdict(keep=not problems, reason=REASON, score=float(len(problems)), detail=detail)
