"""Prompts that a server refuses alone, many at once, beside outages and caps: which items they cost, and which run."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.inference.support import ModelServer, answer, chat, config, failure, model_server
from trailforge.inference import Caps, ModelClient, Reply
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.schemas import BudgetExceeded, OutOfCredit, PromptRefused, ProviderError, ServerUnavailable

CONTROL = "Reply with the one word: yes."
Script = Callable[[str, int], Any]
"""What is answered to a prompt that comes for the n-th time; None: a good reply."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that fails is tried again soon."""
    monkeypatch.setattr("trailforge.inference.throttle._LONGEST_INTERVAL_S", 0.01)
    monkeypatch.setattr("trailforge.inference.throttle._LONGEST_UNASKED_PAUSE_S", 0.01)


def sends(status: int, body: object, **headers: str) -> Callable[[], web.Response]:
    return lambda: web.Response(
        status=status,
        text=body if isinstance(body, str) else json.dumps(body),
        content_type="text/html" if isinstance(body, str) else "application/json",
        headers=headers,
    )


POISON: dict[str, Callable[[], web.Response]] = {
    "400": sends(400, {"error": {"message": "it is considered high risk", "type": "content_filter"}}),
    "403": sends(403, {"code": "permission-denied", "error": "Content violates usage guidelines."}),
    "404": sends(404, {"detail": "Not Found"}),
    "405 of a firewall": sends(405, "<title>405</title>Your request has been blocked"),
    "200 of a firewall": sends(200, "<title>Request Rejected</title>Your support ID is: 1"),
    "302 of a firewall": sends(302, "", Location="https://block.example/"),
    "400 of a parameter": sends(400, {"error": {"message": "'seed' is not supported", "param": "seed"}}),
    "400 of a model": sends(400, {"error": {"message": "The model `x` does not exist."}}),
    "500": sends(500, {"error": {"message": "EngineCore encountered an issue"}}),
    "502": sends(502, "<title>502 Bad Gateway</title>"),
    "in a 200": sends(200, {"error": {"message": "Provider returned error", "code": 400}, "choices": None}),
}


def plays(server: ModelServer, script: Script) -> Counter[str]:
    """Let a server answer by the script; back comes how often each prompt has come."""
    came: Counter[str] = Counter()

    def always() -> Any:
        prompt = server.bodies[-1]["messages"][0]["content"]
        came[prompt] += 1
        planned = script(prompt, came[prompt])
        return answer() if planned is None else planned

    server.always = always
    return came


async def ask_all(client: ModelClient, prompts: list[str]) -> dict[str, Reply | BaseException]:
    """What came of each prompt, as a run asks: the first error that is no item's matter ends it."""
    tasks = {prompt: asyncio.create_task(client.complete(chat(prompt))) for prompt in prompts}

    async def ends_run(task: asyncio.Task[Reply]) -> None:
        with suppress(PromptRefused):
            await task

    async with asyncio.timeout(60):
        watched = [asyncio.create_task(ends_run(task)) for task in tasks.values()]
        await asyncio.wait(watched, return_when=asyncio.FIRST_EXCEPTION)
        for task in (*watched, *tasks.values()):
            task.cancel()
        await asyncio.gather(*watched, *tasks.values(), return_exceptions=True)
    done = {prompt: task for prompt, task in tasks.items() if not task.cancelled()}
    return {prompt: task.exception() or task.result() for prompt, task in done.items()}


def kinds(found: dict[str, Reply | BaseException]) -> set[type]:
    return {type(outcome) for outcome in found.values()}


@pytest.mark.parametrize("kind", POISON)
async def test_a_prompt_that_is_refused_alone_costs_nothing_else_whatever_is_said(kind: str) -> None:
    """First of all calls, as after a restart, when nothing was answered yet."""
    async with model_server() as server:
        plays(server, lambda prompt, _: POISON[kind]() if prompt == "poison" else None)
        client = ModelClient(config(server.url))
        with pytest.raises(PromptRefused) as caught:
            await client.complete(chat("poison"))
        assert (await client.complete(chat("good"))).text == "Fritz Lang"
        await client.aclose()
    assert any(word in str(caught.value) for word in ("status", "Request Rejected"))


@pytest.mark.parametrize("seed", range(4))
async def test_many_refused_prompts_at_once_cost_their_own_items(seed: int) -> None:
    chance = random.Random(seed)
    prompts = [f"{number}" for number in range(40)]
    poisoned = {prompt: chance.choice(list(POISON)) for prompt in chance.sample(prompts, 3 * (seed + 1))}
    async with model_server() as server:
        plays(server, lambda prompt, _: POISON[poisoned[prompt]]() if prompt in poisoned else None)
        client = ModelClient(config(server.url, max_in_flight=chance.choice([1, 4, 64])))
        found = await ask_all(client, prompts)
        assert client.figures["refused_prompts"] == len(poisoned)
        await client.aclose()
    assert {prompt for prompt, outcome in found.items() if isinstance(outcome, PromptRefused)} == set(poisoned)
    assert all(isinstance(found[prompt], Reply) for prompt in set(prompts) - set(poisoned))


async def test_prompts_that_are_all_refused_are_so_alone_as_long_as_others_would_be_answered() -> None:
    async with model_server() as server:
        came = plays(server, lambda prompt, _: None if prompt == CONTROL else POISON["400"]())
        client = ModelClient(config(server.url))
        found = await ask_all(client, [f"{number}" for number in range(10)])
        await client.aclose()
    assert kinds(found) == {PromptRefused}
    assert all(came[f"{number}"] == 2 for number in range(10))


