"""The retriever that waits for its first search."""

from __future__ import annotations

import asyncio

import pytest

from trailforge.retrieval import LazyRetriever
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.schemas import Document, RetrievalError


async def test_it_opens_once_and_not_before_the_first_search() -> None:
    opened = []

    async def opening() -> Bm25Retriever:
        opened.append(1)
        await asyncio.sleep(0)
        return Bm25Retriever([Document(id="1", title="Rome", text="Rome lies on the Tiber.")])

    retriever = LazyRetriever(opening)
    assert not opened
    found = await asyncio.gather(*(retriever.retrieve("Rome", 1) for _ in range(5)))
    assert [[p.id for p in passages] for passages in found] == [["1"]] * 5
    assert len(opened) == 1


async def test_an_opening_that_fails_is_told_by_every_search() -> None:
    async def opening() -> Bm25Retriever:
        raise RetrievalError("no index")

    retriever = LazyRetriever(opening)
    for _ in range(2):
        with pytest.raises(RetrievalError, match="no index"):
            await retriever.retrieve("Rome", 1)
