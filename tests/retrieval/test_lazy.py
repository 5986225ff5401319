"""The retriever that waits for its first search, and how long one is waited for."""

from __future__ import annotations

import asyncio

import pytest

from trailforge.retrieval import LazyRetriever
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.base import PatientRetriever, SearchPatience
from trailforge.schemas import BudgetExceeded, Document, InvalidInput, Passage, RetrievalError, from_dict

QUICK = SearchPatience(timeout_s=0.05, attempts=3, backoff_s=0.02)


class Failing:
    """Fails or hangs as it is told, once for each, then finds."""

    def __init__(self, *troubles: Exception | None) -> None:
        self.troubles, self.times = list(troubles), list[float]()

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        self.times.append(asyncio.get_running_loop().time())
        if self.troubles:
            trouble = self.troubles.pop(0)
            if trouble is None:
                await asyncio.Event().wait()
            else:
                raise trouble
        return [Passage(id="1", title="Rome", text="Tiber", score=1.0)]


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


async def test_a_search_that_fails_or_hangs_is_tried_again_after_a_pause() -> None:
    failing = Failing(ConnectionError("reset"), None)
    (found,) = await PatientRetriever(failing, QUICK).retrieve("Rome", 1)
    assert found.id == "1"
    first, second, third = failing.times
    assert second - first >= 0.01 and third - second >= 0.05 + 0.02  # half the pauses at least, the second one doubled


@pytest.mark.parametrize(
    ("trouble", "why"),
    [(KeyError("row"), "KeyError: 'row'"), (None, "within 0.05 s"), (RetrievalError("gone"), "gone")],
)
async def test_a_search_is_given_up_after_its_attempts(trouble: Exception | None, why: str) -> None:
    failing = Failing(*[trouble] * 5)
    with pytest.raises(RetrievalError, match=f"failed 3 times: .*{why}"):
        await PatientRetriever(failing, QUICK).retrieve("Rome", 1)
    assert len(failing.times) == 3


@pytest.mark.parametrize("trouble", [InvalidInput("no such corpus"), BudgetExceeded("10 calls")])
async def test_what_a_person_has_to_mend_is_not_tried_again(trouble: Exception) -> None:
    failing = Failing(trouble)
    with pytest.raises(type(trouble)):
        await PatientRetriever(failing, QUICK).retrieve("Rome", 1)
    assert len(failing.times) == 1


async def test_opening_is_no_part_of_a_search() -> None:
    async def opening() -> Failing:
        await asyncio.sleep(4 * QUICK.timeout_s)
        return Failing()

    patient = PatientRetriever(LazyRetriever(opening), QUICK)
    assert len(await patient.retrieve("Rome", 1)) == 1


def test_patience_without_an_attempt_is_none() -> None:
    for field in ("attempts", "timeout_s", "backoff_s"):
        with pytest.raises(InvalidInput, match="above 0"):
            from_dict(SearchPatience, {field: 0})
