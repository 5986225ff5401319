"""Generate turns of many episodes together in the caller's thread, while the episodes themselves run in another."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from trailforge.inference import LoopThread
from trailforge.training.generation import Continuation, Generator

T = TypeVar("T")

_LEAST_WAIT_S, _WAIT_SHARE = 1.0, 0.5
"""How long a batch waits for those that are on their way: at least, and as a share of what the last one took."""


class EpisodeLoop(LoopThread):
    """The event loop of episodes and their tools, in a thread of its own: episodes search while the caller's thread
    generates. Tools stay open from step to step of a training.
    """

    def __init__(self) -> None:
        super().__init__("episodes")

    def close(self) -> None:
        """End the loop. Searches that hang in threads are left behind."""
        self.end(_cancel_others)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class AskedTurn:
    """A turn that an episode waits for."""

    number: int
    """The number of the episode."""
    ids: list[int]
    """The tokens of the episode so far."""
    room: int
    """Most tokens of the turn."""
    turn: Future[Continuation]


class WaitingTurns:
    """The turns that episodes ask for, collected for a generator that makes several at once.

    A batch does not wait for all episodes, but only for those that were given a turn last, and for half the time that
    this took, so that small delays do not break up batches. An episode that was late once is not waited for until it
    comes.
    """

    def __init__(self, episodes: int) -> None:
        self._asked: list[AskedTurn] = []
        self._changed = threading.Condition()
        self._episodes = episodes
        """Those that go on."""
        self._awaited = set(range(episodes))
        self._wait_s = _LEAST_WAIT_S

    async def ask(self, number: int, ids: list[int], room: int) -> Continuation:
        """Return the continuation of an episode's tokens, by at most `room` tokens; `number` is the episode's."""
        asked = AskedTurn(number, ids, room, Future())
        with self._changed:
            self._asked.append(asked)
            self._awaited.discard(number)
            self._changed.notify()
        return await asyncio.wrap_future(asked.turn)

    def leave(self, number: int) -> None:
        """Record that an episode has ended."""
        with self._changed:
            self._episodes -= 1
            self._awaited.discard(number)
            self._changed.notify()

    def leave_all(self) -> None:
        """Record that no episode continues."""
        with self._changed:
            self._episodes = 0
            self._awaited.clear()
            self._asked.clear()
            self._changed.notify()

    def take(self) -> list[AskedTurn]:
        """Return the turns that wait, in the order of their episodes, after waiting for the first; an empty list when
        no episode continues.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._asked or not self._episodes)
            self._changed.wait_for(lambda: not self._awaited, timeout=self._wait_s)
            taken = sorted(self._asked, key=lambda asked: asked.number)
            self._asked.clear()
            return taken

    def give(self, taken: Sequence[AskedTurn], made: Sequence[Continuation], seconds: float) -> None:
        """Hand over what was generated for these turns, and how long it took."""
        with self._changed:
            self._awaited = {asked.number for asked in taken}
            self._wait_s = max(_LEAST_WAIT_S, _WAIT_SHARE * seconds)
        for asked, one in zip(taken, made, strict=True):
            if asked.turn.set_running_or_notify_cancel():
                asked.turn.set_result(one)


def generate_turns(turns: WaitingTurns, generator: Generator, stop: Sequence[str]) -> None:
    """Generate the turns that are asked for until no episode in any process continues."""
    while True:
        taken = turns.take()
        if not generator.goes_on(bool(taken)):
            return
        began = time.monotonic()
        made = generator.generate([asked.ids for asked in taken], [asked.room for asked in taken], stop)
        turns.give(taken, made, time.monotonic() - began)
