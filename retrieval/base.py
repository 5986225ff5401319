"""What every retriever is."""

from __future__ import annotations

from typing import Protocol

from trailforge.schemas import Passage


class Retriever(Protocol):
    """Finds passages. The same query over the same documents always gives the same passages.

    Scores are rounded to 6 decimals; passages of equal score come in the order of the documents.
    """

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """The best `k` passages, best first; fewer when there are not that many."""
        ...
