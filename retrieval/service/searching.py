"""An index as a server holds it: with a cache of results, a limit on concurrent searches, batches, and counters."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from sys import getsizeof
from typing import Any, Protocol

from trailforge.retrieval.backends.declaration import FoundPassage
from trailforge.retrieval.base import Remembered, Retriever
from trailforge.retrieval.indexes.seals import HeldFiles
from trailforge.retrieval.pages.corpus import JoinedPages, Pages
from trailforge.schemas import Document

CACHED = 64 << 20
"""Bytes of passages that are kept; of five passages of 100 words those of about 10,000 queries."""
AT_ONCE = max(2, os.cpu_count() or 1)
"""Searches of an index that run beside each other."""
_TOGETHER = 64
"""Queries that an index which gains by it gets at once."""

_RECENT = 4096
_RECORD = 300
"""Bytes of a passage without its texts, and of a query's place among what is remembered."""

_Asked = tuple[str, int]
"""Query and k."""
_Waiting = asyncio.Future[list[FoundPassage]]
_FindMany = Callable[[Sequence[str], int], Awaitable[list[list[FoundPassage]]]]
"""`Index.find` for each of several queries, of an index for which that is less work than one after the other."""


def _size_of(query: str, found: Sequence[FoundPassage]) -> int:
    """In memory, about: of the texts what they are, of the records around them what was measured."""
    texts = (text for each in found for text in (each.passage.id, each.passage.title, each.passage.text, each.why))
    sources = (source for each in found for source in each.sources)
    return _RECORD * (1 + len(found)) + sum(map(getsizeof, chain([query], texts, sources)))


class Searchable(Protocol):
    """The part of an `Index` that a search needs."""

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the best `k` passages with reasons, as `Index.find` does."""
        ...


@dataclass(frozen=True, slots=True)
class RankedIndex:
    """Wraps a `Retriever`, such as a search tool of the web, to be used as an index."""

    retriever: Retriever
    what: str
    """Name of what found the passages, for reasons such as `result 2 of the web`."""

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the best `k` passages with reasons, as `Index.find` does."""
        found = await self.retriever.retrieve(query, k)
        return [
            FoundPassage(passage=passage, why=f"result {rank} of {self.what}", sources=(passage.id,))
            for rank, passage in enumerate(found, start=1)
        ]


