"""Reasons to reject a KG-search episode, one per module, and the choice among those that none rejects."""

from trailforge.filters.kg import (
    answer_leaked,
    duplicate_episode,
    low_reward,
    malformed,
    no_search,
    redundant_search,
    unfitting_relation,
    ungrounded_answer,
    wrong_answer,
    wrong_intermediate,
)
from trailforge.filters.kg.judge import KgFilterConfig, judge_kg_episode
from trailforge.filters.kg.pairs import contrastive_pairs
from trailforge.filters.kg.selection import Selection, SelectionConfig, select

__all__ = [
    "KgFilterConfig",
    "Selection",
    "SelectionConfig",
    "answer_leaked",
    "contrastive_pairs",
    "duplicate_episode",
    "judge_kg_episode",
    "low_reward",
    "malformed",
    "no_search",
    "redundant_search",
    "select",
    "unfitting_relation",
    "ungrounded_answer",
    "wrong_answer",
    "wrong_intermediate",
]
