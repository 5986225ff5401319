"""Enforce hard caps on calls, tokens and cost: a call that might exceed one is not sent.

Before a call is sent its worst case is set aside: its prompt, estimated high, and `max_tokens`. Its true figures take
that place when it is answered. A call that does not fit waits for those under way, which mostly turn out cheaper than
set aside; when none is under way and it still does not fit, `BudgetExceeded` ends the run.

What was spent is read from the ledger. So it holds over restarts, and for all workers of the run. What they have under
way is known to each alone, unless they share it (`shared_limits`): together they may else go over a cap by that.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from trailforge.inference.request import Reply, Request, text_size
from trailforge.inference.usage import Prices, Usage, estimated_tokens
from trailforge.schemas import BudgetExceeded, InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Hard caps on everything that a run's folder ever pays; None means no cap. A cap that is no number, such as NaN,
    raises `InvalidInput`.
    """

    max_calls: int | None = None
    max_tokens: int | None = None
    """Largest number of prompt and completion tokens together; None: no cap."""
    max_cost: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_calls", "max_tokens", "max_cost"):
            cap = getattr(self, name)
            if cap is not None and not 0 <= cap < math.inf:
                raise InvalidInput("has to be a number from 0 on", field=name)

    def __bool__(self) -> bool:
        return self != Caps()


class Reservation:
    """The share of the caps that is set aside for one call: first its worst case, then its actual use."""

    def __init__(self, worst: Usage) -> None:
        self._usage = worst
        self._sum: _Sum | None = None
        """Of all that is set aside, while this is a part of it."""
        self.is_settled = False

    @property
    def usage(self) -> Usage:
        """Return what is set aside, or what was used of it."""
        return self._usage

    @usage.setter
    def usage(self, usage: Usage) -> None:
        """Replace the usage, also in the sum that it is a part of."""
        if self._sum is not None:
            self._sum.add(self._usage, -1)
            self._sum.add(usage)
        self._usage = usage

    def join(self, total: _Sum) -> None:
        """Count in a sum from now on, and update it with every change."""
        self._sum = total
        total.add(self._usage)

    def leave(self) -> None:
        """Stop counting in a sum, to which the reservation was joined."""
        if self._sum is not None:
            self._sum.add(self._usage, -1)
        self._sum = None

    def settle(self, reply: Reply) -> None:
        """Replace the worst case by the actual use of an answered call. Use above the worst case is counted in full; a
        negative figure frees no room for other calls."""
        prompt, completion = max(0, reply.prompt_tokens), max(0, reply.completion_tokens)
        cached = min(prompt, reply.cached_tokens)
        self.usage = Usage(calls=1, prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached)
        self.is_settled = True


@dataclass(slots=True)
class _Sum:
    """Of what is set aside for many calls: each of them only adds to it, and no call waits for a sum over all."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    def add(self, usage: Usage, times: int = 1) -> None:
        self.calls += times * usage.calls
        self.prompt_tokens += times * usage.prompt_tokens
        self.completion_tokens += times * usage.completion_tokens
        self.cached_tokens += times * usage.cached_tokens

    def usage(self) -> Usage:
        return Usage(
            calls=self.calls,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cached_tokens=self.cached_tokens,
        )


class Budget:
    """The caps of a run, with the usage so far. Use it on one event loop."""

    def __init__(
        self, caps: Caps, prices: Prices, kept: Callable[[], Awaitable[Usage]] | None, *, spent: Usage | None = None
    ) -> None:
        """`kept`: what the ledger says was spent; None without a ledger, then it is counted here, from `spent` on."""
        self._caps, self._prices, self._kept = caps, prices, kept
        self._spent = spent or Usage()
        self._under_way = _Sum()
        self._turn = asyncio.Lock()
        self._given_back = asyncio.Event()

    @asynccontextmanager
    async def reserved(self, request: Request) -> AsyncIterator[Reservation]:
        """Set a call's worst case aside for a `with` block, and replace it by the actual use when the reply comes.
        Raises `BudgetExceeded` when the call could exceed a cap and no call under way might free enough room.
        """
        async with self.held(Reservation(worst_case(request))) as reservation:
            yield reservation

    @asynccontextmanager
    async def held(self, reservation: Reservation) -> AsyncIterator[Reservation]:
        """Do what `reserved` does, for a reservation that exists already."""
        if self._caps:
            await self._set_aside(reservation)
        try:
            yield reservation
        finally:
            reservation.leave()
            if reservation.is_settled and self._kept is None:
                self._spent += reservation.usage
            self._given_back.set()

    async def _set_aside(self, reservation: Reservation) -> None:
        async with self._turn:
            while True:
                self._given_back.clear()  # before the ledger is asked, which may take a while
                was_alone = not self._under_way.calls
                if (over := await self._over(reservation.usage)) is None:
                    break
                if was_alone:
                    raise BudgetExceeded(over)
                await self._given_back.wait()
            reservation.join(self._under_way)

    async def _over(self, worst: Usage) -> str | None:
        """Which cap this call could break; None when it fits."""
        # First what is under way: a call that is kept meanwhile counts twice for a moment, and never not at all.
        under_way = self._under_way.usage()
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
    """Return the largest usage that a call can have."""
    tokens = request.sums.tokens + (estimated_tokens(request.tools) if request.tools else 0)
    return Usage(calls=1, prompt_tokens=tokens, completion_tokens=request.sampling.max_tokens)


MOST_REPORTED = 2**20
"""Largest number of tokens that is accepted for a prompt, a completion, or both: a greater one is an error of the
server and must not use up a cap."""
_LONGEST_TOKEN = 128
"""Bytes; no vocabulary has longer ones."""
_TEMPLATE_TOKENS = 4096
"""What a server's chat template may add to a prompt."""


