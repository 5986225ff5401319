"""The center of limits that several processes share: it grants each of them what it may send and spend.

It decides by the very `Throttle` and `Budget` that a process uses alone. A process reaches it by messages, which a
transport carries in both directions, in order. A process that sends nothing for `LEASE_S` is lost. Its permits are free
at once; what it had set aside is free, or spent, when somebody has looked in the ledger whether the call was kept. So
that nothing is kept after that, a process that may have been lost keeps nothing more of what it had asked before
(`link`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trailforge.inference.budget import Budget, Caps, Reservation
from trailforge.inference.throttle import Permit, Throttle, ThrottleConfig
from trailforge.inference.usage import Prices, Usage
from trailforge.schemas import BudgetExceeded, Stalled

LEASE_S = 30.0
Message = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Settings of the limits, with the usage before they started."""

    urls: tuple[str, ...]
    throttle: ThrottleConfig
    caps: Caps
    prices: Prices
    spent: Usage
    """Usage before the center began."""


@dataclass(slots=True)
class _Held:
    """What is set aside for a call."""

    reservation: Reservation
    key: str
    """Of the call in the ledger."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class _Member:
    """A process."""

    heard_at: float
    lease: int
    """How often it was lost before."""
    waiting: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    """For leave to send, or to spend; what is held waits for its end."""
    permits: dict[int, Permit] = field(default_factory=dict)
    held: dict[int, _Held] = field(default_factory=dict)


class Center:
    """Grants calls to the processes that share limits. Use it on one event loop."""

    def __init__(self, limits: Limits, send: Callable[[str, list[Message]], None]) -> None:
        """`send`: carries messages to a process, by its name."""
        self._send = send
        self._throttle = Throttle(limits.urls, limits.throttle, _ignore)
        self._budget = Budget(limits.caps, limits.prices, None, spent=limits.spent)
        self._members: dict[str, _Member] = {}
        self._lost: Counter[str] = Counter()
        """How often, by name."""
        self._orphans: list[tuple[float, _Held]] = []
        """What lost processes had set aside, and from when on nobody can keep it."""
        self._replied_at = 0.0

    def handle(self, name: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Handle the messages that the process with this name has sent to the center."""
        now = asyncio.get_running_loop().time()
        self._end_leases(now)
        member = self._members.setdefault(name, _Member(now, self._lost[name]))
        member.heard_at = now
        for message in messages:
            self._handle(name, member, message, now)

    def lose(self, name: str) -> None:
        """Free what a process holds that has ended."""
        member = self._members.pop(name, None)
        if member is None:
            return
        self._lost[name] += 1
        for number, task in member.waiting.items():
            if number not in member.held:
                task.cancel()
        for permit in member.permits.values():
            self._throttle.dropped(permit)
        self._orphans += [(member.heard_at + LEASE_S, held) for held in member.held.values()]

    def close(self) -> None:
        """End the limits with the run; processes that still wait get no answer."""
        for member in self._members.values():
            for task in member.waiting.values():
                task.cancel()
        for _, held in self._orphans:
            held.ended.set()

    def orphans(self) -> list[str]:
        """Return the keys of calls that lost processes had budgeted for and can no longer store."""
        now = asyncio.get_running_loop().time()
        self._end_leases(now)
        return sorted({held.key for due, held in self._orphans if now >= due})

    def resolve(self, kept: Mapping[str, Usage | None]) -> None:
        """Settle the calls of lost processes. `kept` has by key what the call used; None means that it was not stored,
        so its share of the budget is free again.
        """
        for due, held in self._orphans[:]:
            if held.key in kept:
                self._orphans.remove((due, held))
                _settle(held, kept[held.key])

    def _handle(self, name: str, member: _Member, message: Mapping[str, Any], now: float) -> None:
        number = message.get("id", -1)
        match message["op"]:
            case "acquire" | "reserve" if number in member.waiting or number in member.permits:
                pass  # a process that was lost asks once more, also for what has reached us since
            case "acquire":
                task = asyncio.create_task(self._grant(name, member, number, message["priority"]))
                self._await(member, number, task)
            case "reserve":
                held = _Held(Reservation(Usage(**message["worst"])), message["key"])
                self._await(member, number, asyncio.create_task(self._hold(name, member, number, held)))
            case "settle" if number in member.held:
                usage = message["usage"]
                _settle(member.held.pop(number), Usage(**usage) if usage is not None else None)
            case "beat":
                ago, troubles = now - self._replied_at, self._throttle.troubles()
                pong = {"op": "pong", "at": message["at"], "lease": member.lease}
                self._send(name, [{**pong, "replied_ago": ago, "troubles": troubles}])
            case "leave":
                self.lose(name)
            case ended:
                self._end(member, number, ended, message, now)

    def _end(self, member: _Member, number: int, how: str, message: Mapping[str, Any], now: float) -> None:
        """A call that was sent has ended, or nobody wants what was asked for any more."""
        permit = member.permits.pop(number, None)
        if permit is None:
            if number in member.waiting:
                member.waiting[number].cancel()
            return
        match how:
            case "replied":
                self._replied_at = now
                self._throttle.replied(permit)
            case "refused":
                self._throttle.refused(permit, message["wait_s"], message["why"])
            case "overloaded":
                self._throttle.overloaded(permit, message["wait_s"], message["why"])
            case "failed":
                self._throttle.failed(permit, message["why"])
            case _:
                self._throttle.dropped(permit)

    def _await(self, member: _Member, number: int, task: asyncio.Task[None]) -> None:
        member.waiting[number] = task
        task.add_done_callback(lambda _: member.waiting.pop(number, None))

    async def _grant(self, name: str, member: _Member, number: int, priority: int) -> None:
        permit = await self._throttle.acquire(priority)
        member.permits[number] = permit
        self._send(name, [{"op": "granted", "id": number, "lease": member.lease, "url": permit.lane.url}])

    async def _hold(self, name: str, member: _Member, number: int, held: _Held) -> None:
        try:
            async with self._budget.held(held.reservation):
                member.held[number] = held
                self._send(name, [{"op": "granted", "id": number, "lease": member.lease}])
                await held.ended.wait()
        except BudgetExceeded as error:
            self._send(name, [{"op": "over", "id": number, "why": str(error)}])

    def _end_leases(self, now: float) -> None:
        for name in [name for name, member in self._members.items() if now - member.heard_at > LEASE_S]:
            self.lose(name)


def _settle(held: _Held, usage: Usage | None) -> None:
    if usage is not None:
        held.reservation.usage, held.reservation.is_settled = usage, True
    held.ended.set()


def _ignore(_: Stalled) -> None:
    """Each process looks by itself whether anything is answered."""
