"""A server under load: what it remembers, what it does together, what it refuses, and when it gives up."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.retrieval.service.support import (
    QUICK,
    ScriptedBatchIndex,
    ScriptedIndex,
    get,
    post,
    serving,
)
from trailforge.retrieval.service.client import SearchClientConfig, connect
from trailforge.retrieval.service.searching import ServedIndex
from trailforge.retrieval.service.server import SearchServer, ServerLimits
from trailforge.schemas import RetrievalError

PATIENT = SearchClientConfig(timeout_s=60.0, limit_s=120.0, backoff_s=0.01)


async def test_a_query_is_searched_once_whoever_asks_it() -> None:
    """At the same time or later; another k is another search, and what failed is tried again."""
    index = ScriptedIndex()
    served = ServedIndex("echo", index)
    index.gate.clear()
    first = [asyncio.create_task(served.find("a", 1)) for _ in range(5)]
    await asyncio.sleep(0.01)
    index.gate.set()
    assert [found[0].passage.text for found in await asyncio.gather(*first)] == ["a"] * 5
    await served.find("a", 1)
    await served.find("a", 2)
    assert index.searched == ["a", "a"] and (served.hits, served.searches) == (5, 2)
    for _ in range(2):
        with pytest.raises(RetrievalError):
            await served.find("bad", 1)
    assert index.searched.count("bad") == 2


async def test_the_queries_that_were_longest_not_asked_are_forgotten() -> None:
    """Memory is bounded in bytes; 0 keeps none."""
    index = ScriptedIndex()
    served = ServedIndex("echo", index, cached=2200)  # two of them
    for query in ("a", "b", "a", "c", "a", "b"):
        await served.find(query, 1)
    assert index.searched == ["a", "b", "c", "b"]
    forgetful = ServedIndex("echo", index, cached=0)
    await forgetful.find("a", 1)
    await forgetful.find("a", 1)
    assert index.searched[-2:] == ["a", "a"]


async def test_who_goes_away_takes_no_search_from_others() -> None:
    """The search that two wait for goes on when one of them is cancelled."""
    index = ScriptedIndex()
    served = ServedIndex("echo", index)
    index.gate.clear()
    gone, stays = (asyncio.create_task(served.find("a", 1)) for _ in range(2))
    await asyncio.sleep(0.01)
    gone.cancel()
    index.gate.set()
    assert (await stays)[0].passage.text == "a"
    assert index.searched == ["a"]


async def test_few_searches_run_beside_each_other() -> None:
    """As many as are said, however many are asked for."""
    index = ScriptedIndex()
    served = ServedIndex("echo", index, at_once=3)
    index.gate.clear()
    asked = [asyncio.create_task(served.find(f"{n}", 1)) for n in range(10)]
    await asyncio.sleep(0.02)
    index.gate.set()
    await asyncio.gather(*asked)
    assert index.most_busy == 3


async def test_an_index_that_gains_by_it_gets_what_is_waiting_at_once() -> None:
    """What is asked while it searches, of several requests, is its next batch; an error reaches all of it."""
    index = ScriptedBatchIndex()
    async with serving(SearchServer([ServedIndex("echo", index)])) as url:
        index.gate.clear()
        bodies = [{"queries": [f"{n}-{m}" for m in range(4)]} for n in range(5)]
        first = asyncio.create_task(post(f"{url}/retrieve", {"queries": ["first"]}))
        while not index.batches:
            await asyncio.sleep(0.001)
        asked = [asyncio.create_task(post(f"{url}/retrieve", body)) for body in bodies]
        while (await get(f"{url}/stats"))["waiting"] < 21:
            await asyncio.sleep(0.001)
        index.gate.set()
        replies = await asyncio.gather(*asked)
        await first
        assert index.batches == [1, 20]
        for body, (_, reply, _) in zip(bodies, replies, strict=True):
            assert [rows[0]["contents"] for rows in reply["result"]] == [f'"Echo"\n{q}' for q in body["queries"]]
        status, reply, _ = await post(f"{url}/retrieve", {"queries": ["good", "bad"]})
        assert (status, reply) == (424, {"error": "the index is broken"})
        searches = len(index.batches)
        with pytest.raises(RetrievalError, match="the index is broken"):
            await connect(url, config=PATIENT).retrieve("bad", 1)
        assert len(index.batches) == searches + 1  # it would come again
        assert (await post(f"{url}/retrieve", {"queries": ["good"]}))[0] == 200


async def test_queries_are_searched_one_by_one_where_that_is_asked_for() -> None:
    """Also by an index that would gain by several."""
    index = ScriptedBatchIndex()
    served = ServedIndex("echo", index, is_together=False)
    await asyncio.gather(*(served.find(f"{n}", 1) for n in range(6)))
    assert (index.batches, len(index.searched)) == ([], 6)


async def test_a_server_before_a_server_keeps_what_it_has_found() -> None:
    """Our client is an index that takes several queries at once."""
    index = ScriptedIndex()
    async with serving(SearchServer([ServedIndex("echo", index)])) as behind:
        proxy = ServedIndex("proxy", connect(behind, config=PATIENT), backend="server")
        async with serving(SearchServer([proxy])) as url:
            for _ in range(2):
                found = await connect(url, config=PATIENT).find_many(["a", "b", "a"], 1)
        assert [each[0].passage.text for each in found] == ["a", "b", "a"] and found[0][0].why == "said so"
        assert (await get(f"{behind}/stats"))["queries"] == 2


async def test_a_large_request_lets_small_ones_come_between() -> None:
    """An agent's one query does not wait for a trainer's batch."""

    class Slow(ScriptedIndex):
        async def find(self, query: str, k: int) -> list:
            await asyncio.sleep(0.005)
            return await super().find(query, k)

    index = Slow()
    async with serving(SearchServer([ServedIndex("echo", index, at_once=2)])) as url:
        large = asyncio.create_task(post(f"{url}/retrieve", {"queries": [f"{n}" for n in range(400)]}))
        while len(index.searched) < 5:
            await asyncio.sleep(0.001)
        await connect(url, config=PATIENT).retrieve("mine", 1)
        assert index.searched.index("mine") < 100 and not large.done()
        large.cancel()


async def test_too_many_queries_are_refused_and_a_client_comes_back() -> None:
    """Status 429 with Retry-After; one request alone is taken, however large."""
    index = ScriptedIndex()
    index.gate.clear()
    async with serving(SearchServer([ServedIndex("echo", index)], limits=ServerLimits(queue=8))) as url:
        asked = asyncio.create_task(post(f"{url}/retrieve", {"queries": [f"{n}" for n in range(8)]}))
        while not index.searched:
            await asyncio.sleep(0.001)
        status, reply, headers = await post(f"{url}/retrieve", {"queries": ["mine"]})
        assert status == 429 and "8 queries wait already" in reply["error"] and int(headers["Retry-After"]) >= 1
        waiting = asyncio.create_task(connect(url, config=PATIENT).retrieve("mine", 1))
        await asyncio.sleep(0.05)
        index.gate.set()
        assert (await asked)[0] == 200
        assert (await waiting)[0].text == "mine"
        figures = await get(f"{url}/stats")
    assert figures["refused"] >= 2 and figures["waiting"] == 0


async def test_a_request_that_takes_too_long_is_given_up() -> None:
    """With status 504; what waited leaves the queue, and the next is answered."""
    index = ScriptedIndex()
    index.gate.clear()
    limits = ServerLimits(timeout_s=1.0, queue=5)
    async with serving(SearchServer([ServedIndex("echo", index, at_once=1)], limits=limits)) as url:
        status, reply, _ = await post(f"{url}/retrieve", {"queries": ["a", "b", "c"]})
        assert (status, reply) == (504, {"error": "no answer within 1 s"})
        figures = await get(f"{url}/stats")
        assert (figures["timed_out"], figures["waiting"], figures["in_flight"]) == (1, 0, 0)
        index.gate.set()
        assert (await post(f"{url}/retrieve", {"queries": ["d"]}))[0] == 200
        assert index.searched == ["a", "d"]


async def test_who_goes_away_leaves_the_queue() -> None:
    """A client that gives up, or dies, is not searched for any longer."""
    index = ScriptedIndex()
    index.gate.clear()
    async with serving(SearchServer([ServedIndex("echo", index, at_once=1)])) as url:
        with pytest.raises(RetrievalError):
            await connect(url, config=QUICK).find_many(["a", "b", "c"], 1)
        deadline = time.monotonic() + 120
        while (await get(f"{url}/stats"))["waiting"] and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        figures = await get(f"{url}/stats")
        index.gate.set()
    assert figures["waiting"] == 0 and figures["abandoned"] >= 1
    assert index.searched == ["a"]


async def test_a_bug_in_an_index_is_an_answer_and_no_end() -> None:
    """Status 500; the figures keep its line."""

    class Broken(ScriptedIndex):
        async def find(self, query: str, k: int) -> list:
            raise ZeroDivisionError("one over none")

    async with serving(SearchServer([ServedIndex("broken", Broken())])) as url:
        status, reply, _ = await post(f"{url}/retrieve", {"queries": ["a", "b"]})
        figures = await get(f"{url}/stats")
    assert (status, reply) == (500, {"error": "one over none"})
    assert (figures["failed"], figures["last_error"]) == (1, "ZeroDivisionError: one over none")
