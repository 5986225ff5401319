"""How much is sent, how fast and to whom: the arithmetic by properties, the client against servers that misbehave."""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tests.inference.support import ModelServer, answer, chat, config, failure, model_server
from tests.support.model_server import reply_times, running, stats, weather
from trailforge.inference import ModelClient, Request
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.inference.throttle import Lane, Throttle, ThrottleConfig
from trailforge.schemas import ServerUnavailable, Stalled

LIMITS = ThrottleConfig(most=64, backoff_s=0.5, stall_s=60.0)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as started:
        yield started


def prompt(number: int) -> Request:
    """One that the scripted model of `tests.support.model_server` knows."""
    return chat(f"Write other search queries that look for the same\nQuery: What is the editor of {number}?")


async def ask_all(url: str, count: int, **changes: Any) -> tuple[list[str], float]:
    """Ask so many different things at once; the replies, and the seconds that it took."""
    client = ModelClient(config(url, **{"backoff_s": 0.5, "max_attempts": 8} | changes))
    started = time.monotonic()
    try:
        replies = await asyncio.gather(*(client.complete(prompt(n)) for n in range(count)))
    finally:
        await client.aclose()
    return [reply.text for reply in replies], time.monotonic() - started


# One server that is set aside


def test_a_failing_server_is_tried_with_single_calls_at_growing_intervals() -> None:
    lane, now, tries = Lane("", LIMITS, 0.0), 0.0, []
    for _ in range(10):
        now = lane.ready_at(now)
        tries.append(now)
        permit = lane.send(now)
        if lane.is_aside:
            assert lane.ready_at(now + 100) == math.inf
        lane.in_flight -= 1
        lane.failed(permit, now)
    assert tries == [0, 0, 0, 0.5, 1.5, 3.5, 7.5, 15.5, 25.5, 35.5]
    permit = lane.send(now := lane.ready_at(now))
    lane.in_flight -= 1
    lane.replied()
    assert not lane.is_aside and lane.ready_at(now) == now


def test_calls_that_break_together_set_a_server_aside_once() -> None:
    lane = Lane("", LIMITS, 0.0)
    permits = [lane.send(0.0) for _ in range(32)]
    for permit in permits:
        lane.in_flight -= 1
        lane.failed(permit, 1.0)
    assert lane.ready_at(1.0) == 1.5


def test_a_time_that_a_server_names_holds_for_all_its_calls() -> None:
    lane = Lane("", LIMITS, 0.0)
    permits = [lane.send(0.0) for _ in range(3)]
    lane.refused(permits[0], 7.0, 1.0)
    lane.refused(permits[1], 2.0, 1.0)
    assert lane.ready_at(1.0) == 8.0


# Leave to send


async def test_leave_is_given_in_order_and_never_to_more_than_the_most() -> None:
    throttle, order = Throttle(["a"], ThrottleConfig(most=2, backoff_s=0.1, stall_s=60), lambda _: None), []

    async def call(number: int) -> None:
        permit = await throttle.acquire()
        order.append(number)
        await asyncio.sleep(0.001)
        throttle.replied(permit)

    await asyncio.gather(*(call(n) for n in range(20)))
    assert order == list(range(20))


async def test_the_most_urgent_call_is_next_and_among_equals_the_oldest() -> None:
    throttle, order = Throttle(["a"], ThrottleConfig(most=1, backoff_s=0.1, stall_s=60), lambda _: None), []

    async def call(number: int, priority: int) -> None:
        permit = await throttle.acquire(priority)
        order.append(number)
        await asyncio.sleep(0.001)
        throttle.replied(permit)

    await asyncio.gather(*(call(number, priority) for number, priority in enumerate((0, 1, 4, 2, 4, 1))))
    assert order == [0, 2, 4, 3, 1, 5]


async def test_the_server_with_the_least_in_flight_is_next() -> None:
    throttle = Throttle(["a", "b"], ThrottleConfig(most=9, backoff_s=0.1, stall_s=60), lambda _: None)
    permits = [await throttle.acquire() for _ in range(4)]
    assert sorted(p.lane.url for p in permits) == ["a", "a", "b", "b"]
    throttle.replied(next(p for p in permits if p.lane.url == "b"))
    assert (await throttle.acquire()).lane.url == "b"


