"""What a model is worth as an agent: greedy episodes on held-out questions, by the rollout that trains it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from trailforge.protocols import grammar_of
from trailforge.protocols.environment import Environment
from trailforge.rewards.matching import score_answer
from trailforge.rewards.options import score_choice
from trailforge.schemas import InvalidInput, RlRow, TrajectoryReward
from trailforge.training.config import TrainPreset
from trailforge.training.generation import Draw, Generator, TransformersGenerator
from trailforge.training.rollouts import TokenEpisode, roll_out
from trailforge.training.scoring import scorer_of_training
from trailforge.training.trl.rl import limits_of, to_score
from trailforge.training.weights import base_model, load_base


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentScore:
    """Means over questions, one greedy episode each. An episode without an answer scores 0 in all answer metrics."""

    model: str
    preset: str
    protocol: str
    questions: int
    well_formed: float
    """Share of episodes that are as the protocol asks, without any mending."""
    answered: float
    searches: float
    """Executed, a question."""
    supporting_recall: float | None
    """The share of the supporting documents that the searches brought, as DynaSearcher's reward finds them, over the
    questions whose documents are known; None when none are."""
    cover_exact_match: float
    exact_match: float
    f1: float
    reward: float
    """As the preset pays in training."""
    tokens: float
    """After the prompt, results included."""
    answer_words: float
    """Of answered episodes: cover-EM pays for long answers."""
    stops: Mapping[str, int]
    """Episodes by how they ended."""


def evaluate(
    checkpoint: str,
    rows: Sequence[RlRow],
    preset: TrainPreset,
    environment: Environment,
    *,
    batch: int = 64,
) -> AgentScore:
    """Score a model's folder (or name) on questions. Raises as `train_rl`."""
    source = base_model(checkpoint)
    base = load_base(source)
    _to_accelerator(base.model)
    generator = TransformersGenerator(base.model, base.tokenizer, Draw(temperature=0.0), batch=batch)
    return evaluate_agent(generator, base.tokenizer, rows, preset, environment, model=checkpoint)


def evaluate_agent(
    generator: Generator,
    tokenizer: Any,
    rows: Sequence[RlRow],
    preset: TrainPreset,
    environment: Environment,
    *,
    model: str,
) -> AgentScore:
    """Score whoever generates. Raises `InvalidInput` when there are no questions, and what the tools raise."""
    if not rows:
        raise InvalidInput("no questions to evaluate on")
    environment.check(grammar_of(preset.protocol))
    episodes = roll_out(
        [row.prompt for row in rows],
        preset.protocol,
        environment,
        generator=generator,
        tokenizer=tokenizer,
        limits=limits_of(preset.rl),
    )
    scorer = scorer_of_training(preset)
    scored = [scorer.begin(to_score(row, episode)) for row, episode in zip(rows, episodes, strict=True)]
    recalls = [recall for each in scored if (recall := each.recall()) is not None]
    answers = [_answer_score(row, episode) for row, episode in zip(rows, episodes, strict=True)]
    return AgentScore(
        model=model,
        preset=preset.name,
        protocol=preset.protocol,
        questions=len(rows),
        well_formed=fmean(each.episode.is_well_formed for each in scored),
        answered=fmean(episode.run.stop == "answered" for episode in episodes),
        searches=fmean(episode.run.num_searches for episode in episodes),
        supporting_recall=fmean(recalls) if recalls else None,
        cover_exact_match=fmean(answer.cover_exact_match for answer in answers),
        exact_match=fmean(answer.exact_match for answer in answers),
        f1=fmean(answer.f1 for answer in answers),
        reward=fmean(each.reward().total for each in scored),
        tokens=fmean(len(episode.ids) for episode in episodes),
        answer_words=_answer_words(episodes),
        stops=dict(sorted(Counter(episode.run.stop for episode in episodes).items())),
    )


def write_score(score: AgentScore, path: Path) -> None:
    """As JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(score), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _answer_score(row: RlRow, episode: TokenEpisode) -> TrajectoryReward:
    truth = row.reward_model.ground_truth
    if truth.correct_options:
        return score_choice(episode.run.answer, truth.correct_options)
    return score_answer(episode.run.answer, truth.target)


def _answer_words(episodes: Sequence[TokenEpisode]) -> float:
    lengths = [len(episode.run.answer.split()) for episode in episodes if episode.run.stop == "answered"]
    return fmean(lengths) if lengths else 0.0


def _to_accelerator(model: Any) -> None:
    import torch

    if torch.cuda.is_available():
        model.to("cuda")
