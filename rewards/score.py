"""A final answer against its gold answers, by every metric at once."""

from __future__ import annotations

from collections.abc import Sequence

from trailforge.rewards.msearcher import mcts_reward
from trailforge.rewards.text import cover_exact_match, exact_match, f1, option_f1, option_letters
from trailforge.schemas import TrajectoryReward


def score_answer(prediction: str, golds: Sequence[str]) -> TrajectoryReward:
    """The reward columns of a trajectory; `total` is the MCTS reward."""
    return TrajectoryReward(
        total=mcts_reward(prediction, golds),
        exact_match=exact_match(prediction, golds),
        f1=f1(prediction, golds),
        cover_exact_match=cover_exact_match(prediction, golds),
    )


def score_choice(prediction: str, correct_options: Sequence[str]) -> TrajectoryReward:
    """The same for a question with options, over the sets of chosen and correct letters; words would say nothing.

    `exact_match` and `total`: exactly the correct ones. `cover_exact_match`: all of them, and maybe others.
    """
    chosen, correct = option_letters(prediction), {letter.upper() for letter in correct_options}
    exact = float(bool(correct) and chosen == correct)
    return TrajectoryReward(
        total=exact,
        exact_match=exact,
        f1=option_f1(chosen, correct),
        cover_exact_match=float(bool(correct) and correct <= chosen),
    )
