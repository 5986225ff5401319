"""What calls cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from trailforge.inference.request import Reply

_BYTES_PER_TOKEN = 2
"""Fewer than in any running text: no text is longer than estimated."""
_TOKENS_PER_TEXT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """In any one currency, per million tokens."""

    prompt_per_million: float = 0.0
    completion_per_million: float = 0.0

    def cost(self, usage: Usage) -> float:
        """Of so many tokens."""
        return (
            usage.prompt_tokens * self.prompt_per_million + usage.completion_tokens * self.completion_per_million
        ) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """A sum over calls."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cut_replies: int = 0
    """Replies that ended at `max_tokens` or at the end of the model's window."""
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Prompt and completion."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cut_replies=self.cut_replies + other.cut_replies,
            cost=self.cost + other.cost,
        )


class Meter:
    """Counts the distinct calls of one piece of work: the same figure whether they were paid or found in the ledger."""

    def __init__(self) -> None:
        self._replies: dict[str, Reply] = {}

    def add(self, reply: Reply) -> None:
        """Count a reply; one that was counted before changes nothing."""
        self._replies[reply.key] = reply

    def __add__(self, other: Meter) -> Meter:
        """The calls of both; one that both made counts once."""
        both = Meter()
        both._replies = self._replies | other._replies
        return both

    @property
    def calls(self) -> int:
        """Distinct calls so far."""
        return len(self._replies)

    @property
    def keys(self) -> tuple[str, ...]:
        """Ledger keys of the distinct calls, in the order in which they were answered."""
        return tuple(self._replies)

    def usage(self, prices: Prices) -> Usage:
        """The sum, and its cost at these prices."""
        replies = self._replies.values()
        usage = Usage(
            calls=self.calls,
            prompt_tokens=sum(reply.prompt_tokens for reply in replies),
            completion_tokens=sum(reply.completion_tokens for reply in replies),
            cut_replies=sum(reply.is_cut for reply in replies),
        )
        return replace(usage, cost=prices.cost(usage))


_metered: ContextVar[Meter | None] = ContextVar("metered", default=None)


@contextmanager
def metering() -> Iterator[Meter]:
    """Count every call that is asked for in the block, and in the tasks that begin in it, whoever else counts it."""
    meter = Meter()
    token = _metered.set(meter)
    try:
        yield meter
    finally:
        _metered.reset(token)


def count_reply(reply: Reply, meter: Meter | None) -> None:
    """Add a reply to a meter, if there is one, and to that of the block (`metering`)."""
    for each in (meter, _metered.get()):
        if each is not None:
            each.add(reply)


@dataclass(slots=True)
class Counters:
    """What a client has done in this process."""

    paid_calls: int = 0
    ledger_hits: int = 0
    retries: int = 0
    in_flight: int = 0


def estimated_tokens(*texts: str) -> int:
    """More than a tokenizer makes of running texts: what counts where a server does not say."""
    return sum(len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN + _TOKENS_PER_TEXT for text in texts)
