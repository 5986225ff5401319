"""A process's end of limits that it shares with others: what a `ModelClient` uses in place of its own.

`LimitsLink` carries what is asked to the center and back, and knows whether the center may take this process for lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from trailforge.inference.budget import Budget, Reservation, Usage, worst_case
from trailforge.inference.request import Reply, Request
from trailforge.inference.shared_limits.center import LEASE_S, Limits, Message
from trailforge.inference.throttle import Lane, Permit, Spell, Throttle
from trailforge.schemas import BudgetExceeded, ClusterError, Stalled, TrailforgeError

_BEAT_S = 2.0
_SPARE_S = 5.0
"""Of a lease, that a process does not use: messages take their time."""


class LimitsLink:
    """A process's end of the way to a center. Use it on one event loop."""

    def __init__(self, limits: Limits, send: Callable[[list[Message]], None]) -> None:
        """`send`: carries messages to the center."""
        self.limits, self._send = limits, send
        self._numbers = count()
        self._asked: dict[int, asyncio.Future[str]] = {}
        self._outbox: list[Message] = []
        self._beating: asyncio.Task[None] | None = None
        self.heard_at = 0.0
        self.replied_at = 0.0
        """When any process last got a reply, by this loop's clock."""
        self.troubles: list[str] = []

    @property
    def holds_lease(self) -> bool:
        """Whether the center surely does not take this process for lost."""
        return asyncio.get_running_loop().time() - self.heard_at < LEASE_S - _SPARE_S

    async def ask(self, op: str, undo: Message, **more: Any) -> tuple[int, str]:
        """The number of what is asked, and what is given. `undo`: is told if nobody wants it any more."""
        self._begin()
        number, loop = next(self._numbers), asyncio.get_running_loop()
        self._asked[number] = loop.create_future()
        self.tell(op=op, id=number, **more)
        try:
            return number, await self._asked[number]
        except asyncio.CancelledError:
            self.tell(**undo, id=number)
            raise
        finally:
            self._asked.pop(number, None)

    def tell(self, **message: Any) -> None:
        """Send a message, with others of the same moment."""
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outbox.append(message)

    def receive(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Messages of the center have come. On the loop."""
        now = asyncio.get_running_loop().time()
        self.heard_at = now
        for message in messages:
            if message["op"] == "pong":
                self.replied_at = max(self.replied_at, now - message["replied_ago"])
                self.troubles = list(message["troubles"])
                continue
            asked = self._asked.get(message["id"])
            if asked is None or asked.done():
                continue  # it was withdrawn, which the center learns in turn
            if message["op"] == "over":
                asked.set_exception(BudgetExceeded(message["why"]))
            else:
                asked.set_result(message["given"])

    async def aclose(self) -> None:
        """This process asks for nothing more."""
        if self._beating is not None:
            self._beating.cancel()
            self.tell(op="leave")
            self._flush()

    def _begin(self) -> None:
        if self._beating is None:
            self.heard_at = asyncio.get_running_loop().time()
            self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            self.tell(op="beat")
            await asyncio.sleep(_BEAT_S)
            if not self.holds_lease:
                error = ClusterError(f"nothing was heard of the scheduler for {LEASE_S - _SPARE_S:g} s")
                for asked in self._asked.values():
                    if not asked.done():
                        asked.set_exception(error)

    def _flush(self) -> None:
        messages, self._outbox = self._outbox, []
        if messages:
            self._send(messages)


@dataclass(slots=True, eq=False)
class _SharedPermit(Permit):
    """Leave by the center."""

    number: int


class SharedThrottle(Throttle):
    """Asks a center for leave to send. That nothing is answered to anybody is watched here."""

    def __init__(self, link: LimitsLink, on_stall: Callable[[Stalled], None]) -> None:
        super().__init__(link.limits.urls, link.limits.throttle, on_stall)
        self._link = link
        self._asking: set[asyncio.Task[tuple[int, str]]] = set()

    async def acquire(self, priority: int = 0) -> Permit:
        """See `Throttle`."""
        if self._ended is not None:
            raise self._ended
        asking = asyncio.create_task(self._link.ask("acquire", {"op": "withdraw"}, priority=priority))
        self._asking.add(asking)
        try:
            number, url = await asking
        except asyncio.CancelledError:
            if self._ended is not None:
                raise self._ended from None
            raise
        finally:
            self._asking.discard(asking)
        now = asyncio.get_running_loop().time()
        return _SharedPermit(Lane(url, self._config, now), now, Spell(refused_before=now), number)

    def replied(self, permit: Permit) -> None:
        """See `Throttle`."""
        self._replied_at = asyncio.get_running_loop().time()
        self._tell(permit, "replied")

    def refused(self, permit: Permit, wait_s: float | None, why: str) -> None:
        """See `Throttle`."""
        self._tell(permit, "refused", wait_s=wait_s, why=why)

    def failed(self, permit: Permit, why: str) -> None:
        """See `Throttle`."""
        self._tell(permit, "failed", why=why)

    def overloaded(self, permit: Permit, wait_s: float | None, why: str) -> None:
        """See `Throttle`."""
        self._tell(permit, "overloaded", wait_s=wait_s, why=why)

    def dropped(self, permit: Permit) -> None:
        """See `Throttle`."""
        self._tell(permit, "dropped")

    def troubles(self) -> list[str]:
        """See `Throttle`."""
        return self._link.troubles

    def end(self, error: TrailforgeError) -> None:
        """See `Throttle`."""
        super().end(error)
        for asking in self._asking:
            asking.cancel()

    def _tell(self, permit: Permit, how: str, **more: Any) -> None:
        assert isinstance(permit, _SharedPermit)
        self._link.tell(op=how, id=permit.number, **more)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._replied_at = max(self._replied_at, self._link.replied_at)
        super()._watch(loop)


class _LeasedReservation(Reservation):
    """Of a process that may be taken for lost."""

    def __init__(self, worst: Usage, link: LimitsLink) -> None:
        super().__init__(worst)
        self._link = link

    def settle(self, reply: Reply) -> None:
        """See `Reservation`. Raises `ClusterError` when what was set aside may have gone to others."""
        if not self._link.holds_lease:
            raise ClusterError("this worker was taken for lost, and keeps no reply any more")
        super().settle(reply)


class SharedBudget(Budget):
    """Asks a center for leave to spend."""

    def __init__(self, link: LimitsLink) -> None:
        super().__init__(link.limits.caps, link.limits.prices, None)
        self._link = link

    @asynccontextmanager
    async def reserved(self, request: Request) -> AsyncIterator[Reservation]:
        """See `Budget`."""
        reservation = _LeasedReservation(worst_case(request), self._link)
        if not self._link.limits.caps:
            yield Reservation(reservation.usage)
            return
        undo = {"op": "settle", "usage": None}
        number, _ = await self._link.ask("reserve", undo, key=request.key, worst=_plain(reservation.usage))
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
    }
