"""Count what calls used: calls and tokens, their prices, and the meters from which rows get their figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from trailforge.inference.request import Reply, text_size, tokens_of_sizes
from trailforge.schemas import CallCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices of tokens, per million tokens, in any one currency."""

    prompt_per_million: float = 0.0
    completion_per_million: float = 0.0
    cached_per_million: float | None = None
    """Price of those prompt tokens that a server had in its prefix cache; None: as that of other prompt tokens."""

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
    """Numbers of calls and tokens, with their cost, summed over calls."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Number of the prompt tokens that servers had in their prefix caches."""
    cut_replies: int = 0
    """Number of replies that ended at `max_tokens` or at the end of the model's window."""
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
    """Return the usage of one call."""
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
    """Counts the distinct calls of one piece of work, whether they were paid for or found in the ledger."""

    def __init__(self) -> None:
        self._replies: dict[str, Reply] = {}
        self._purposes: dict[str, str] = {}
        self._models: dict[str, str] = {}

    def add(self, reply: Reply, purpose: str = "", model: str = "") -> None:
        """Count a reply. Counting it again changes nothing but its purpose, of which the alphabetically first is
        kept.
        """
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
        """Return the sums of each model's calls by its name; the empty name has the calls whose model is unknown."""
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
    """Count every call made within a `with` block and in tasks that begin in it, even if other meters count it too."""
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
    return tokens_of_sizes(map(text_size, texts))
