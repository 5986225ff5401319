"""Reject episodes that say the answer before they have searched: they would teach to answer from memory."""

from __future__ import annotations

from trailforge.rewards import mentions
from trailforge.schemas import SearchEpisode, Verdict

REASON = "answer_leaked"


def check(episode: SearchEpisode) -> Verdict:
    """Score: how many of thought and queries mention the answer.

    What stands in the question is no leak, and options do.
    """
    if episode.options or mentions(episode.question, episode.answer):
        return Verdict(keep=True, reason=REASON, score=0.0)
    early = [episode.thought, *(node.query for node in episode.plan_nodes)]
    leaks = [text for text in early if mentions(text, episode.answer)]
    detail = f"{episode.answer!r} stands in {leaks[0][:200]!r}" if leaks else ""
    return Verdict(keep=not leaks, reason=REASON, score=float(len(leaks)), detail=detail)
