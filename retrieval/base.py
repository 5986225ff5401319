"""What every retriever is, and how long one is waited for."""

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
    """What was found before, up to so many bytes: what was longest not asked for goes first. Use it on one loop."""

    def __init__(self, most: int) -> None:
        """`most`: bytes; 0 remembers nothing."""
        self._most, self.bytes = most, 0
        self._found: OrderedDict[K, tuple[T, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, asked: K) -> T | None:
        """What was found; None where nothing is remembered."""
        if (kept := self._found.get(asked)) is None:
            return None
        self._found.move_to_end(asked)
        return kept[0]

    def keep(self, asked: K, found: T, size: int) -> None:
        """`size`: of both, in bytes. What alone is larger than all may be is not kept."""
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
        """The best `k` passages, best first; fewer when there are not that many."""
        ...


class LazyRetriever:
    """Opens another retriever when it is first needed, so that what needs none yet does not wait for its embedding."""

    def __init__(self, opening: Callable[[], Awaitable[Retriever]]) -> None:
        self._opening = opening
        self._opened: Retriever | None = None
        self._lock = asyncio.Lock()

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """As `Retriever.retrieve`; raises as `open`."""
        return await (await self.open()).retrieve(query, k)

    async def open(self) -> Retriever:
        """What is opened, now if it is not yet; raises what the opening raises, again each time."""
        async with self._lock:
            if self._opened is None:
                self._opened = await self._opening()
        return self._opened


class Passing(Exception):
    """An attempt that failed where another may not. `wait_s`: what the server asks for."""

    def __init__(self, why: str, wait_s: float | None = None, *, is_unreachable: bool = False) -> None:
        """`is_unreachable`: there was no connection."""
        super().__init__(why)
        self.wait_s, self.is_unreachable = wait_s, is_unreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPatience:
    """How long a search is waited for, and how often it is tried."""

    timeout_s: float = 30.0
    """Of one attempt. A server's client sends its request again within it."""
    attempts: int = 3
    backoff_s: float = 0.5
    """Before the second attempt; doubles each time. Of each pause a random part, half at least, is waited."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for numbers with which nothing is ever found."""
        for name in ("timeout_s", "attempts", "backoff_s"):
            if getattr(self, name) <= 0:
                raise InvalidInput("has to be above 0", field=name)

    async def wait_for(self, search: Callable[[], Awaitable[T]]) -> T:
        """What a search finds. Raises `SearchFailed` when all attempts fail or hang.

        What a person has to mend (`InvalidInput`) and a cap that is reached pass at once.
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
    """Another retriever, waited for so long."""

    retriever: Retriever
    patience: SearchPatience

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """As `Retriever.retrieve`; raises as `SearchPatience.wait_for`. To be opened takes its own time."""
        if isinstance(self.retriever, LazyRetriever):
            await self.retriever.open()
        return await self.patience.wait_for(lambda: self.retriever.retrieve(query, k))


class FailureCount:
    """How many searches failed one after the other, of all episodes of a process."""

    def __init__(self) -> None:
        self._lock, self._failures = threading.Lock(), 0

    def add(self, problem: str) -> None:
        """Count one. Raises `SearchFailed` when there are too many."""
        with self._lock:
            self._failures += 1
            failures = self._failures
        if failures >= _MOST_FAILURES:
            raise SearchFailed(f"{failures} searches failed one after the other; the last one: {problem}")

    def clear(self) -> None:
        """One has not failed."""
        with self._lock:
            self._failures = 0
