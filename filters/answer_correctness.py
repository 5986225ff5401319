"""Reject trajectories whose final answer is not right: by the MCTS reward, the function that scored the rollout."""

from __future__ import annotations

from trailforge.rewards import mcts_reward
from trailforge.schemas import Trajectory, Verdict

REASON = "wrong_answer"


def check(row: Trajectory) -> Verdict:
    """Score: the reward of the final answer, 1.0 or 0.0."""
    score = mcts_reward(row.final_answer, (row.answer, *row.answer_aliases))
    detail = "" if score else f"final answer {row.final_answer!r}, gold {row.answer!r}"
    return Verdict(keep=score > 0, reason=REASON, score=score, detail=detail)
