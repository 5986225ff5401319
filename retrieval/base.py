"""The interface of every retriever, with timeouts, retries and a cache of searches."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from trailforge.schemas import BudgetExceeded, InvalidInput, Passage, RetrievalError, SearchFailed

T = TypeVar("T")

_MOST_FAILURES = 64
"""Searches that fail one after the other before nothing goes on: then it is not the searches."""


K = TypeVar("K", bound=Hashable)


class Remembered(Generic[K, T]):
    """A cache of results, limited in bytes: the least recently used is removed first. Use it on one event loop."""

    def __init__(self, most: int) -> None:
        """`most`: bytes; 0 remembers nothing."""
        self._most, self.bytes = most, 0
        self._found: OrderedDict[K, tuple[T, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, asked: K) -> T | None:
        """Return the cached result; None where there is none."""
        if (kept := self._found.get(asked)) is None:
            return None
        self._found.move_to_end(asked)
        return kept[0]

    def keep(self, asked: K, found: T, size: int) -> None:
        """Cache a result. `size` is that of query and result together, in bytes; one that is larger than the whole
        cache is not stored.
        """
        if asked in self._found:
            self.bytes -= self._found.pop(asked)[1]
        if size > self._most:
            return
        self._found[asked] = found, size
        self.bytes += size
        while self.bytes > self._most:
            self.bytes -= self._found.popitem(last=False)[1][1]


@runtime_checkable
class Retriever(Protocol):
    """Finds passages. The same query over the same documents always gives the same passages.

    Scores are rounded to 6 decimals; passages of equal score come in the order of the documents.
    """

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Return the best `k` passages, best first; fewer when there are not that many."""
        ...


class LazyRetriever:
    """Opens another retriever when it is first needed, so that work which does not need it yet does not wait for its
    embedding."""

    def __init__(self, opening: Callable[[], Awaitable[Retriever]]) -> None:
        self._opening = opening
        self._opened: Retriever | None = None
        self._lock = asyncio.Lock()

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Return the best `k` passages, as `Retriever.retrieve` does; raises what `open` raises."""
        return await (await self.open()).retrieve(query, k)

    async def open(self) -> Retriever:
        """Return the opened retriever, opening it if necessary. An error of opening is raised again at each call."""
        async with self._lock:
            if self._opened is None:
                self._opened = await self._opening()
        return self._opened


class Passing(Exception):
    """The error for a search that failed in a way that may pass. `wait_s` are the seconds that the server asks to wait;
    None where it names none.
    """

    def __init__(self, why: str, wait_s: float | None = None, *, is_unreachable: bool = False) -> None:
        """`is_unreachable`: there was no connection."""
        super().__init__(why)
        self.wait_s, self.is_unreachable = wait_s, is_unreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPatience:
    """How long to wait for a search, and how often to retry it."""

    timeout_s: float = 30.0
    """Seconds allowed for one attempt. A server's client sends its request again within this time."""
    attempts: int = 3
    backoff_s: float = 0.5
    """Seconds before the second attempt, doubled before each further one. A random part of each pause, at least half,
    is waited."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for numbers with which nothing is ever found."""
        for name in ("timeout_s", "attempts", "backoff_s"):
            if getattr(self, name) <= 0:
                raise InvalidInput("has to be above 0", field=name)

    async def wait_for(self, search: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a search. Raises `SearchFailed` when all attempts fail or hang. Errors that only the
        user can resolve (`InvalidInput`) and a cap that is reached are raised at once.
        """
        problem = ""
        for attempt in range(self.attempts):
            if attempt:
                await asyncio.sleep(self.backoff_s * 2 ** (attempt - 1) * (0.5 + random.random() / 2))
            try:
                async with asyncio.timeout(self.timeout_s):
                    return await search()
            except TimeoutError as error:
                problem = str(error) or f"nothing came within {self.timeout_s:g} s"
            except (InvalidInput, BudgetExceeded):
                raise
            except Exception as error:
                problem = str(error) if isinstance(error, RetrievalError) else f"{type(error).__name__}: {error}"
        times = f" {self.attempts} times" if self.attempts > 1 else ""
        raise SearchFailed(f"a search failed{times}: {problem}")


@dataclass(frozen=True, slots=True)
class PatientRetriever:
    """A retriever that adds timeouts and retries to another one."""

    retriever: Retriever
    patience: SearchPatience

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Return the best `k` passages, as `Retriever.retrieve` does; raises what `SearchPatience.wait_for` raises. The
        time to open the retriever is not limited.
        """
        if isinstance(self.retriever, LazyRetriever):
            await self.retriever.open()
        return await self.patience.wait_for(lambda: self.retriever.retrieve(query, k))


class FailureCount:
    """Number of searches that failed one after the other, over all episodes of a process."""

    def __init__(self) -> None:
        self._lock, self._failures = threading.Lock(), 0

    def add(self, problem: str) -> None:
        """Count a failed search. Raises `SearchFailed` when there are too many."""
        with self._lock:
            self._failures += 1
            failures = self._failures
        if failures >= _MOST_FAILURES:
            raise SearchFailed(f"{failures} searches failed one after the other; the last one: {problem}")

    def clear(self) -> None:
        """Reset the count after a search that succeeded."""
        with self._lock:
            self._failures = 0
