"""Hard caps on calls, tokens and cost: what might go over one is not sent.

Before a call is sent its worst case is set aside: its prompt, estimated high, and `max_tokens`. Its true figures take
that place when it is answered. A call that does not fit waits for those under way, which mostly turn out cheaper than
set aside; when none is under way and it still does not fit, `BudgetExceeded` ends the run.

What was spent is read from the ledger. So it holds over restarts, and for all workers of the run. What they have under
way is known to each alone, unless they share it (`shared_limits`): together they may else go over a cap by that.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from trailforge.inference.request import Reply, Request
from trailforge.schemas import BudgetExceeded, CallCount, InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Hard caps on all that a run's folder ever pays; None: no cap. What is no limit, as NaN, is an `InvalidInput`."""

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
        if self._sum is not None:
            self._sum.add(self._usage, -1)
            self._sum.add(usage)
        self._usage = usage

    def join(self, total: _Sum) -> None:
        """Count in a sum from now on, with every change."""
        self._sum = total
        total.add(self._usage)

    def leave(self) -> None:
        """Count in no sum any more."""
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
    """The caps, with what is used or set aside of them. Use it on one event loop."""

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
        """Set a call's worst case aside within the block, and settle it with the reply where one comes.

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
    """Return the most tokens that a call can use."""
    prompt_tokens = estimated_tokens(*_prompt_texts(request))
    return Usage(calls=1, prompt_tokens=prompt_tokens, completion_tokens=request.sampling.max_tokens)


def _prompt_texts(request: Request) -> list[str]:
    if isinstance(request.prompt, str):
        return [request.prompt]
    return [*(text for turn in request.prompt for text in turn.words), *([request.tools] if request.tools else ())]


MOST_REPORTED = 2**20
"""Largest number of tokens that is accepted for a prompt, a completion, or both: a greater one is an error of the
server and must not use up a cap."""
_LONGEST_TOKEN = 128
"""Bytes; no vocabulary has longer ones."""
_TEMPLATE_TOKENS = 4096
"""What a server's chat template may add to a prompt."""


def charged_tokens(usage: Any, request: Request, reply: Reply) -> tuple[int, int, bool]:
    """Return prompt tokens, completion tokens, and whether both are as the reply's `usage` reports; each figure is
    judged by itself.

    An impossible figure is replaced by a count made here. One larger than was asked for is charged: servers bill
    thoughts that they hide, some of them in `total_tokens` alone.
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
    """How many tokens of the prompt a server had in its prefix cache, by a reply's `usage`; 0 where it does not say.

    OpenAI and vLLM say it in `prompt_tokens_details`, DeepSeek beside it.
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
    sent = sum(map(_size, _prompt_texts(request)))
    most = sent + len(request.json_schema or "") + len(request.grammar or "") + _TEMPLATE_TOKENS
    return sent <= count * _LONGEST_TOKEN and count <= most


def _could_be_completion(count: int, request: Request, reply: Reply) -> bool:
    return _reply_bytes(reply) <= count * _LONGEST_TOKEN and count <= request.sampling.max_tokens


