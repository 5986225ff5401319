"""Helpers for threads and tasks: an event loop in a thread, one value for a process, a limited number of slots, and
tasks of which the first error ends all."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import cache, wraps
from itertools import count
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, for work from any other thread. It does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=f"trailforge-{name}", daemon=True)
        self._thread.start()

    def soon(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work on the loop, without waiting."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work on the loop and wait for its result."""
        return self.soon(work).result()

    def end(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """End the loop, once, after running `last` on it."""
        if self.loop.is_closed():
            return
        if last is not None:
            self.call(last())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def once(make: Callable[P, T]) -> Callable[P, T]:
    """Cache a function so that it runs once for the same arguments, even when several threads call it at the same time,
    which `functools.cache` does not ensure."""
    lock, cached = threading.Lock(), cache(make)

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> T:
        with lock:
            return cached(*args, **kwargs)  # pyright: ignore[reportArgumentType]

    return made


class Slots:
    """A limited number of slots; a slot that becomes free goes to the highest priority, and among equals to the
    oldest."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    @asynccontextmanager
    async def taken(self, priority: int = 0) -> AsyncIterator[None]:
        """Hold a slot for a `with` block."""
        await self._acquire(priority)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, priority: int) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-priority, next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # it was our turn already
            raise

    def _release(self) -> None:
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


async def all_or_error(works: Iterable[Awaitable[T]]) -> list[T]:
    """Return the results in order. The first error cancels the other works and is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
