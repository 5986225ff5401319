"""What every retriever is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from trailforge.schemas import Passage


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
        """As `Retriever.retrieve`; raises what the opening raises, again at every search."""
        async with self._lock:
            if self._opened is None:
                self._opened = await self._opening()
        return await self._opened.retrieve(query, k)
