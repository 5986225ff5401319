"""Reject episodes with too low a reward: right, but with far more searches than they gained."""

from __future__ import annotations

from trailforge.schemas import KgTrajectory, Verdict

REASON = "low_reward"


def check(row: KgTrajectory, *, least: float) -> Verdict:
    """Score: the reward."""
    reward = row.reward
    keep = reward.total >= least
    detail = "" if keep else f"{reward.total:g} is below {least:g} (accuracy {reward.r_acc:g}, gain {reward.r_gain:g})"
    return Verdict(keep=keep, reason=REASON, score=reward.total, detail=detail)
