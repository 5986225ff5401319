"""Our rollouts as TRL's `rollout_func`: the trainer's prompts are ids of rows, what comes back are scored episodes.

TRL repeats each row once for every episode of its group, so equal ids that follow each other are a group. Rewards are
given here, where the whole conversation is known, and handed through to TRL (`episode_reward`). An episode whose search
failed has none: TRL then leaves it out of its group's mean, and no token of it has a loss.

Dynamic sampling (DAPO, section 3.2): a group whose episodes are all paid the same has no advantage. Its place is given
to a group of another question, drawn from the training set by seed, step and process; after `TRIES` rounds what is
still without advantage is masked, so that it counts in no mean over tokens.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from trailforge.protocols.environment import Environment
from trailforge.protocols.transcripts import read_transcript
from trailforge.rewards.episode import Reward
from trailforge.schemas import RlRow
from trailforge.training.generation import Generator, TurnServer
from trailforge.training.rollouts import RolloutLimits, TokenEpisode, roll_out
from trailforge.training.turns import EpisodeLoop

TRIES = 3
"""Rounds in which groups without advantage are replaced."""

Pay = Callable[[Sequence[tuple[RlRow, TokenEpisode]]], Sequence[Reward]]
"""The rewards of episodes, each with the row that it is on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """An episode with its reward."""

    row: RlRow
    episode: TokenEpisode
    reward: Reward


class SearchRollouts:
    """Makes and pays the episodes of a step. One for the whole training: the tools stay on one event loop."""

    def __init__(
        self,
        rows: Sequence[RlRow],
        environment: Environment,
        pay: Pay,
        *,
        protocol: str,
        tokenizer: Any,
        limits: RolloutLimits,
        open_generator: Callable[[Any], Generator | TurnServer],
        dynamic_sampling: bool = False,
        seed: int = 0,
    ) -> None:
        """`open_generator` makes the generator of a trainer when it first rolls out."""
        self._rows: Mapping[str, RlRow] = {row.uid: row for row in rows}
        self._environment, self._pay, self._protocol = environment, pay, protocol
        self._tokenizer, self._limits = tokenizer, limits
        self._open_generator = open_generator
        self._generator: Generator | TurnServer | None = None
        self._dynamic_sampling, self._seed = dynamic_sampling, seed
        self._loop = EpisodeLoop()

    def close(self) -> None:
        """End the tools' event loop."""
        self._loop.close()

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """What TRL calls: ids of rows to tokens, masks and rewards."""
        paid = self._roll_out([self._rows[uid] for uid in prompts], trainer)
        dropped = 0
        if self._dynamic_sampling:
            paid = self._replaced(paid, trainer.num_generations, trainer)
            paid, dropped = _masked(paid, trainer.num_generations)
        return self._as_trl_wants(paid, dropped, trainer)

    def _roll_out(self, rows: Sequence[RlRow], trainer: Any) -> list[Paid]:
        if self._generator is None:
            self._generator = self._open_generator(trainer)
        if isinstance(self._generator, TurnServer):
            trainer.accelerator.wait_for_everyone()  # one process alone gives the server this step's weights
        episodes = roll_out(
            [row.prompt for row in rows],
            self._protocol,
            self._environment,
            generator=self._generator,
            tokenizer=self._tokenizer,
            limits=self._limits,
            loop=self._loop,
        )
        played = list(zip(rows, episodes, strict=True))
        return [
            Paid(row=row, episode=episode, reward=reward)
            for (row, episode), reward in zip(played, self._pay(played), strict=True)
        ]

    def _replaced(self, paid: list[Paid], size: int, trainer: Any) -> list[Paid]:
        """Groups without advantage replaced by groups of other questions, where those have one."""
        groups = _groups(paid, size)
        place = f"{self._seed}/{trainer.state.global_step}/{trainer.accelerator.process_index}"
        used = {one.row.uid for one in paid}
        spare = [row for row in self._rows.values() if row.uid not in used]
        random.Random(place).shuffle(spare)
        for _ in range(TRIES):
            equal = [number for number, group in enumerate(groups) if not _has_advantage(group)]
            rows, spare = spare[: len(equal)], spare[len(equal) :]
            if not rows:
                break
            tried = _groups(self._roll_out([row for row in rows for _ in range(size)], trainer), size)
            for number, group in zip(equal, tried, strict=False):
                if _has_advantage(group):
                    groups[number] = group
        return [one for group in groups for one in group]

    def _as_trl_wants(self, paid: Sequence[Paid], dropped: int, trainer: Any) -> dict[str, Any]:
        episodes = [one.episode for one in paid]
        sampled = any(each is not None for episode in episodes for each in episode.logprobs if each != 0.0)
        return {
            "prompt_ids": [episode.prompt_ids for episode in episodes],
            "completion_ids": [episode.ids for episode in episodes],
            "logprobs": [episode.logprobs for episode in episodes] if sampled else None,
            "env_mask": [episode.mask for episode in episodes],
            "episode_reward": [None if one.episode.failed else one.reward.total for one in paid],
            "episode_figures": [
                figures(paid, self._protocol) | {"groups_dropped": float(dropped), "kl_weight": float(trainer.beta)}
            ]
            * len(paid),
        }


def episode_reward(
    *,
    episode_reward: Sequence[float | None],
    episode_figures: Sequence[Mapping[str, float]],
    log_metric: Callable[[str, float], None],
    **others: Any,
) -> list[float | None]:
    """TRL's reward function: what the rollout has given already; and figures of the step for the log."""
    for name, value in episode_figures[0].items():
        log_metric(f"episodes/{name}", value)
    return list(episode_reward)


def figures(paid: Sequence[Paid], protocol: str) -> dict[str, float]:
    """The share of episodes whose search failed; means over the others: searches, shares that answered and that are
    well-formed, tokens, and each part of the reward where it is known."""
    failed = sum(one.episode.failed for one in paid) / len(paid)
    paid = [one for one in paid if not one.episode.failed] or paid
    parts: dict[str, list[float]] = {}
    for one in paid:
        for name, value in one.reward.parts.items():
            if value is not None:
                parts.setdefault(name, []).append(float(value))
    return {
        "failed": failed,
        "searches": fmean(one.episode.run.num_searches for one in paid),
        "well_formed": fmean(read_transcript(one.episode.messages, protocol).is_well_formed for one in paid),
        "answered": fmean(one.episode.run.stop == "answered" for one in paid),
        "tokens": fmean(len(one.episode.ids) for one in paid),
        **{f"reward_{name}": fmean(values) for name, values in parts.items()},
    }


def _groups(paid: Sequence[Paid], size: int) -> list[list[Paid]]:
    return [list(paid[start : start + size]) for start in range(0, len(paid), size)]


def _has_advantage(group: Sequence[Paid]) -> bool:
    return len({one.reward.total for one in group}) > 1


def _masked(paid: Sequence[Paid], size: int) -> tuple[list[Paid], int]:
    """Groups without advantage without loss either, and how many they are."""
    groups = _groups(paid, size)
    kept = [
        group if _has_advantage(group) else [replace(one, episode=_without_loss(one.episode)) for one in group]
        for group in groups
    ]
    return [one for group in kept for one in group], sum(not _has_advantage(group) for group in groups)


def _without_loss(episode: TokenEpisode) -> TokenEpisode:
    return replace(episode, mask=[0] * len(episode.mask))
