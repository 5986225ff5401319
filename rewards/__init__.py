"""Every score of the project: pure functions, called alike by filters, generators, training and evaluation."""

from rewards.cover import cover_exact_match, mentions
from rewards.exact_match import exact_match
from rewards.f1 import f1
from rewards.mcts import mcts_reward, same_answer
from rewards.normalisation import normalize_answer
from rewards.score import score_answer

__all__ = [
    "cover_exact_match",
    "exact_match",
    "f1",
    "mcts_reward",
    "mentions",
    "normalize_answer",
    "same_answer",
    "score_answer",
]