async def test_leave_that_nobody_waits_for_any_more_goes_to_the_next() -> None:
    throttle = Throttle(["a"], ThrottleConfig(most=1, backoff_s=0.1, stall_s=60), lambda _: None)
    held = await throttle.acquire()
    first, second = (asyncio.create_task(throttle.acquire()) for _ in range(2))
    await asyncio.sleep(0)
    throttle.replied(held)
    first.cancel()
    assert (await asyncio.wait_for(second, 60)).lane.url == "a"


# The client against servers that misbehave


async def test_it_can_be_seen_that_a_server_is_waited_for(server: ModelServer) -> None:
    server.replies = [failure(429, **{"Retry-After": "0.5"})]
    client = ModelClient(config(server.url))
    asked = asyncio.create_task(client.complete(chat()))
    while client.figures["servers_waited_for"] == 0:
        assert not asked.done()
        await asyncio.sleep(0.01)
    await asked
    assert client.figures["servers_waited_for"] == 0
    await client.aclose()


async def test_a_time_that_a_server_names_is_waited_for_by_every_call(server: ModelServer) -> None:
    server.replies = [failure(429, **{"Retry-After": "0.4"})]
    client = ModelClient(config(server.url))
    started = time.monotonic()
    first = asyncio.create_task(client.complete(chat("first")))
    while client.figures["servers_waited_for"] == 0:
        await asyncio.sleep(0.01)
    await client.complete(chat("second"))
    assert time.monotonic() - started >= 0.4
    await first
    await client.aclose()


async def test_a_429_is_no_failed_attempt(server: ModelServer) -> None:
    server.replies = [failure(429) for _ in range(4)]
    client = ModelClient(config(server.url, max_attempts=1))
    assert (await client.complete(chat())).text == "Fritz Lang"
    assert client.counters.retries == 4
    await client.aclose()


@pytest.mark.parametrize("status", [503, 529])
async def test_an_overloaded_server_is_left_alone_as_long_as_it_asks(server: ModelServer, status: int) -> None:
    server.replies = [failure(status, **{"Retry-After": "0.3"})]
    client = ModelClient(config(server.url))
    started = time.monotonic()
    await client.complete(chat())
    assert time.monotonic() - started >= 0.3
    await client.aclose()


@pytest.mark.slow
@pytest.mark.parametrize(("retry_after", "count"), [("1", 250), ("", 150)])
def test_a_rate_limit_is_used(retry_after: str, count: int) -> None:
    """Six tenths of it, beside what the calls take where there is none; `benchmarks/rate_limit.py` measures more. Whole
    seconds to wait take more of a short run."""
    with running(latency=0.05) as url:
        _, unlimited_s = asyncio.run(ask_all(url, count))
    with running(latency=0.05, rate=50, burst=20, retry_after=retry_after) as url:
        replies, _ = asyncio.run(ask_all(url, count))
        times = reply_times(url)
    assert len(replies) == len(times) == count
    assert times[-1] - times[0] < (count - 20) / 50 / 0.6 + unlimited_s


def test_a_storm_of_refusals_loses_nothing_and_is_soon_forgotten() -> None:
    async def through(url: str) -> float:
        client = ModelClient(config(url, backoff_s=0.2))
        calls = [asyncio.create_task(client.complete(prompt(n))) for n in range(200)]
        await asyncio.sleep(1.5)
        await asyncio.to_thread(weather, url)
        started = time.monotonic()
        assert len(await asyncio.gather(*calls)) == 200
        await client.aclose()
        return time.monotonic() - started

    with running(latency=0.02) as url:
        weather(url, limited=0.9)
        assert asyncio.run(through(url)) < 60  # a call a second would take more than three minutes
        assert stats(url)["unique"] == 200


