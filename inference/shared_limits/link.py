"""A process's end of limits that it shares with others, which a `ModelClient` uses in place of limits of its own.

`LimitsLink` carries what is asked to the center and back, and knows whether the center may take this process for lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from trailforge.inference.budget import Budget, Reservation, worst_case
from trailforge.inference.provider.pace import Spell
from trailforge.inference.request import Reply, Request
from trailforge.inference.shared_limits.center import LEASE_S, Limits, Message
from trailforge.inference.throttle import Lane, Permit, Throttle
from trailforge.inference.usage import Usage
from trailforge.schemas import BudgetExceeded, ClusterError, Stalled, TrailforgeError

_BEAT_S = 2.0
_SPARE_S = 5.0
"""Of a lease, that a process does not use: messages take their time."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the center was asked for and has not granted yet."""

    at: float
    message: Message
    undo: Message
    granted: asyncio.Future[Mapping[str, Any]]


class LimitsLink:
    """A process's end of the connection to a center. Use it on one event loop.

    The center regards a process as lost when it hears nothing for the length of a lease, which begins when a message
    arrives there. So a process counts the time from when it sent a message that was answered.
    """

    def __init__(self, limits: Limits, send: Callable[[list[Message]], None]) -> None:
        """`send`: carries messages to the center."""
        self.limits, self._send = limits, send
        self._numbers = count()
        self._asked: dict[int, _Asked] = {}
        self._outbox: list[Message] = []
        self._beating: asyncio.Task[None] | None = None
        self._unanswered = 0
        """Beats since the last that was answered."""
        self._lease, self._leased_at = 0, 0.0
        """How often the center has lost this process, and when the last that it answered was sent."""
        self.replied_at = 0.0
        """When any process last got a reply, by this loop's clock."""
        self.troubles: list[str] = []

    def holds(self, lease: int) -> bool:
        """Tell whether the center certainly has not regarded this process as lost since it granted something under the
        lease of this number.
        """
        return lease == self._lease and asyncio.get_running_loop().time() - self._leased_at < LEASE_S - _SPARE_S

    async def ask(self, op: str, undo: Message, **more: Any) -> tuple[int, Mapping[str, Any]]:
        """Send the request `op` with the fields `more` to the center, and wait for its grant; returns the request's
        number and what is granted. `undo` is the message that is sent to take it back when the caller no longer waits.
        """
        self._begin()
        number, loop = next(self._numbers), asyncio.get_running_loop()
        asked = _Asked(loop.time(), {"op": op, "id": number, **more}, {**undo, "id": number}, loop.create_future())
        self._asked[number] = asked
        self.tell(**asked.message)
        try:
            return number, await asked.granted
        except BaseException:
            self.tell(**asked.undo)
            raise
        finally:
            self._asked.pop(number, None)

    def tell(self, **message: Any) -> None:
        """Send a message that gets no answer; those of the same moment go together."""
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outbox.append(message)

    def receive(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Handle messages of the center. Call it on the loop."""
        for message in messages:
            if message["op"] == "pong":
                self._unanswered = 0
                self.replied_at = max(self.replied_at, asyncio.get_running_loop().time() - message["replied_ago"])
                self.troubles = list(message["troubles"])
                self._renew(message["lease"], message["at"])
                continue
            asked = self._asked.get(message["id"])
            if asked is None or asked.granted.done():
                continue  # it was withdrawn, which the center learns in turn
            if message["op"] == "over":
                asked.granted.set_exception(BudgetExceeded(message["why"]))
                continue
            self._renew(message["lease"], asked.at)
            if not self.holds(message["lease"]):  # it lay here for too long: we may be lost
                self.tell(**asked.undo)
                self.tell(**asked.message)
            else:
                asked.granted.set_result(message)

    def give_up(self, error: TrailforgeError) -> None:
        """Fail every pending request with this error."""
        for asked in self._asked.values():
            if not asked.granted.done():
                asked.granted.set_exception(error)

    async def aclose(self) -> None:
        """Stop asking: this process sends no further requests."""
        if self._beating is not None:
            self._beating.cancel()
            self.tell(op="leave")
            self._flush()

    def _begin(self) -> None:
        if self._beating is None:
            self._leased_at = asyncio.get_running_loop().time()
            self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        """Beats are counted, not seconds: a process that stood still has sent none, and so misses no answer."""
        while True:
            self.tell(op="beat", at=asyncio.get_running_loop().time())
            self._unanswered += 1
            await asyncio.sleep(_BEAT_S)
            if self._unanswered * _BEAT_S >= LEASE_S - _SPARE_S:
                self.give_up(
                    ClusterError(
                        f"nothing was heard of the scheduler for {LEASE_S - _SPARE_S:g} s; look whether it runs"
                    )
                )

    def _renew(self, lease: int, at: float) -> None:
        """What was sent then was answered. A center that had lost this process has forgotten what it was asked for."""
        self._leased_at = max(self._leased_at, at)
        if lease != self._lease:
            self._lease = lease
            for asked in self._asked.values():
                self.tell(**asked.message)

    def _flush(self) -> None:
        messages, self._outbox = self._outbox, []
        if messages:
            self._send(messages)


@dataclass(slots=True, eq=False)
class _SharedPermit(Permit):
    """Leave by the center."""

    number: int


class SharedThrottle(Throttle):
    """A throttle that asks a center for permission to send; whether this process still gets replies, it watches
    itself.
    """

    def __init__(self, link: LimitsLink, on_stall: Callable[[Stalled], None]) -> None:
        super().__init__(link.limits.urls, link.limits.throttle, on_stall)
        self._link = link

    async def acquire(self, priority: int = 0) -> Permit:
        """Wait for permission to send a call; see `Throttle.acquire`."""
        if self._ended is not None:
            raise self._ended
        number, granted = await self._link.ask("acquire", {"op": "dropped"}, priority=priority)
        now = asyncio.get_running_loop().time()
        return _SharedPermit(Lane(granted["url"], self._config, now), now, Spell(refused_before=now), number)

    def replied(self, permit: Permit) -> None:
        """Record that the call was answered; see `Throttle.replied`."""
        self._replied_at = asyncio.get_running_loop().time()
        self._tell(permit, "replied")

    def refused(self, permit: Permit, wait_s: float | None, why: str) -> None:
        """Record that the server refused the call for its rate; see `Throttle.refused`."""
        self._tell(permit, "refused", wait_s=wait_s, why=why)

    def failed(self, permit: Permit, why: str) -> None:
        """Record that no readable reply came; see `Throttle.failed`."""
        self._tell(permit, "failed", why=why)

    def overloaded(self, permit: Permit, wait_s: float | None, why: str) -> None:
        """Record that the server failed for load; see `Throttle.overloaded`."""
        self._tell(permit, "overloaded", wait_s=wait_s, why=why)

    def dropped(self, permit: Permit) -> None:
        """Record that the call was given up; see `Throttle.dropped`."""
        self._tell(permit, "dropped")

    def troubles(self) -> list[str]:
        """Return the last error of each server in trouble; see `Throttle.troubles`."""
        return self._link.troubles

    def end(self, error: TrailforgeError) -> None:
        """Send nothing more; see `Throttle.end`."""
        super().end(error)
        self._link.give_up(self._ended or error)

    def _tell(self, permit: Permit, how: str, **more: Any) -> None:
        assert isinstance(permit, _SharedPermit)
        self._link.tell(op=how, id=permit.number, **more)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._replied_at = max(self._replied_at, self._link.replied_at)
        super()._watch(loop)


class _LeasedReservation(Reservation):
    """Of a process that may be taken for lost."""

    def __init__(self, worst: Usage, link: LimitsLink, lease: int) -> None:
        super().__init__(worst)
        self._link, self._lease = link, lease

    def settle(self, reply: Reply) -> None:
        """See `Reservation`. Raises `ClusterError` when what was set aside may have gone to others."""
        if not self._link.holds(self._lease):
            raise ClusterError(
                "this worker was taken for lost by the run, so it keeps no reply to what it had asked by then"
            )
        super().settle(reply)


class SharedBudget(Budget):
    """A budget that asks a center for permission to spend."""

    def __init__(self, link: LimitsLink) -> None:
        super().__init__(link.limits.caps, link.limits.prices, None)
        self._link = link

    @asynccontextmanager
    async def reserved(self, request: Request) -> AsyncIterator[Reservation]:
        """Set a call's worst case aside for a `with` block; see `Budget.reserved`."""
        worst = worst_case(request)
        if not self._link.limits.caps:
            yield Reservation(worst)
            return
        undo = {"op": "settle", "usage": None}
        number, granted = await self._link.ask("reserve", undo, key=request.key, worst=_plain(worst))
        reservation = _LeasedReservation(worst, self._link, granted["lease"])
        try:
            yield reservation
        finally:
            used = _plain(reservation.usage) if reservation.is_settled else None
            self._link.tell(op="settle", id=number, usage=used)


def _plain(usage: Usage) -> dict[str, int]:
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
    }
