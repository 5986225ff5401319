"""A final answer against its gold answers, by every metric at once."""

from __future__ import annotations

from collections.abc import Sequence

from rewards.cover import cover_exact_match
from rewards.exact_match import exact_match
from rewards.f1 import f1
from rewards.mcts import mcts_reward
from schemas import TrajectoryReward


def score_answer(prediction: str, golds: Sequence[str]) -> TrajectoryReward:
    """The reward columns of a trajectory; `total` is the MCTS reward."""
    return TrajectoryReward(
        total=mcts_reward(prediction, golds),
        exact_match=exact_match(prediction, golds),
        f1=f1(prediction, golds),
        cover_exact_match=cover_exact_match(prediction, golds),
    )