@pytest.mark.parametrize("kind", POISON)
async def test_what_refuses_everything_is_a_matter_of_the_server_and_found_out_by_few_calls(kind: str) -> None:
    async with model_server() as server:
        came = plays(server, lambda prompt, _: POISON[kind]())
        client = ModelClient(config(server.url))
        found = await ask_all(client, [f"{number}" for number in range(10)])
        await client.aclose()
    assert kinds(found) <= {ProviderError, ServerUnavailable}
    assert came[CONTROL] < 10  # one for several who want to know


@pytest.mark.parametrize("kind", ["500", "502", "400", "404", "302 of a firewall", "200 of a firewall"])
@pytest.mark.parametrize("seed", range(5))
async def test_an_outage_of_any_length_fails_no_item(kind: str, seed: int) -> None:
    chance = random.Random(f"{kind} {seed}")
    start, length = chance.randrange(30), chance.choice([1, 2, 3, 5, 8, 13, 30, 60, 1000])
    prompts = [f"{number}" for number in range(30)]
    async with model_server() as server:
        plays(server, lambda prompt, _: POISON[kind]() if start <= server.calls - 1 < start + length else None)
        client = ModelClient(config(server.url, max_in_flight=chance.choice([1, 3, 64])))
        found = await ask_all(client, prompts)
        await client.aclose()
        assert kinds(found) <= {Reply, ProviderError, ServerUnavailable}
        plays(server, lambda prompt, _: None)
        again = ModelClient(config(server.url))
        assert kinds(await ask_all(again, prompts)) == {Reply}
        await again.aclose()


async def test_a_server_that_fails_now_and_then_costs_nothing() -> None:
    """Three of ten calls, by prompt and how often it has come: the same in every run of this test."""

    def script(prompt: str, times: int) -> Any:
        return POISON["500"]() if random.Random(f"{prompt} {times}").random() < 0.3 else None

    async with model_server() as server:
        plays(server, script)
        client = ModelClient(config(server.url, max_attempts=8))
        assert kinds(await ask_all(client, [f"{number}" for number in range(200)])) == {Reply}
        await client.aclose()


@pytest.mark.parametrize("most", [1, 2, 3, 7])
@pytest.mark.parametrize("in_flight", [1, 4, 64])
async def test_no_cap_is_broken_by_controls_and_nothing_waits_for_ever(
    most: int, in_flight: int, tmp_path: Path
) -> None:
    prompts = [f"{number}" for number in range(12)]
    paid = 0

    def script(prompt: str, _: int) -> Any:
        nonlocal paid
        if prompt != CONTROL and int(prompt) % 2:
            return POISON["400"]()
        paid += 1
        return None

    async with model_server() as server:
        plays(server, script)
        for _ in range(3):  # restarts: what was paid before counts
            ledger = SqliteLedger(tmp_path / "calls.sqlite")
            client = ModelClient(config(server.url, caps=Caps(max_calls=most), max_in_flight=in_flight), ledger)
            found = await ask_all(client, prompts)
            assert kinds(found) <= {Reply, PromptRefused, BudgetExceeded}
            await client.aclose()
    assert paid <= most


async def test_each_control_is_counted_over_restarts(tmp_path: Path) -> None:
    async with model_server() as server:
        came = plays(server, lambda prompt, _: None if prompt == CONTROL else POISON["400"]())
        for _ in range(2):
            ledger = SqliteLedger(tmp_path / "calls.sqlite")
            client = ModelClient(config(server.url), ledger)
            with pytest.raises(PromptRefused):
                await client.complete(chat("poison"))
            spent = (await ledger.spent()).calls
            await client.aclose()
    assert spent == came[CONTROL]


async def test_who_gives_up_while_a_control_is_under_way_stops_nobody_else() -> None:
    async with model_server() as server:
        reached = asyncio.Event()

        def script(prompt: str, _: int) -> Any:
            if prompt == CONTROL and not reached.is_set():
                server.gate.clear()
                reached.set()
            return POISON["400"]() if prompt.startswith("poison") else None

        plays(server, script)
        client = ModelClient(config(server.url))
        asking = [asyncio.create_task(client.complete(chat(f"poison {number}"))) for number in range(3)]
        async with asyncio.timeout(20):
            await reached.wait()
            for task in asking[:2]:
                task.cancel()
            await asyncio.wait(asking[:2])
            server.gate.set()
            with pytest.raises(PromptRefused):
                await asking[2]
            assert (await client.complete(chat("good"))).text == "Fritz Lang"
            server.gate.clear()
            last = asyncio.create_task(client.complete(chat("poison 3")))
            await server.reached(server.calls + 1)
            closing = asyncio.create_task(client.aclose())
            await asyncio.sleep(0.01)
            server.gate.set()
            await closing
        with pytest.raises((PromptRefused, ProviderError, asyncio.CancelledError)):
            await last


async def test_out_of_credit_ends_at_once_also_among_refused_prompts() -> None:
    async with model_server() as server:
        came = plays(
            server,
            lambda prompt, _: failure(402, "can only afford 3 tokens") if prompt == "last" else POISON["400"](),
        )
        client = ModelClient(config(server.url))
        with pytest.raises(OutOfCredit):
            await client.complete(chat("last"))
        with pytest.raises(OutOfCredit):
            await client.complete(chat("another"))
        await client.aclose()
    assert came == {"last": 1}
