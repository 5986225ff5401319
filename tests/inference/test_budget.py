"""Caps: never over, stopped in order, and the same after a restart."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inference.support import ModelServer, answer, chat, completion, config, failure, model_server, reply_to
from trailforge.inference import Caps, ModelClient, Prices, Usage
from trailforge.inference.budget import Budget, Reservation, worst_case
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.schemas import BudgetExceeded, ProviderError

PRICES = Prices(prompt_per_million=1e6, completion_per_million=2e6)
"""One and two a token."""


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as started:
        yield started


def client_of(server: ModelServer, ledger: Path | None = None, *, caps: Caps, **changes: Any) -> ModelClient:
    return ModelClient(config(server.url, caps=caps, **changes), SqliteLedger(ledger) if ledger else None)


async def ask_all(client: ModelClient, count: int) -> list[Any]:
    """So many different calls at once; replies and errors."""
    try:
        return await asyncio.gather(*(client.complete(chat(str(n))) for n in range(count)), return_exceptions=True)
    finally:
        await client.aclose()


def answered(replies: list[Any]) -> int:
    assert {type(reply).__name__ for reply in replies} <= {"Reply", "BudgetExceeded"}
    return sum(not isinstance(reply, Exception) for reply in replies)


# The arithmetic


@given(
    caps=st.builds(
        Caps,
        max_calls=st.none() | st.integers(0, 40),
        max_tokens=st.none() | st.integers(0, 20_000),
        max_cost=st.none() | st.floats(0, 30_000),
    ),
    sizes=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 500), st.floats(0, 1)), max_size=40),
)
def test_no_cap_is_ever_passed_and_a_stop_means_that_the_next_call_did_not_fit(
    caps: Caps, sizes: list[tuple[int, int, float]]
) -> None:
    """Calls of any size, of which any share of the room is used, many under way at once."""
    budget = Budget(caps, PRICES, None)
    spent, refused = [Usage()], []

    async def call(number: int, prompt: int, room: int, used: float) -> None:
        request = chat("x" * prompt, sample=number)
        request = type(request)(**{**request.__dict__, "sampling": type(request.sampling)(max_tokens=room)})
        worst = worst_case(request)
        try:
            async with budget.reserved(request) as reservation:
                await asyncio.sleep(0)
                reply = reply_to(
                    request,
                    prompt_tokens=int(worst.prompt_tokens * used),
                    completion_tokens=int(worst.completion_tokens * used),
                )
                reservation.settle(reply)
                spent[0] += reservation.usage
        except BudgetExceeded:
            refused.append((worst, spent[0]))

    async def all_calls() -> None:
        await asyncio.gather(*(call(n, *size) for n, size in enumerate(sizes)))

    asyncio.run(all_calls())
    assert fits(caps, spent[0])
    for worst, before in refused:
        assert not fits(caps, before + worst)


def fits(caps: Caps, usage: Usage) -> bool:
    figures = ((caps.max_calls, usage.calls), (caps.max_tokens, usage.tokens), (caps.max_cost, PRICES.cost(usage)))
    return all(cap is None or figure <= cap for cap, figure in figures)


def test_the_worst_case_is_the_prompt_estimated_high_and_all_the_room() -> None:
    for request in (chat("Who directed Metropolis? " * 50), completion("Wer führte Regie? " * 50)):
        worst = worst_case(request)
        assert worst.calls == 1 and worst.completion_tokens == 256
        assert worst.prompt_tokens > 400


class _Counting(Reservation):
    """Counts how often anybody looks at it."""

    looks = 0

    @property
    def usage(self) -> Usage:
        type(self).looks += 1
        return super().usage

    @usage.setter
    def usage(self, usage: Usage) -> None:
        type(self).looks += 1
        Reservation.usage.__set__(self, usage)


async def test_a_call_looks_at_none_of_those_under_way() -> None:
    """Thousands wait to be sent: a sum over all of them for each would take the scheduler of a cluster all its time."""
    budget = Budget(Caps(max_calls=1_000), Prices(), None)
    async with AsyncExitStack() as under_way:
        for number in range(300):
            await under_way.enter_async_context(budget.held(_Counting(worst_case(chat(sample=number)))))
        assert _Counting.looks <= 2 * 300
    async with budget.reserved(chat()):
        pass


async def test_a_call_that_fails_gives_its_share_back() -> None:
    budget = Budget(Caps(max_calls=1), Prices(), None)
    with pytest.raises(ProviderError):
        async with budget.reserved(chat()):
            raise ProviderError("no")
    async with budget.reserved(chat()) as reservation:
        reservation.settle(reply_to(chat()))
    with pytest.raises(BudgetExceeded):
        async with budget.reserved(chat()):
            pass


def test_what_was_reported_counts_as_it_is_but_never_below_nothing() -> None:
    for sent, received, counted in ((10**6, 900, 10**6 + 900), (-50, 7, 7), (7, -50, 7), (-1, -1, 0)):
        reservation = Reservation(worst_case(chat()))
        reservation.settle(reply_to(chat(), prompt_tokens=sent, completion_tokens=received))
        assert reservation.usage.tokens == counted and reservation.usage.calls == 1


async def test_a_call_that_ends_while_the_ledger_is_asked_makes_room() -> None:
    """A shared ledger answers late. What was under way when it was asked must not end the run."""
    asked, answers = asyncio.Event(), asyncio.Event()
    answers.set()

    async def kept() -> Usage:
        asked.set()
        await answers.wait()
        return Usage()

    budget = Budget(Caps(max_calls=1), Prices(), kept)

    async def call() -> None:
        async with budget.reserved(chat()):
            pass

    with suppress(ProviderError):
        async with budget.reserved(chat()):
            asked.clear()
            answers.clear()
            second = asyncio.create_task(call())
            await asked.wait()
            raise ProviderError("no")
    answers.set()
    await asyncio.wait_for(second, 60)


# The client


@pytest.mark.parametrize("kept", [True, False])
async def test_exactly_the_calls_that_are_allowed_are_made(server: ModelServer, tmp_path: Path, kept: bool) -> None:
    client = client_of(server, tmp_path / "ledger.sqlite" if kept else None, caps=Caps(max_calls=17))
    replies = await ask_all(client, 60)
    assert answered(replies) == server.calls == client.counters.paid_calls == 17
    error = next(reply for reply in replies if isinstance(reply, BudgetExceeded))
    assert "the cap on calls is reached: 17 of 17 spent" in str(error) and "raise --max-calls" in str(error)
    assert error.exit_code == 7


async def test_tokens_and_cost_stay_below_their_caps_and_come_near(server: ModelServer, tmp_path: Path) -> None:
    """A call takes 11 + 3 tokens at a price of 17, and could take 16 + 256."""
    for name, caps in (("t", Caps(max_tokens=1000)), ("c", Caps(max_cost=1500.0))):
        ledger = tmp_path / f"{name}.sqlite"
        replies = await ask_all(client_of(server, ledger, caps=caps, prices=PRICES), 300)
        kept = SqliteLedger(ledger)
        spent = await kept.spent()
        kept.close()
        assert spent.calls == answered(replies)
        assert fits(caps, spent)
        assert spent.tokens > 1000 - 14 - 272 if caps.max_tokens else PRICES.cost(spent) > 1500 - 17 - 528


async def test_what_was_spent_counts_after_a_restart_and_what_is_kept_costs_nothing(
    server: ModelServer, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.sqlite"
    assert answered(await ask_all(client_of(server, ledger, caps=Caps(max_calls=10)), 30)) == 10
    assert answered(await ask_all(client_of(server, ledger, caps=Caps(max_calls=10)), 30)) == 10
    assert server.calls == 10
    assert answered(await ask_all(client_of(server, ledger, caps=Caps(max_calls=25)), 30)) == 25
    assert server.calls == 25
    assert answered(await ask_all(client_of(server, ledger, caps=Caps()), 30)) == 30
    assert server.calls == 30


async def test_refusals_and_failures_are_not_paid_for(server: ModelServer, tmp_path: Path) -> None:
    server.replies = [failure(429), failure(500), answer(), failure(429), failure(503)]
    client = client_of(server, tmp_path / "ledger.sqlite", caps=Caps(max_calls=3), max_in_flight=1)
    assert answered(await ask_all(client, 5)) == 3
    assert server.calls == 7


async def test_a_ledger_of_an_earlier_version_is_counted_when_it_is_opened(server: ModelServer, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    await ask_all(client_of(server, path, caps=Caps()), 12)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE spent")
        connection.execute("DROP TABLE complete")
    ledger = SqliteLedger(path)
    assert await ledger.spent() == Usage(calls=12, prompt_tokens=12 * 11, completion_tokens=12 * 3)
    ledger.close()


def _worker(url: str, path: str, first: int) -> None:
    """A process that asks for 40 things of its own."""

    async def ask() -> None:
        client = ModelClient(config(url, caps=Caps(max_calls=50), max_in_flight=4), SqliteLedger(Path(path)))
        for begin in range(first, first + 40, 4):
            await asyncio.gather(
                *(client.complete(chat(str(n))) for n in range(begin, begin + 4)), return_exceptions=True
            )
        await client.aclose()

    asyncio.run(ask())


async def test_processes_that_share_a_ledger_go_over_by_what_they_have_in_flight_at_most(
    server: ModelServer, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_worker, args=(server.url, str(tmp_path / "ledger.sqlite"), n * 40)) for n in range(2)
    ]
    for worker in workers:
        worker.start()
    await asyncio.gather(*(asyncio.to_thread(worker.join) for worker in workers))
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert 50 <= server.calls <= 50 + 4
