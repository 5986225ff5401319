"""Decide how many calls are sent, how fast, and to which server, adapting to what each server accepts; end a run that
gets no replies.

A call waits here, the most urgent first and among equals the oldest, until some server may have it: the one with the
least in flight. A server that refuses for load (429, 503) is left alone as long as it asks, gets fewer calls at a time,
and from then on calls at the pace that it was seen to take. One that fails is set aside and tried with single calls at
growing intervals. When no reply has come from any server for too long, everything ends with `Stalled`.

What is known of a server (`Lane`) is arithmetic alone, told the time in seconds on any clock.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from trailforge.inference.provider.pace import CallWindow, Pacer, Spell
from trailforge.schemas import Stalled, TrailforgeError

_FAILURES = 3
"""In a row: then a server is set aside."""
_LONGEST_UNASKED_PAUSE_S = 2.0
_LONGEST_INTERVAL_S = 10.0
"""Between two tries of a server that was set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleConfig:
    """Limits on calls at a time and on waiting."""

    most: int
    """Largest number of calls at a time over all servers."""
    backoff_s: float
    """Seconds of the first pause for a server that names none, and of the first interval between tries of one that
    fails; both double."""
    stall_s: float
    """Seconds without any reply, while one is wanted, after which the run ends."""


class Lane:
    """What the throttle knows of one server."""

    def __init__(self, url: str, config: ThrottleConfig, now: float) -> None:
        self.url, self.in_flight, self.trouble = url, 0, ""
        self._config = config
        self._window, self._pacer = CallWindow(config.most), Pacer(now)
        self.resumes_at = -math.inf
        self._refusals = self._failures = self._tries = 0

    @property
    def is_aside(self) -> bool:
        """Tell whether the server failed, and so gets one call at a time until one succeeds."""
        return self._failures >= _FAILURES

    def ready_at(self, now: float) -> float:
        """Return the time at which the server may have the next call; infinite until one of its calls has ended."""
        if self.in_flight >= (1 if self.is_aside else self._window.size):
            return math.inf
        if now < self.resumes_at:
            return self.resumes_at
        return now if self._window.is_counted else self._pacer.ready_at(now)

    def send(self, now: float) -> Permit:
        """Record that a call was sent."""
        self.in_flight += 1
        return Permit(self, now, Spell(refused_before=now) if self._window.is_counted else self._pacer.sent(now))

    def replied(self) -> None:
        """Record a reply: the server is up and not too busy."""
        if 2 * (self.in_flight + 1) >= self._window.size:  # else nothing was learned
            self._window.grow()
        self._refusals = self._failures = self._tries = 0

    def refused(self, permit: Permit, wait_s: float | None, now: float) -> None:
        """Record that the server refused a call for load or rate; `wait_s` are the seconds that it asks to wait."""
        self._pacer.refused(now, permit.spell, permit.sent_at)
        is_news = self._window.cut(sent_at=permit.sent_at, now=now, others=self.in_flight)
        if wait_s is None and is_news:
            wait_s = self._grown(self._refusals, _LONGEST_UNASKED_PAUSE_S) * random.uniform(0.5, 1.0)
            self._refusals += 1
        self.resumes_at = max(self.resumes_at, now + (wait_s or 0.0))

    def failed(self, permit: Permit, now: float) -> None:
        """Record that no reply came. The interval grows with each try, not with each of many calls that break
        together."""
        was_aside = self.is_aside
        self._failures += 1
        if self.is_aside and (not was_aside or permit.sent_at >= self.resumes_at):
            self.resumes_at = max(self.resumes_at, now + self._grown(self._tries, _LONGEST_INTERVAL_S))
            self._tries += 1

    def _grown(self, times: int, most: float) -> float:
        return min(most, self._config.backoff_s * 2.0 ** min(times, 30))


@dataclass(slots=True, eq=False)
class Permit:
    """Permission to send one call to one server."""

    lane: Lane
    sent_at: float
    spell: Spell


