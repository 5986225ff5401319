"""Reject episodes whose reward is too low: a wrong answer, mostly, where the form is right."""

from __future__ import annotations

from trailforge.schemas import SearchEpisode, Verdict

REASON = "low_reward"


def check(episode: SearchEpisode, *, least: float) -> Verdict:
    """Score: the reward."""
    reward = episode.reward
    keep = reward.total >= least
    parts = f"format {reward.format:g}, plan {reward.dag:g}, answer {reward.answer:g}"
    detail = "" if keep else f"{reward.total:g} is below {least:g} ({parts})"
    return Verdict(keep=keep, reason=REASON, score=reward.total, detail=detail)
