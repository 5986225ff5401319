"""Reasons to reject an R-Search episode, one per module."""

from trailforge.filters.episodes import (
    answer_leaked,
    evidence_not_found,
    low_reward,
    malformed,
    needless_search,
    placeholder_query,
)
from trailforge.filters.episodes.judge import EpisodeFilterConfig, judge_episode

__all__ = [
    "EpisodeFilterConfig",
    "answer_leaked",
    "evidence_not_found",
    "judge_episode",
    "low_reward",
    "malformed",
    "needless_search",
    "placeholder_query",
]
