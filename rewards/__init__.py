"""Every score of the project: pure functions, called alike by filters, generators, training and evaluation."""

from rewards.cover import cover_exact_match, mentions
from rewards.dag import PlanProblem, dag_problems, dag_reward
from rewards.dynasearcher import (
    DynaSearcherConstants,
    DynaSearcherReward,
    dynasearcher_reward,
    r_acc,
    r_ans,
    r_gain,
    r_penalty,
    r_recall,
    same_title,
)
from rewards.evidence import evidence_recall
from rewards.exact_match import exact_match
from rewards.f1 import f1
from rewards.mcts import mcts_reward, same_answer
from rewards.normalisation import normalize_answer
from rewards.options import option_f1, option_letters
from rewards.r_search import answer_reward, format_reward, r_search_reward
from rewards.score import score_answer, score_choice
from rewards.turn_format import per_turn_format_reward
from schemas import RSearchReward

__all__ = [
    "DynaSearcherConstants",
    "DynaSearcherReward",
    "PlanProblem",
    "RSearchReward",
    "answer_reward",
    "cover_exact_match",
    "dag_problems",
    "dag_reward",
    "dynasearcher_reward",
    "evidence_recall",
    "exact_match",
    "f1",
    "format_reward",
    "mcts_reward",
    "mentions",
    "normalize_answer",
    "option_f1",
    "option_letters",
    "per_turn_format_reward",
    "r_acc",
    "r_ans",
    "r_gain",
    "r_penalty",
    "r_recall",
    "r_search_reward",
    "same_answer",
    "same_title",
    "score_answer",
    "score_choice",
]
