"""All reasons; none asks a model."""

from __future__ import annotations

from dataclasses import dataclass

from trailforge.filters.episodes import (
    answer_leaked,
    evidence_not_found,
    low_reward,
    malformed,
    needless_search,
    placeholder_query,
)
from trailforge.schemas import BundleQuestion, SearchEpisode, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFilterConfig:
    """What is asked of an episode. Both are those of the generator's configuration, which ranks its draws by them."""

    min_reward: float
    min_evidence: float


def judge_episode(episode: SearchEpisode, row: BundleQuestion, config: EpisodeFilterConfig) -> list[Verdict]:
    """Every filter's verdict on an episode of the question."""
    return [
        malformed.check(episode),
        placeholder_query.check(episode),
        answer_leaked.check(episode),
        low_reward.check(episode, least=config.min_reward),
        evidence_not_found.check(episode, row, least=config.min_evidence),
        needless_search.check(episode, row),
    ]
