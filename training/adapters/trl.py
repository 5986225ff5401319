"""Rewards for TRL's GRPOTrainer: `reward_funcs=[reward]`, or `[reward_function(preset="msearcher")]`.

The data set's column `ground_truth` (or `reward_model`) says what an answer is compared with. Further columns, all
optional, are what a `rollout_func` returns besides: `transcript`, the episode's messages, where the completion is one
text or does not show who wrote what; `retrieved_titles`; `judge`; and `question`, for a preset with a judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trailforge.protocols import split_text
from trailforge.rewards.episode import Reward
from trailforge.schemas import ChatMessage, InvalidInput
from trailforge.training.scoring import ToScore, read_messages, read_truth, scorer_of

RewardFunction = Callable[..., list[float]]
"""A reward function as TRL calls it: by keywords, with a list for each column."""


def reward_function(preset: str | None = None, protocol: str | None = None) -> RewardFunction:
    """Return a reward function of one preset and protocol, by default those that each question names. `preset` is a
    name, or a training preset's YAML file, whose judge is then asked. Raises `InvalidInput`.
    """
    scorer = scorer_of(preset, protocol)

    def reward(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float]:
        """What each completion is paid. `completion_ids` are counted for the length, observations too."""
        truths = [read_truth(value) for value in _truths(columns)]
        transcripts, titles, judges, questions = (
            columns.get(name) or [None] * len(completions)
            for name in ("transcript", "retrieved_titles", "judge", "question")
        )
        episodes = [
            ToScore(
                messages=_turns(completion if transcript is None else transcript, protocol or truth.protocol),
                truth=truth,
                question=questions[number],
                tokens=None if completion_ids is None else len(completion_ids[number]),
                retrieved_titles=titles[number],
                judge=judges[number],
            )
            for number, (completion, transcript, truth) in enumerate(zip(completions, transcripts, truths, strict=True))
        ]
        rewards = scorer.score(episodes)
        # All processes have to log the same names, which questions with presets of their own do not warrant.
        if log_metric is not None and scorer.preset is not None:
            _log_parts(rewards, log_metric)
        return [reward.total for reward in rewards]

    reward.__name__ = f"reward_{preset or 'of_question'}"  # under which TRL logs it
    return reward


def _truths(columns: dict[str, Any]) -> Sequence[Any]:
    for name in ("ground_truth", "reward_model"):
        if columns.get(name) is not None:
            return columns[name]
    raise InvalidInput("the data set has neither this column nor 'reward_model'", field="ground_truth")


def _turns(completion: Any, protocol: str) -> tuple[ChatMessage, ...]:
    return split_text(completion, protocol) if isinstance(completion, str) else read_messages(completion)


def _log_parts(rewards: Sequence[Reward], log_metric: Callable[[str, float], None]) -> None:
    """The mean of each part over the episodes of which it is known."""
    for name in rewards[0].parts if rewards else ():
        known = [part for reward in rewards if (part := reward.parts[name]) is not None]
        log_metric(f"reward/{name}", sum(known) / len(known) if known else 0.0)


reward = reward_function()
"""Pays episodes by the preset and protocol that each question names."""
