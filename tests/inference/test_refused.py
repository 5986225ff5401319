"""Refused alone: a prompt that the server refuses while it answers others of its form, before and after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.inference.support import ModelServer, answer, chat, failure, model_server
from tests.inference.test_client import client_of
from trailforge.inference import ChatTurn, Reply, Request, Sampling
from trailforge.inference.budget import Caps
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.inference.request import CONTROL
from trailforge.schemas import BudgetExceeded, OutOfCredit, PromptRefused, ProviderError, ServerUnavailable

POISON = "poison"


class Choosy(ModelServer):
    """Refuses every prompt with a word in it, in its own way; `is_away`: all of them."""

    def __init__(self, refusal: Callable[[], Any] = lambda: failure(500, "device-side assert")) -> None:
        super().__init__()
        self.refusal, self.is_away = refusal, False

    def _planned(self, else_: Callable[[], Any]) -> Any:
        asked = str(self.bodies[-1]) if self.bodies else ""
        return self.refusal() if self.is_away or POISON in asked else else_()

    @property
    def poisoned(self) -> int:
        """How often the word was asked."""
        return sum(POISON in str(body) for body in self.bodies)


@pytest.fixture
async def server() -> AsyncIterator[Choosy]:
    started = Choosy()
    await started.start()
    yield started
    await started.stop()


REFUSALS: dict[str, Callable[[], Any]] = {
    "a 500": lambda: failure(500, "device-side assert"),
    "a filter": lambda: failure(400, "The response was filtered"),
    "a filter with 403": lambda: failure(403, "Your input was flagged"),
    "words that nobody knows": lambda: failure(422, "nein"),
    "a filter inside 200": lambda: {"base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}},
    "what is no reply": lambda: {"choices": []},
}


@pytest.mark.parametrize("how", REFUSALS)
async def test_a_prompt_that_is_refused_alone_is_an_error_of_its_own(server: Choosy, how: str, tmp_path: Path) -> None:
    server.refusal = REFUSALS[how]
    async with client_of(server.url, tmp_path / "ledger.sqlite") as client:
        with pytest.raises(PromptRefused, match="the server refuses this prompt and answers others") as caught:
            await client.complete(chat(POISON))
        said = {"a 500": "device-side assert", "a filter": "was filtered", "words that nobody knows": "nein"}
        assert said.get(how, "") in str(caught.value)
        assert (await client.complete(chat("Who?"))).text == "Fritz Lang"
        assert client.figures["refused_prompts"] == 1
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    assert ledger.get(chat(POISON).key) is None, "nothing is kept of it: it can be asked again"
    ledger.close()


async def test_replies_to_others_show_it_as_well_as_a_control(server: Choosy) -> None:
    async with client_of(server.url, max_attempts=2, backoff_s=0.05) as client:
        asked = [client.complete(chat(text)) for text in (POISON, *map(str, range(40)))]
        ends = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(ends[0], PromptRefused) and all(isinstance(end, Reply) for end in ends[1:])


async def test_an_outage_fails_no_prompt(server: Choosy) -> None:
    """It ends in the server's error, or after it the reply comes."""
    async with client_of(server.url, max_attempts=2) as client:
        await client.complete(chat("before"))
        server.is_away = True
        for _ in range(3):
            with pytest.raises(ServerUnavailable, match="device-side assert, after"):
                await client.complete(chat("Who?"))
        server.is_away = False
        assert (await client.complete(chat("Who?"))).text == "Fritz Lang"


async def test_an_outage_that_ends_before_the_second_look_brings_the_reply(server: Choosy) -> None:
    async with client_of(server.url, max_attempts=1) as client:
        server.refusal = lambda: setattr(server, "is_away", False) or failure(500)
        server.is_away = True
        assert (await client.complete(chat("Who?"))).text == "Fritz Lang"


async def test_what_all_of_one_form_meet_is_no_matter_of_a_prompt(server: Choosy) -> None:
    """Others are answered, with another schema, other roles or another length."""
    wants = '{"type": "object"}'

    def planned(else_: Callable[[], Any]) -> Any:
        return failure(400, "I dislike it") if "response_format" in server.bodies[-1] else else_()

    server._planned = planned  # type: ignore[method-assign]
    async with client_of(server.url) as client:
        await client.complete(chat("before"))
        with pytest.raises(ProviderError, match="refused with status 400: I dislike it") as caught:
            await client.complete(chat("Who?", json_schema=wants))
        assert type(caught.value) is ProviderError
        await client.complete(chat("after"))


