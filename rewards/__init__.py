"""Every score of the project: pure functions, called alike by filters, generators, training and evaluation."""

from trailforge.rewards.answers import is_abstention, read_first_line, read_short_answer, read_yes_or_no
from trailforge.rewards.dynasearcher import (
    DynaSearcherConstants,
    DynaSearcherReward,
    dynasearcher_reward,
    nearest_similarities,
    r_acc,
    r_ans,
    r_gain,
    r_penalty,
    r_recall,
    same_title,
)
from trailforge.rewards.episode import Episode, Reward, score_batch
from trailforge.rewards.graph_r1 import GraphR1Constants, GraphR1Reward, graph_r1_reward, per_turn_format_reward
from trailforge.rewards.matching import (
    is_near_miss,
    mcts_reward,
    mentions,
    other_names,
    same_answer,
    score_answer,
    states,
)
from trailforge.rewards.msearcher import MSearcherConstants, MSearcherReward, msearcher_reward, soft_overlong
from trailforge.rewards.options import option_f1, option_letters, score_choice
from trailforge.rewards.presets import REWARD_PRESETS, RewardPreset, reward_preset
from trailforge.rewards.r_search import (
    PlanProblem,
    RSearchConstants,
    answer_reward,
    dag_problems,
    format_reward,
    r_search_reward,
)
from trailforge.rewards.search_r1 import SearchR1Constants, SearchR1Reward, search_r1_reward
from trailforge.rewards.text import cover_exact_match, evidence_recall, exact_match, f1, normalize_answer
from trailforge.schemas import RSearchReward

__all__ = [
    "REWARD_PRESETS",
    "DynaSearcherConstants",
    "DynaSearcherReward",
    "Episode",
    "GraphR1Constants",
    "GraphR1Reward",
    "MSearcherConstants",
    "MSearcherReward",
    "PlanProblem",
    "RSearchConstants",
    "RSearchReward",
    "Reward",
    "RewardPreset",
    "SearchR1Constants",
    "SearchR1Reward",
    "answer_reward",
    "cover_exact_match",
    "dag_problems",
    "dynasearcher_reward",
    "evidence_recall",
    "exact_match",
    "f1",
    "format_reward",
    "graph_r1_reward",
    "is_abstention",
    "is_near_miss",
    "mcts_reward",
    "mentions",
    "msearcher_reward",
    "nearest_similarities",
    "normalize_answer",
    "option_f1",
    "option_letters",
    "other_names",
    "per_turn_format_reward",
    "r_acc",
    "r_ans",
    "r_gain",
    "r_penalty",
    "r_recall",
    "r_search_reward",
    "read_first_line",
    "read_short_answer",
    "read_yes_or_no",
    "reward_preset",
    "same_answer",
    "same_title",
    "score_answer",
    "score_batch",
    "score_choice",
    "search_r1_reward",
    "soft_overlong",
    "states",
]