def charged_tokens(usage: Any, request: Request, reply: Reply) -> tuple[int, int, bool]:
    """Return prompt tokens, completion tokens, and whether both are what the reply's `usage` reports.

    Each figure is judged by itself: an impossible one is replaced by an estimate. One larger than was asked for is
    charged, since servers bill thoughts that they hide, some of them in `total_tokens` alone.
    """
    reported = usage if isinstance(usage, dict) else {}
    prompt, completion = _count(reported, "prompt_tokens"), _count(reported, "completion_tokens")
    is_prompt, is_completion = _could_be_prompt(prompt, request), _could_be_completion(completion, request, reply)
    charged_prompt, charged_completion = prompt, completion
    if not (is_prompt and is_completion):
        own_prompt, own_completion = own_tokens(request, reply)
        charged_prompt = prompt if is_prompt else max(prompt, own_prompt)
        charged_completion = completion if is_completion else max(completion, own_completion)
    charged_completion = max(charged_completion, _count(reported, "total_tokens") - charged_prompt)
    return charged_prompt, charged_completion, (charged_prompt, charged_completion) == (prompt, completion)


def cached_tokens(usage: Any) -> int:
    """Return how many prompt tokens a server had in its prefix cache, by a reply's `usage`; 0 where it does not say.
    OpenAI and vLLM report it in `prompt_tokens_details`, DeepSeek beside it.
    """
    reported = usage if isinstance(usage, dict) else {}
    details = reported.get("prompt_tokens_details")
    said = _count(details, "cached_tokens") if isinstance(details, dict) else -1
    return max(0, said, _count(reported, "prompt_cache_hit_tokens"))


def _count(reported: dict[str, Any], name: str) -> int:
    """-1 for what is no count of tokens."""
    count = reported.get(name)
    return count if type(count) is int and 0 <= count <= MOST_REPORTED else -1  # a bool is none


def _could_be_prompt(count: int, request: Request) -> bool:
    sent = request.sums.size + text_size(request.tools)
    most = sent + len(request.json_schema or "") + len(request.grammar or "") + _TEMPLATE_TOKENS
    return sent <= count * _LONGEST_TOKEN and count <= most


def _could_be_completion(count: int, request: Request, reply: Reply) -> bool:
    return _reply_bytes(reply) <= count * _LONGEST_TOKEN and count <= request.sampling.max_tokens


def own_tokens(request: Request, reply: Reply) -> tuple[int, int]:
    """Estimate prompt and completion tokens of a call on the high side, from the bytes sent and received.

    A prompt costs what the caps set aside for it, a completion one token per two bytes. The completion counts at most
    `max_tokens`, unless it is plainly longer than that allows.
    """
    received = _reply_bytes(reply)
    completion = min(-(-received // 2), max(request.sampling.max_tokens, received // 4))
    return worst_case(request).prompt_tokens, completion


def _reply_bytes(reply: Reply) -> int:
    called = sum(text_size(call.name) + text_size(call.arguments) for call in reply.tool_calls)
    return text_size(reply.text) + text_size(reply.reasoning) + called
