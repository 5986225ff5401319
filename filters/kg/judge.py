"""All reasons; none asks a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from trailforge.schemas import KgTrajectory, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class KgFilterConfig:
    """What is asked of an episode."""

    min_reward: float = 1.0
    """A right answer in the right form has 1 before the gain; below, it took more searches than it found documents."""
    grounded: bool = True
    """The final answer has to stand in what was read."""
    intermediate_answers: bool = True
    """Guided episodes have to be right at every hop."""


def judge_kg_episode(row: KgTrajectory, earlier: Sequence[KgTrajectory], config: KgFilterConfig) -> list[Verdict]:
    """Every filter's verdict, the gravest first. `earlier`: the kept episodes of the question before this one."""
    verdicts = [malformed.check(row), no_search.check(row), wrong_answer.check(row)]
    if config.grounded:
        verdicts.append(ungrounded_answer.check(row))
    if config.intermediate_answers:
        verdicts.append(wrong_intermediate.check(row))
    return [
        *verdicts,
        answer_leaked.check(row),
        unfitting_relation.check(row),
        redundant_search.check(row),
        low_reward.check(row, least=config.min_reward),
        duplicate_episode.check(row, earlier),
    ]
