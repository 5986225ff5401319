"""Turns that are generated together: nobody waits for everybody, and searches go on meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.rolled_out import rolled_out
from tests.support.turns import answer_turn, search_turn
from tests.training.tiny import Scripted, rl_rows
from trailforge.protocols import REACT
from trailforge.protocols.environment import Environment
from trailforge.schemas import ChatMessage, InvalidInput, Passage
from trailforge.training.batched_turns import EpisodeLoop
from trailforge.training.generation import Continuation
from trailforge.training.rollouts import roll_out
from trailforge.training.token_episodes import RolloutLimits, TokenEpisode

LIMITS = RolloutLimits(max_tokens=3000, max_observation_tokens=100)
TURN_S = 0.2


class Sleepy:
    """Searches take as long as their queries say."""

    def __init__(self) -> None:
        self.done: list[float] = []

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        await asyncio.sleep(float(query.split()[-1]))
        self.done.append(time.monotonic())
        return []


@dataclass
class Slow(Scripted):
    """A generator that takes its time for a batch of any size, and notes when it began with which."""

    began: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)

    def generate(self, prompts: Any, rooms: Any, stop: Any) -> list[Continuation]:
        self.began.append(time.monotonic())
        time.sleep(TURN_S)
        made = super().generate(prompts, rooms, stop)
        self.ended.append(time.monotonic())
        return made


def searching_for(waits: Sequence[float], searches: int) -> Any:
    """Each episode, told by its question, searches so often for so long, and then answers."""
    questions = [row.question for row in rl_rows()]

    def script(text: str, number: int) -> str:
        wait = next(wait for question, wait in zip(questions, waits, strict=False) if question in text)
        if text.count("</tool_response><|im_end|>") < searches:
            return search_turn(REACT, "a", f"for {wait}")
        return answer_turn(REACT, "b", "c")

    return script


def rolled(generator: Any, tokenizer: Any, environment: Environment, count: int) -> list[TokenEpisode]:
    prompts = [row.prompt for row in rl_rows()[:count]]
    return rolled_out(prompts, "react", environment, generator=generator, tokenizer=tokenizer, limits=LIMITS)


def test_a_slow_search_holds_up_its_own_episode_alone(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for it once, for a moment, and stay together; it comes back when they have answered."""
    monkeypatch.setattr("trailforge.training.batched_turns._LEAST_WAIT_S", 1.0)
    generator = Slow(tokenizer, searching_for([0.001, 0.001, 0.001, 60], 3))

    class UntilOthersAnswer(Sleepy):
        async def retrieve(self, query: str, k: int) -> list[Passage]:
            while query == "for 60" and len(generator.ended) < 4:
                await asyncio.sleep(0.01)
            return []

    episodes = rolled(generator, tokenizer, Environment(documents=UntilOthersAnswer()), 4)
    assert [len(prompts) for prompts in generator.asked] == [4, 3, 3, 3, 1, 1, 1]
    assert generator.began[1] - generator.ended[0] > 0.9  # what it is waited for
    assert all(each.run.stop == "answered" and each.run.num_searches == 3 for each in episodes)