class Times:
    """Durations of the last few thousand operations of one kind."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_RECENT)

    @contextmanager
    def around(self) -> Iterator[None]:
        """Measure the duration of a `with` block, however it ends."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds.append(time.monotonic() - began)

    @property
    def usual_s(self) -> float:
        """Return the median in seconds; 0 before the first operation."""
        return self._at(0.5)

    def report(self) -> dict[str, float]:
        """Return median and 99th percentile in milliseconds."""
        return {f"p{share}": round(1000 * self._at(share / 100), 3) for share in (50, 99)}

    def _at(self, share: float) -> float:
        ordered = sorted(self._seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class ServerFigures:
    """Counters of a server since it started: requests and queries, how long they took, and what was refused."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._counts: Counter[str] = Counter()
        self._requests = Times()
        self.in_flight = 0
        """Requests that are being answered."""
        self.waiting = 0
        """Their queries that are not answered yet."""
        self.last_error = ""

    def count(self, what: str) -> None:
        """Add one to the counter with this name."""
        self._counts[what] += 1

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count and time the request that is answered within a `with` block."""
        self.in_flight += 1
        try:
            with self._requests.around():
                yield
        finally:
            self.in_flight -= 1
            self.count("requests")

    def report(self) -> dict[str, Any]:
        """Return all counters, for JSON, with times in milliseconds."""
        names = ("requests", "refused", "timed_out", "failed", "abandoned")
        return {
            "up_s": round(time.monotonic() - self._began, 1),
            **{name: self._counts[name] for name in names},
            "in_flight": self.in_flight,
            "waiting": self.waiting,
            "request_ms": self._requests.report(),
            "last_error": self.last_error,
        }


class ServedIndex:
    """An index that is served under a name. Use it on one event loop."""

    def __init__(
        self,
        name: str,
        index: Searchable,
        documents: Sequence[Document] = (),
        *,
        backend: str = "",
        content_hash: str = "",
        files: HeldFiles | None = None,
        pages: Pages | None = None,
        cached: int = CACHED,
        at_once: int = AT_ONCE,
        is_together: bool = True,
    ) -> None:
        """`documents`: the passages that are searched. `pages`: to open; None: the passages under each title, where
        there are any. `backend`: how it searches. `content_hash`: by which rows know it (`scope.corpus_hash`).
        `files`: of the index, which are looked at around every search. `cached`: bytes of passages; 0 keeps none.
        `is_together`: whether an index that gains by it gets several queries at once.
        """
        self.pages = pages or (JoinedPages(documents) if documents else None)
        """None: there are none to open, but for those of the web."""
        self.name, self.documents, self.backend, self.content_hash = name, documents, backend, content_hash
        self.hits = self.searches = 0
        """Queries answered from memory, those that others were asking at that moment included; and all others."""
        self.times = Times()
        """Of its queries, those from memory included."""
        self._index, self._at_once = index, at_once
        self.files = files or HeldFiles(Path(), (), "")
        """None where it is in memory."""
        self._found: Remembered[_Asked, list[FoundPassage]] = Remembered(cached)
        self._under_way: dict[_Asked, asyncio.Task[list[FoundPassage]]] = {}
        self._find_many: _FindMany | None = getattr(index, "find_many", None) if is_together else None
        self.slots = asyncio.Semaphore(1 if self._find_many else at_once)
        """Of searches; also for other work of the same processors."""
        self._gathered: dict[int, list[tuple[str, _Waiting]]] = {}

    @property
    def width(self) -> int:
        """Return how many queries of one request are worth searching at once."""
        return _TOGETHER if self._find_many else self._at_once

    @property
    def is_busy(self) -> bool:
        """Tell whether a search is running that cannot be interrupted."""
        return bool(self._under_way)

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the best `k` passages with reasons, as `Index.find` does. Equal queries at the same time share one
        search.
        """
        self.files.check()
        with self.times.around():
            return await self._remembered(query, k)

    async def _remembered(self, query: str, k: int) -> list[FoundPassage]:
        asked = (query, k)
        if (found := self._found.get(asked)) is not None:
            self.hits += 1
            await asyncio.sleep(0)  # a batch that is all in memory must not hold the loop
            return found
        if (task := self._under_way.get(asked)) is not None:
            self.hits += 1
        else:
            self.searches += 1
            task = self._under_way[asked] = asyncio.create_task(self._search(query, k))
            task.add_done_callback(lambda done: self._keep(asked, done))
        # Others may wait for it, too: who goes away does not end it.
        return await asyncio.shield(task)

    def _keep(self, asked: _Asked, done: asyncio.Task[list[FoundPassage]]) -> None:
        del self._under_way[asked]
        if not done.cancelled() and done.exception() is None:
            self._found.keep(asked, done.result(), _size_of(asked[0], done.result()))

    async def _search(self, query: str, k: int) -> list[FoundPassage]:
        with self.files.reading():  # what is read of files that are cut meanwhile must not be kept
            return await self._search_together(query, k)

    async def _search_together(self, query: str, k: int) -> list[FoundPassage]:
        """Where several queries at once are less work, those that come while a search runs are searched together."""
        if self._find_many is None:
            async with self.slots:
                return await self._index.find(query, k)
        mine: _Waiting = asyncio.get_running_loop().create_future()
        self._gathered.setdefault(k, []).append((query, mine))
        async with self.slots:
            if not mine.done():
                gathered = self._gathered[k]
                batch, self._gathered[k] = gathered[:_TOGETHER], gathered[_TOGETHER:]
                try:
                    found = await self._find_many([query for query, _ in batch], k)
                except Exception as error:
                    for _, waiting in batch:
                        waiting.set_exception(error)
                else:
                    for (_, waiting), passages in zip(batch, found, strict=True):
                        waiting.set_result(passages)
        return await mine
