"""Provide our rollouts as TRL's `rollout_func`: prompts come in as ids of rows, scored episodes are returned.

TRL repeats each row once for every episode of its group, so equal ids that follow each other are a group. Rewards are
given here, where the whole conversation is known, and handed through to TRL (`episode_reward`). An episode whose search
failed has none: TRL then leaves it out of its group's mean, and no token of it has a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

from trailforge.protocols import read_transcript
from trailforge.protocols.browse import BROWSE
from trailforge.protocols.environment import Environment
from trailforge.rewards.episode import Reward
from trailforge.schemas import AgentEpisode, RlRow
from trailforge.training.batched_turns import EpisodeLoop
from trailforge.training.generation import Generator, TurnServer
from trailforge.training.kept_episodes import EpisodePlace, EpisodeWriter, TrainedQuestion, make_row
from trailforge.training.native import read_run
from trailforge.training.rollouts import roll_out
from trailforge.training.token_episodes import RolloutLimits, TokenEpisode

Pay = Callable[[Sequence[tuple[RlRow, TokenEpisode]]], Sequence[Reward]]
"""Pays episodes, each given with the row that it is on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """An episode with its reward."""

    row: RlRow
    episode: TokenEpisode
    reward: Reward


class StepKeeper:
    """Writes the episodes of one process, all those together that are made between two updates of the policy."""

    def __init__(self, writer: EpisodeWriter, place: EpisodePlace, *, every: int, updates: int) -> None:
        """`every`: batches of episodes, of which one is kept. `updates`: optimizer steps on each batch."""
        self._writer, self._place, self._every, self._updates = writer, place, every, updates

    def keep(self, step: int, paid: Sequence[Paid]) -> None:
        """Store the episodes of a step, and return at once. `step` is the optimizer step that trains them first, from
        1.
        """
        if (step - 1) // self._updates % self._every == 0:
            self._writer.keep(step, partial(_rows_of, paid, replace(self._place, step=step)))

    def close(self) -> None:
        """Write the episodes that still wait."""
        self._writer.close()


def _rows_of(paid: Sequence[Paid], place: EpisodePlace) -> list[AgentEpisode]:
    return [
        make_row(_asked(one.row), one.episode.run, place, number=number, reward=one.reward)
        for number, one in enumerate(paid)
    ]


def _asked(row: RlRow) -> TrainedQuestion:
    truth = row.reward_model.ground_truth
    return TrainedQuestion(truth=truth, id=row.question_id, question=row.question, dataset=row.data_source)


class SearchRollouts:
    """The rollouts of a training, which make and reward the episodes of each step. There is one object for the whole
    training, so that the tools stay on one event loop.
    """

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
        mask_too_long: bool = False,
        keeper: StepKeeper | None = None,
    ) -> None:
        """`open_generator` makes the generator of a trainer when it first rolls out. `mask_too_long`: episodes that
        end for want of room have no loss, whatever token they end with. `keeper`: who keeps them; None: nobody."""
        self._rows: Mapping[str, RlRow] = {row.uid: row for row in rows}
        self._environment, self._pay, self._protocol = environment, pay, protocol
        self._tokenizer, self._limits = tokenizer, limits
        self._open_generator = open_generator
        self._generator: Generator | TurnServer | None = None
        self._mask_too_long, self._keeper = mask_too_long, keeper
        self._loop = EpisodeLoop()

    def close(self) -> None:
        """End the tools' event loop, and write the remaining episodes."""
        self._loop.close()
        if self._keeper is not None:
            self._keeper.close()

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """What TRL calls: ids of rows to tokens, masks and rewards."""
        paid = self._roll_out([self._rows[uid] for uid in prompts], trainer)
        if self._keeper is not None:
            self._keeper.keep(trainer.state.global_step + 1, paid)
        episodes = [one.episode for one in paid]
        sampled = any(each is not None for episode in episodes for each in episode.logprobs if each != 0.0)
        return {
            "prompt_ids": [episode.prompt_ids for episode in episodes],
            "completion_ids": [episode.ids for episode in episodes],
            "logprobs": [episode.logprobs for episode in episodes] if sampled else None,
            "env_mask": [self._loss_mask(episode) for episode in episodes],
            "episode_reward": [None if one.episode.failed else one.reward.total for one in paid],
            "episode_figures": [figures(paid, self._protocol) | {"kl_weight": float(trainer.beta)}] * len(paid),
        }

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

    def _loss_mask(self, episode: TokenEpisode) -> list[int]:
        if self._mask_too_long and episode.run.stop == "too_long":
            return [0] * len(episode.mask)
        return episode.mask


def episode_reward(
    *,
    episode_reward: Sequence[float | None],
    episode_figures: Sequence[Mapping[str, float]],
    log_metric: Callable[[str, float], None],
    **others: Any,
) -> list[float | None]:
    """Return the rewards that the rollout has already computed, as TRL's reward function, and log figures of the
    step.
    """
    for name, value in episode_figures[0].items():
        log_metric(f"episodes/{name}", value)
    return list(episode_reward)


def _is_well_formed(episode: TokenEpisode, protocol: str) -> bool:
    if protocol == BROWSE:
        read = read_run(episode.run)
        return read is not None and read.is_well_formed
    return read_transcript(episode.messages, protocol).is_well_formed


def figures(paid: Sequence[Paid], protocol: str) -> dict[str, float]:
    """Return figures of a step: the share of episodes whose search failed, and means over the other episodes.

    The means are of searches, tokens, each known part of the reward, and the shares that answered, that ran out of room
    and that are well-formed.
    """
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
        "well_formed": fmean(_is_well_formed(one.episode, protocol) for one in paid),
        "answered": fmean(one.episode.run.stop == "answered" for one in paid),
        "too_long": fmean(one.episode.run.stop == "too_long" for one in paid),
        "tokens": fmean(len(one.episode.ids) for one in paid),
        **{f"reward_{name}": fmean(values) for name, values in parts.items()},
    }