def test_searches_go_on_while_others_are_generated(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In another thread: one begins and ends within a generation that it is late for."""
    monkeypatch.setattr("trailforge.training.batched_turns._LEAST_WAIT_S", 0.02)
    monkeypatch.setattr("trailforge.training.batched_turns._WAIT_SHARE", 0.0)
    is_late, has_searched, seen = threading.Event(), threading.Event(), list[bool]()

    class Generating(Scripted):
        def generate(self, prompts: Any, rooms: Any, stop: Any) -> list[Continuation]:
            if len(self.asked) == 1:  # that of the first alone
                is_late.set()
                seen.append(has_searched.wait(timeout=120))
            return super().generate(prompts, rooms, stop)

    class WhileGenerated(Sleepy):
        async def retrieve(self, query: str, k: int) -> list[Passage]:
            if query == "for 60":
                await asyncio.to_thread(is_late.wait)
                has_searched.set()
            return []

    generator = Generating(tokenizer, searching_for([0.001, 60], 2))
    rolled(generator, tokenizer, Environment(documents=WhileGenerated()), 2)
    assert [len(prompts) for prompts in generator.asked[:2]] == [2, 1] and seen == [True]


def test_what_goes_wrong_ends_all_episodes_at_once(tokenizer: Any) -> None:
    """In the generator, and in an episode while others are being generated or search, which they would do for hours."""

    class Broken(Scripted):
        def generate(self, prompts: Any, rooms: Any, stop: Any) -> list[Continuation]:
            if self.asked:
                raise RuntimeError("out of memory")
            return super().generate(prompts, rooms, stop)

    with pytest.raises(RuntimeError, match="out of memory"):
        rolled(Broken(tokenizer, searching_for([0.001, 9999], 1)), tokenizer, Environment(documents=Sleepy()), 2)

    class Misled(Sleepy):
        async def retrieve(self, query: str, k: int) -> list[Passage]:
            if query == "for 0.1":
                raise InvalidInput("no such corpus")
            return await super().retrieve(query, k)

    with pytest.raises(InvalidInput, match="no such corpus"):
        rolled(Slow(tokenizer, searching_for([0.1, 0.001, 9999], 3)), tokenizer, Environment(documents=Misled()), 3)
    with pytest.raises(InvalidInput, match="system turn"):
        prompt = (ChatMessage(role="user", content="q"),)
        rolled_out(
            [prompt, rl_rows()[0].prompt],
            "react",
            Environment(documents=Sleepy()),
            generator=Slow(tokenizer, searching_for([0.001], 1)),
            tokenizer=tokenizer,
            limits=LIMITS,
        )


def test_a_server_is_asked_turn_by_turn(tokenizer: Any) -> None:
    """Four episodes go on side by side: three search and search again while one still searches."""
    waits = [60, 0.001, 0.001, 0.001]
    under_way, done = set[int](), list[str]()

    class Server:
        end_ids = (tokenizer.eos_token_id,)
        script = staticmethod(searching_for(waits, 2))

        async def go_on(self, ids: list[int], room: int, stop: Sequence[str]) -> Continuation:
            under_way.add(hash(tuple(ids)))
            while len(under_way) < 4:  # until all four are asked for at once
                await asyncio.sleep(0.01)
            return Continuation(tokenizer.encode(self.script(tokenizer.decode(ids), 0), add_special_tokens=False))

    class UntilOthersSearched:
        async def retrieve(self, query: str, k: int) -> list[Passage]:
            while query == "for 60" and done.count("for 0.001") < 6:
                await asyncio.sleep(0.01)
            done.append(query)
            return []

    episodes = rolled(Server(), tokenizer, Environment(documents=UntilOthersSearched()), 4)
    assert done == ["for 0.001"] * 6 + ["for 60"] * 2
    assert all(each.run.stop == "answered" for each in episodes)


def test_tools_stay_on_one_loop_from_step_to_step(tokenizer: Any) -> None:
    """Which is not the caller's, and ends when it is told to, whatever still runs on it."""
    loops: list[asyncio.AbstractEventLoop] = []

    class Looking(Sleepy):
        async def retrieve(self, query: str, k: int) -> list[Passage]:
            loops.append(asyncio.get_running_loop())
            return []

    loop = EpisodeLoop()
    for _ in range(2):
        roll_out(
            [rl_rows()[0].prompt],
            "react",
            Environment(documents=Looking()),
            generator=Scripted(tokenizer, searching_for([0.001], 1)),
            tokenizer=tokenizer,
            limits=LIMITS,
            loop=loop,
        )
    forgotten = loop.soon(asyncio.sleep(60))
    loop.close()
    loop.close()
    assert len(set(loops)) == 1 and len(loops) == 2 and loops[0].is_closed()
    assert forgotten.cancelled()
