"""What a model is worth to its training: greedy episodes by the rollout that trains it, paid as the preset pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tests.support.rolled_out import rolled_out
from trailforge.protocols.environment import Environment
from trailforge.rewards.matching import score_answer
from trailforge.schemas import RlRow
from trailforge.training.config import TrainPreset
from trailforge.training.generation import Generator, TransformersGenerator
from trailforge.training.scoring import scorer_of_training
from trailforge.training.token_episodes import limits_of
from trailforge.training.trl.rl import to_score
from trailforge.training.weights import load_base


@dataclass(frozen=True)
class Worth:
    """Means over questions."""

    well_formed: float
    answered: float
    searches: float
    right: float
    reward: float
    stops: dict[str, int]


def worth_of(folder: str, rows: Sequence[RlRow], preset: TrainPreset, environment: Environment) -> Worth:
    """Of a model's folder."""
    base = load_base(folder)
    generator = TransformersGenerator(base.model, base.tokenizer, temperature=0.0)
    return worth_of_generator(generator, base.tokenizer, rows, preset, environment)


def worth_of_generator(
    generator: Generator, tokenizer: Any, rows: Sequence[RlRow], preset: TrainPreset, environment: Environment
) -> Worth:
    """Of whoever generates."""
    prompts, limits = [row.prompt for row in rows], limits_of(preset.rl, preset.rl.max_tokens)
    episodes = rolled_out(
        prompts, preset.protocol, environment, generator=generator, tokenizer=tokenizer, limits=limits
    )
    scorer = scorer_of_training(preset)
    scored = [scorer.begin(to_score(row, episode)) for row, episode in zip(rows, episodes, strict=True)]
    golds = [row.reward_model.ground_truth.target for row in rows]
    return Worth(
        well_formed=fmean(each.episode.is_well_formed for each in scored),
        answered=fmean(each.run.stop == "answered" for each in episodes),
        searches=fmean(each.run.num_searches for each in episodes),
        right=fmean(
            score_answer(each.run.answer, gold).cover_exact_match for each, gold in zip(episodes, golds, strict=True)
        ),
        reward=fmean(each.reward().total for each in scored),
        stops=dict(Counter(each.run.stop for each in episodes)),
    )