def test_broken_replies_errors_and_hangs_lose_nothing() -> None:
    with running(latency=0.01) as url:
        weather(url, malformed=0.1, half=0.05, error=0.05, hang=0.01)
        replies, _ = asyncio.run(ask_all(url, 200, timeout_s=1.0, backoff_s=0.05))
    assert len(replies) == 200 and all(text.endswith("by name") for text in replies)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_server_that_vanishes_and_comes_back_costs_nothing_but_time() -> None:
    port = free_port()

    async def ask() -> list[str]:
        client = ModelClient(config(f"http://127.0.0.1:{port}/v1", backoff_s=0.2, max_in_flight=8, max_attempts=8))
        calls = [asyncio.create_task(client.complete(prompt(n))) for n in range(200)]
        while client.counters.paid_calls < 50:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(first.__exit__, None, None, None)
        await asyncio.sleep(1)
        with running(port=port, latency=0.02):
            texts = [reply.text for reply in await asyncio.gather(*calls)]
        await client.aclose()
        return texts

    first = running(port=port, latency=0.02)
    first.__enter__()
    assert len(asyncio.run(ask())) == 200


async def test_several_servers_share_the_calls_and_one_that_fails_gets_few(server: ModelServer) -> None:
    async with model_server() as other:
        bad: list[Any] = [failure(500) for _ in range(1000)]
        other.replies = bad
        replies, _ = await ask_all(f"{server.url}, {other.url}", 200, backoff_s=0.3, max_in_flight=8)
        assert len(replies) == 200 and other.calls < 20
        other.replies = []
        before = server.calls
        await ask_all(f"{server.url},{other.url}", 200, max_in_flight=8)
        assert abs((server.calls - before) - 100) < 40


async def test_a_server_that_was_set_aside_comes_back(server: ModelServer) -> None:
    async with model_server() as other:
        other.replies = [failure(500) for _ in range(5)]
        client = ModelClient(config(f"{server.url},{other.url}", backoff_s=0.05, max_in_flight=4, max_attempts=8))
        for n in range(400):
            await asyncio.gather(*(client.complete(chat(f"{n} {m}")) for m in range(4)))
            if other.calls > 50:
                break
        assert other.calls > 50
        await client.aclose()


async def test_one_of_several_servers_has_to_be_there(server: ModelServer) -> None:
    client = ModelClient(config(f"http://127.0.0.1:9/v1,{server.url}"))
    assert await client.check() == ["some-model"]
    await client.aclose()
    client = ModelClient(config("http://127.0.0.1:9/v1,http://127.0.0.1:10/v1"))
    with pytest.raises(ServerUnavailable, match="nothing answers"):
        await client.check()
    await client.aclose()


# Standing still


async def test_servers_that_hang_end_in_a_stall_that_reaches_every_caller(server: ModelServer) -> None:
    server.gate.clear()
    client = ModelClient(config(server.url, stall_s=0.3, max_in_flight=4))
    replies = await asyncio.gather(*(client.complete(chat(str(n))) for n in range(8)), return_exceptions=True)
    assert [type(reply) for reply in replies] == [Stalled] * 8
    assert f"{server.url}: silence" in str(replies[0]) and "run the same command again" in str(replies[0])
    with pytest.raises(Stalled):
        await client.complete(chat("later"))
    await client.aclose()


async def test_a_server_that_makes_progress_does_not_stall(server: ModelServer) -> None:
    """Though all that it does takes longer than `stall_s`, and so does a rest."""
    server.replies = [reply for _ in range(45) for reply in (failure(429), answer())]
    client = ModelClient(config(server.url, stall_s=2.0, backoff_s=0.1))
    replies = [await client.complete(chat(str(n))) for n in range(45)]
    await asyncio.sleep(2.5)  # nothing is wanted
    replies.append(await client.complete(chat("after a rest")))
    await client.aclose()
    assert [reply.text for reply in replies] == ["Fritz Lang"] * 46


async def test_after_a_stall_a_new_client_goes_on_from_the_ledger(server: ModelServer, tmp_path: Any) -> None:
    server.replies = [answer("kept")] + [failure(429) for _ in range(10_000)]
    client = ModelClient(config(server.url, stall_s=0.3), SqliteLedger(tmp_path / "ledger.sqlite"))
    await client.complete(chat("one"))
    with pytest.raises(Stalled):
        await client.complete(chat("two"))
    await client.aclose()
    server.replies = [web.json_response(answer("two"))]
    client = ModelClient(config(server.url), SqliteLedger(tmp_path / "ledger.sqlite"))
    assert (await client.complete(chat("one"))).from_ledger
    assert (await client.complete(chat("two"))).text == "two"
    await client.aclose()