async def test_a_control_has_the_form_of_the_prompt_and_none_of_its_words(server: Choosy, tmp_path: Path) -> None:
    turns = tuple(ChatTurn(role=role, content=f"{POISON} {role}") for role in ("system", "user", "assistant", "user"))
    asked = Request(model="some-model", prompt=turns, sampling=Sampling(max_tokens=7, temperature=0.3))
    async with client_of(server.url, tmp_path / "ledger.sqlite", max_attempts=1) as client:
        with pytest.raises(PromptRefused):
            await client.complete(asked)
    control = next(body for body in server.bodies if POISON not in str(body))
    assert [turn["role"] for turn in control["messages"]] == ["system", "user", "assistant", "user"]
    assert (control["max_tokens"], control["temperature"]) == (7, 0.3)
    assert asked.control().form == asked.form and asked.control().purpose == CONTROL


async def test_a_prompt_that_was_refused_is_asked_less_often_the_next_time(server: Choosy) -> None:
    async with client_of(server.url, max_attempts=5) as client:
        for most in (7, 4):
            before = server.poisoned
            with pytest.raises(PromptRefused):
                await client.complete(chat(POISON))
            assert server.poisoned - before == most


async def test_controls_are_paid_within_the_caps(server: Choosy, tmp_path: Path) -> None:
    async with client_of(server.url, tmp_path / "l.sqlite", caps=Caps(max_calls=2), max_attempts=1) as client:
        await client.complete(chat("before"))
        with pytest.raises((BudgetExceeded, PromptRefused)):
            await asyncio.wait_for(client.complete(chat(POISON)), 60)
        with pytest.raises(BudgetExceeded):
            await asyncio.wait_for(client.complete(chat("after")), 60)
    ledger = SqliteLedger(tmp_path / "l.sqlite")
    assert (await ledger.spent()).calls == 2
    ledger.close()


@pytest.mark.parametrize("in_flight", [1, 4])
async def test_at_a_cap_nothing_waits_for_ever(server: Choosy, in_flight: int) -> None:
    async with client_of(server.url, caps=Caps(max_calls=6), max_attempts=1, max_in_flight=in_flight) as client:
        asked = [client.complete(chat(f"{text} {n}")) for n in range(6) for text in (POISON, "Who?")]
        ends = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 60)
    assert all(isinstance(end, Reply | PromptRefused | BudgetExceeded) for end in ends)
    assert sum(isinstance(end, Reply) for end in ends) <= 6


CREDIT = {
    "402": lambda: failure(402, "Insufficient Balance"),
    "a quota of 429": lambda: failure(
        429, "You exceeded your current quota, please check your plan and billing details."
    ),
    "inside a 200": lambda: {"choices": None, "error": {"code": 402, "message": "Insufficient credits"}},
}


@pytest.mark.parametrize("how", CREDIT)
async def test_without_credit_everything_ends_at_once_with_the_servers_words(server: Choosy, how: str) -> None:
    server.refusal, server.is_away = CREDIT[how], True
    async with client_of(server.url, stall_s=600.0) as client:
        ends = await asyncio.gather(*(client.complete(chat(f"{n}")) for n in range(5)), return_exceptions=True)
    assert all(isinstance(end, OutOfCredit) for end in ends)
    assert any(word in str(ends[0]) for word in ("Insufficient", "current quota")) and server.calls <= 5


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (lambda: failure(403, "no scope"), []),
        (lambda: failure(500, "not implemented"), []),
        (lambda: failure(400, "what?"), []),
        (lambda: [{"id": "a"}], ["a"]),
    ],
)
async def test_models_may_be_refused_or_listed_in_any_form(listed: Callable[[], Any], found: list[str]) -> None:
    async with model_server() as plain:
        plain.replies = [listed(), answer(), answer()]
        async with client_of(plain.url) as client:
            assert await client.check() == found
            assert (await client.complete(chat())).text == "Fritz Lang"