def own_tokens(request: Request, reply: Reply) -> tuple[int, int]:
    """Estimate prompt and completion tokens on the high side: what caps have set aside for the prompt, a token per two
    bytes received.

    The completion counts no more than `max_tokens`, unless it is plainly longer than that allows.
    """
    received = _reply_bytes(reply)
    completion = min(-(-received // 2), max(request.sampling.max_tokens, received // 4))
    return worst_case(request).prompt_tokens, completion


def _reply_bytes(reply: Reply) -> int:
    called = sum(_size(call.name) + _size(call.arguments) for call in reply.tool_calls)
    return _size(reply.text) + _size(reply.reasoning) + called


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


_BYTES_PER_TOKEN = 2
"""Fewer than in any running text: no text is longer than estimated."""
_TOKENS_PER_TEXT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices of tokens in any one currency, per million tokens."""

    prompt_per_million: float = 0.0
    completion_per_million: float = 0.0
    cached_per_million: float | None = None
    """Of the prompt's tokens that a server has in its prefix cache; None: as others of the prompt."""

    def cost(self, usage: Usage) -> float:
        """Return the cost of this number of tokens."""
        cached = self.prompt_per_million if self.cached_per_million is None else self.cached_per_million
        return (
            (usage.prompt_tokens - usage.cached_tokens) * self.prompt_per_million
            + usage.cached_tokens * cached
            + usage.completion_tokens * self.completion_per_million
        ) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Calls, tokens and cost, summed over calls."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """So many of the prompts' tokens servers had in their prefix caches."""
    cut_replies: int = 0
    """Replies that ended at `max_tokens` or at the end of the model's window."""
    cost: float = 0.0
    by_purpose: tuple[CallCount, ...] = ()
    """Number of calls for each known purpose, sorted by purpose."""

    @property
    def tokens(self) -> int:
        """Return prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cut_replies=self.cut_replies + other.cut_replies,
            cost=self.cost + other.cost,
            by_purpose=_add_up((*self.by_purpose, *other.by_purpose)),
        )


def usage_of(reply: Reply) -> Usage:
    """What one call used."""
    return Usage(
        calls=1,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        cached_tokens=reply.cached_tokens,
    )


def _add_up(counts: Iterable[CallCount]) -> tuple[CallCount, ...]:
    total: Counter[str] = Counter()
    for each in counts:
        total[each.purpose] += each.calls
    return tuple(CallCount(purpose=purpose, calls=total[purpose]) for purpose in sorted(total))


class Meter:
    """Counts the distinct calls of one piece of work: the same figure whether they were paid or found in the ledger."""

    def __init__(self) -> None:
        self._replies: dict[str, Reply] = {}
        self._purposes: dict[str, str] = {}
        self._models: dict[str, str] = {}

    def add(self, reply: Reply, purpose: str = "", model: str = "") -> None:
        """Count a reply. Counting it again changes nothing but its purpose: of several, the first in the alphabet
        counts."""
        self._replies.setdefault(reply.key, reply)
        self._models.setdefault(reply.key, model)
        if purpose:
            self._purposes[reply.key] = min(purpose, self._purposes.get(reply.key, purpose))

    def __add__(self, other: Meter) -> Meter:
        """The calls of both; one that both made counts once."""
        both = Meter()
        both._replies = self._replies | other._replies
        both._models = self._models | other._models
        for key, purpose in (*self._purposes.items(), *other._purposes.items()):
            both._purposes[key] = min(purpose, both._purposes.get(key, purpose))
        return both

    @property
    def calls(self) -> int:
        """Return the number of distinct calls so far."""
        return len(self._replies)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the ledger keys of the distinct calls, in the order in which they were answered."""
        return tuple(self._replies)

    @property
    def is_from_ledger(self) -> bool:
        """Tell whether any reply came from the ledger, in which case the measured time is not what the work takes."""
        return any(reply.from_ledger for reply in self._replies.values())

    def by_model(self) -> dict[str, Usage]:
        """Return the sums of each model's calls by its name; an empty name holds the calls whose model is not known."""
        found: dict[str, Usage] = {}
        for key, reply in self._replies.items():
            found[self._models[key]] = found.get(self._models[key], Usage()) + usage_of(reply)
        return found

    def usage(self, prices: Prices) -> Usage:
        """Return the sum over all calls, and its cost at these prices."""
        replies = self._replies.values()
        usage = Usage(
            calls=self.calls,
            prompt_tokens=sum(reply.prompt_tokens for reply in replies),
            completion_tokens=sum(reply.completion_tokens for reply in replies),
            cached_tokens=sum(reply.cached_tokens for reply in replies),
            cut_replies=sum(reply.is_cut for reply in replies),
            by_purpose=_add_up(CallCount(purpose=each, calls=1) for each in self._purposes.values()),
        )
        return replace(usage, cost=prices.cost(usage))


_metered: ContextVar[Meter | None] = ContextVar("metered", default=None)


@contextmanager
def metering() -> Iterator[Meter]:
    """Count every call that is made in the block, and in the tasks that begin in it, even if other meters count it
    too."""
    meter = Meter()
    token = _metered.set(meter)
    try:
        yield meter
    finally:
        _metered.reset(token)


def count_reply(reply: Reply, meter: Meter | None, purpose: str = "", model: str = "") -> None:
    """Add a reply to a meter, if one is given, and to the meter of the surrounding `metering` block, if there is
    one."""
    for each in (meter, _metered.get()):
        if each is not None:
            each.add(reply, purpose, model)


@dataclass(slots=True)
class Counters:
    """Counts of a client's calls and tokens in this process."""

    paid_calls: int = 0
    ledger_hits: int = 0
    retries: int = 0
    in_flight: int = 0
    unknown_endings: int = 0
    """Replies whose finish reason is not known."""


def estimated_tokens(*texts: str) -> int:
    """Return the estimated tokens of replies for which the server reports none, rather too many than too few."""
    return sum(len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN + _TOKENS_PER_TEXT for text in texts)
