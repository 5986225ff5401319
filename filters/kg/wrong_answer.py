"""Reject episodes with a wrong final answer.

Asked for more than cover-EM, which the reward goes by and which takes "in" for an answer in "Berlin": whole words, and
at most three times as many as the gold answer has.
"""

from __future__ import annotations

from trailforge.rewards import mcts_reward
from trailforge.schemas import KgTrajectory, Verdict

REASON = "wrong_answer"


def check(row: KgTrajectory) -> Verdict:
    """Score: 1.0 for a right answer, else 0.0."""
    score = mcts_reward(row.final_answer, row.golds)
    detail = "" if score else f"{row.final_answer!r} instead of {row.answer!r}"
    return Verdict(keep=score > 0, reason=REASON, score=score, detail=detail)
