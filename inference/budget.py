"""Hard caps on calls, tokens and cost: what might go over one is not sent.

Before a call is sent its worst case is set aside: its prompt, estimated high, and `max_tokens`. Its true figures take
that place when it is answered. A call that does not fit waits for those under way, which mostly turn out cheaper than
set aside; when none is under way and it still does not fit, `BudgetExceeded` ends the run.

What was spent is read from the ledger. So it holds over restarts, and for all workers of the run; several of them may
together go over a cap by what they have under way, one alone does not.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from trailforge.inference.request import Reply, Request
from trailforge.inference.usage import Prices, Usage, estimated_tokens
from trailforge.schemas import BudgetExceeded, InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Hard caps on all that a run's folder ever pays; None: no cap. What is no limit, as NaN, is an `InvalidInput`."""

    max_calls: int | None = None
    max_tokens: int | None = None
    """Prompt and completion together."""
    max_cost: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_calls", "max_tokens", "max_cost"):
            cap = getattr(self, name)
            if cap is not None and not 0 <= cap < math.inf:
                raise InvalidInput("has to be a number from 0 on", field=name)

    def __bool__(self) -> bool:
        return self != Caps()


class Reservation:
    """What is set aside for one call: the worst case, then what it was."""

    def __init__(self, worst: Usage) -> None:
        self.usage = worst
        self.is_settled = False

    def settle(self, reply: Reply) -> None:
        """It was answered. More than the worst case counts as it is; less than nothing gives no other call room."""
        tokens = max(0, reply.prompt_tokens), max(0, reply.completion_tokens)
        self.usage = Usage(calls=1, prompt_tokens=tokens[0], completion_tokens=tokens[1])
        self.is_settled = True


class Budget:
    """The caps, and what is set aside of them. Use it on one event loop."""

    def __init__(self, caps: Caps, prices: Prices, kept: Callable[[], Awaitable[Usage]] | None) -> None:
        """`kept`: what the ledger says was spent; None without a ledger, then it is counted here."""
        self._caps, self._prices, self._kept = caps, prices, kept
        self._spent = Usage()
        self._open: set[Reservation] = set()
        self._turn = asyncio.Lock()
        self._given_back = asyncio.Event()

    @asynccontextmanager
    async def reserved(self, request: Request) -> AsyncIterator[Reservation]:
        """Set a call aside for the block, which settles it if it is answered, and keeps the reply.

        Raises `BudgetExceeded` when it could go over a cap and nothing that is under way might make room.
        """
        reservation = Reservation(worst_case(request))
        if self._caps:
            await self._set_aside(reservation)
        try:
            yield reservation
        finally:
            self._open.discard(reservation)
            if reservation.is_settled and self._kept is None:
                self._spent += reservation.usage
            self._given_back.set()

    async def _set_aside(self, reservation: Reservation) -> None:
        async with self._turn:
            while True:
                self._given_back.clear()  # before the ledger is asked, which may take a while
                was_alone = not self._open
                if (over := await self._over(reservation.usage)) is None:
                    break
                if was_alone:
                    raise BudgetExceeded(over)
                await self._given_back.wait()
            self._open.add(reservation)

    async def _over(self, worst: Usage) -> str | None:
        """Which cap this call could break; None when it fits."""
        # First what is under way: a call that is kept meanwhile counts twice for a moment, and never not at all.
        under_way = sum((reservation.usage for reservation in self._open), start=Usage())
        total = under_way + (await self._kept() if self._kept is not None else self._spent)
        for name, cap, used, more in (
            ("calls", self._caps.max_calls, total.calls, worst.calls),
            ("tokens", self._caps.max_tokens, total.tokens, worst.tokens),
            ("cost", self._caps.max_cost, self._prices.cost(total), self._prices.cost(worst)),
        ):
            if cap is not None and used + more > cap:
                return (
                    f"the cap on {name} is reached: {used:,.10g} of {cap:,.10g} spent, and the next call may take "
                    f"{more:,.10g}; raise --max-{name}, then run the same command again (no call is paid twice)"
                )
        return None


def worst_case(request: Request) -> Usage:
    """The most that a call can use."""
    turns = [request.prompt] if isinstance(request.prompt, str) else [turn.content for turn in request.prompt]
    return Usage(calls=1, prompt_tokens=estimated_tokens(*turns), completion_tokens=request.sampling.max_tokens)