class Throttle:
    """Gives permission to send calls. Use it on one event loop, and return every permit by the method for how its call
    ended.
    """

    def __init__(self, urls: Sequence[str], config: ThrottleConfig, on_stall: Callable[[Stalled], None]) -> None:
        self._urls, self._config, self._on_stall = urls, config, on_stall
        self._lanes: list[Lane] = []
        self._waiting: list[tuple[int, int, asyncio.Future[Permit]]] = []
        self._arrivals = count()
        self._in_flight = self._wanted = 0
        self._ended: TrailforgeError | None = None
        self._replied_at = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._watchdog: asyncio.TimerHandle | None = None

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Declare for a `with` block that a reply is wanted: its call waits, is sent, or is between two attempts."""
        loop = asyncio.get_running_loop()
        if not self._wanted:
            self._replied_at = loop.time()
            self._watch(loop)
        self._wanted += 1
        try:
            yield
        finally:
            self._wanted -= 1
            if not self._wanted and self._watchdog is not None:
                self._watchdog.cancel()
                self._watchdog = None

    async def acquire(self, priority: int = 0) -> Permit:
        """Wait for permission to send a call. Raises the error that `end` was given."""
        loop = asyncio.get_running_loop()
        if self._ended is not None:
            raise self._ended
        if not self._lanes:
            self._lanes = [Lane(url, self._config, loop.time()) for url in self._urls]
        waiting = loop.create_future()
        heapq.heappush(self._waiting, (-priority, next(self._arrivals), waiting))
        self._serve(loop)
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self.dropped(waiting.result())
            raise

    def replied(self, permit: Permit) -> None:
        """Record that the call was answered."""
        loop = self._given_back(permit)
        self._replied_at = loop.time()
        permit.lane.replied()
        self._serve(loop)

    def refused(self, permit: Permit, wait_s: float | None, why: str) -> None:
        """Record that the server refused the call for its rate; `wait_s` are the seconds that it asks to be left
        alone.
        """
        loop = self._given_back(permit)
        permit.lane.trouble = why
        permit.lane.refused(permit, wait_s, loop.time())
        self._serve(loop)

    def failed(self, permit: Permit, why: str) -> None:
        """Record that no reply came, or none that can be read, for the reason `why`. The permit is given back, and a
        server that fails again and again is left alone for a while.
        """
        loop = self._given_back(permit)
        permit.lane.trouble = why
        permit.lane.failed(permit, loop.time())
        self._serve(loop)

    def overloaded(self, permit: Permit, wait_s: float | None, why: str) -> None:
        """Record that the server failed under load, which is both `refused` and `failed`."""
        permit.lane.failed(permit, asyncio.get_running_loop().time())
        self.refused(permit, wait_s, why)

    def dropped(self, permit: Permit) -> None:
        """Record that the call was given up here, or refused for its words, neither of which tells anything about the
        server."""
        self._serve(self._given_back(permit))

    def troubles(self) -> list[str]:
        """Return the last error of each server that is failing, or that asked to be left alone."""
        now = asyncio.get_running_loop().time()
        return [lane.trouble for lane in self._lanes if lane.is_aside or now < lane.resumes_at]

    def end(self, error: TrailforgeError) -> None:
        """Send nothing more: all waiting and later calls get this error. The first error stays."""
        self._ended = self._ended or error
        for timer in (self._alarm, self._watchdog):
            if timer is not None:
                timer.cancel()
        while self._waiting:
            waiting = heapq.heappop(self._waiting)[2]
            if not waiting.done():
                waiting.set_exception(self._ended)

    def _given_back(self, permit: Permit) -> asyncio.AbstractEventLoop:
        self._in_flight -= 1
        permit.lane.in_flight -= 1
        return asyncio.get_running_loop()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give leave to as many as may be sent now; come back when the next may."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self._waiting and self._in_flight < self._config.most:
            if self._waiting[0][2].done():
                heapq.heappop(self._waiting)
                continue
            now = loop.time()
            at, _, lane = min(((max(now, x.ready_at(now)), x.in_flight, x) for x in self._lanes), key=lambda c: c[:2])
            if at > now:
                if at < math.inf:
                    self._alarm = loop.call_at(at, self._serve, loop)
                return
            self._in_flight += 1
            heapq.heappop(self._waiting)[2].set_result(lane.send(now))

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """End everything if no reply came for too long, else look again when that may be."""
        late_at = self._replied_at + self._config.stall_s
        if loop.time() < late_at:
            self._watchdog = loop.call_at(late_at, self._watch, loop)
            return
        troubles = "; ".join(f"{lane.url}: {lane.trouble or 'silence'}" for lane in self._lanes)
        error = Stalled(
            f"no reply for {self._config.stall_s:g} s ({troubles or ', '.join(self._urls)}); see to the server or its "
            "limits, then run the same command again: it goes on from here"
        )
        self.end(error)
        self._on_stall(error)
