"""A scripted model that takes its time for a turn, and episodes with it of so many turns; for rollouts on a clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.support.rolled_out import rolled_out
from trailforge.protocols import REACT
from trailforge.protocols.environment import Environment
from trailforge.protocols.turns import Search, Turn
from trailforge.schemas import ChatMessage
from trailforge.training.generation import Continuation
from trailforge.training.masks import prompt_ids
from trailforge.training.token_episodes import RolloutLimits, TokenEpisode


@dataclass(frozen=True)
class Script:
    """Episodes by number: each searches with its queries, one a turn, and then answers."""

    queries: Sequence[Sequence[str]]
    tokenizer: Any
    turn_s: float

    def prompt(self, number: int) -> tuple[ChatMessage, ...]:
        """Of an episode, as long as all others."""
        rules = REACT.opening("")[0].content
        return ChatMessage(role="system", content=rules), ChatMessage(role="user", content=f"{number:06}")

    @cached_property
    def numbers(self) -> dict[tuple[int, ...], int]:
        """Of the episodes, by the tokens of their prompts."""
        found = {tuple(prompt_ids(self.tokenizer, self.prompt(n))): n for n in range(len(self.queries))}
        assert len({len(ids) for ids in found}) == 1
        return found

    @cached_property
    def turns(self) -> list[list[Continuation]]:
        """Of each episode."""
        return [
            [self._sampled(Turn(thought="Look it up.", search=Search(query=query))) for query in queries]
            + [self._sampled(Turn(thought="It says so.", answer="yes"))]
            for queries in self.queries
        ]

    def next_turn(self, ids: list[int]) -> Continuation:
        """What comes after these tokens."""
        width = len(next(iter(self.numbers)))
        done = ids[width:].count(self.tokenizer.eos_token_id) // 2  # one ends a turn, one its result
        return self.turns[self.numbers[tuple(ids[:width])]][done]

    def _sampled(self, turn: Turn) -> Continuation:
        ids = self.tokenizer.encode(REACT.render_turn(turn), add_special_tokens=False)
        return Continuation(ids, [-0.5] * len(ids))


@dataclass(frozen=True)
class TimedServer:
    """A `TurnServer`: every turn takes as long, however many are asked for."""

    script: Script

    @property
    def end_ids(self) -> Collection[int]:
        """The tokenizer's."""
        return (self.script.tokenizer.eos_token_id,)

    async def go_on(self, ids: list[int], room: int, stop: Sequence[str]) -> Continuation:
        """After the time of a turn."""
        await asyncio.sleep(self.script.turn_s)
        return self.script.next_turn(ids)


@dataclass(frozen=True)
class TimedGenerator:
    """A `Generator`: every batch takes as long, however large it is, and blocks the caller."""

    script: Script

    @property
    def end_ids(self) -> Collection[int]:
        """The tokenizer's."""
        return (self.script.tokenizer.eos_token_id,)

    def goes_on(self, wanted: bool) -> bool:
        """Alone."""
        return wanted

    def generate(
        self, prompts: Sequence[Sequence[int]], rooms: Sequence[int], stop: Sequence[str]
    ) -> list[Continuation]:
        """After the time of a turn."""
        time.sleep(self.script.turn_s)
        return [self.script.next_turn(list(ids)) for ids in prompts]


def time_episodes(
    script: Script, generator: TimedServer | TimedGenerator, environment: Environment, numbers: Sequence[int]
) -> tuple[float, list[TokenEpisode]]:
    """Seconds that these episodes take together, and what they are."""
    began = time.monotonic()
    episodes = rolled_out(
        [script.prompt(number) for number in numbers],
        REACT.name,
        environment,
        generator=generator,
        tokenizer=script.tokenizer,
        limits=RolloutLimits(max_tokens=32_768, max_observation_tokens=2048),
    )
    return time.monotonic() - began, episodes
