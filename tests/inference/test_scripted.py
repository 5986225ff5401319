"""The scripted model: a client in all but the server."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.inference.support import chat, completion
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.inference import ChatTurn, Meter, Prices, Request
from trailforge.schemas import ContextOverflow

ANSWERS = {"Who directed Metropolis?": "Fritz Lang", "Where was he born?": "in Vienna"}


def by_rule(request: Request) -> str:
    """The reply that the test's table has for a prompt."""
    prompt = prompt_text(request)
    if prompt not in ANSWERS:
        raise LookupError(f"the script has no reply to {prompt!r}")
    return ANSWERS[prompt]


async def test_replies_follow_the_script_and_requests_are_kept_in_order() -> None:
    model = ScriptedModel(by_rule)
    asked = [chat(prompt) for prompt in ANSWERS]
    replies = [await model.complete(request) for request in asked]
    assert [reply.text for reply in replies] == list(ANSWERS.values())
    assert [reply.key for reply in replies] == [request.key for request in asked]
    assert model.requests == asked


async def test_the_script_sees_the_whole_request() -> None:
    model = ScriptedModel(lambda request: f"{request.purpose} {request.sample} {request.grammar}")
    assert (await model.complete(chat(purpose="split", sample=3, grammar="G"))).text == "split 3 G"


async def test_the_same_request_is_answered_once() -> None:
    model, meter = ScriptedModel(by_rule), Meter()
    first = await model.complete(chat(purpose="one"), meter)
    second = await model.complete(chat(purpose="two"), meter)
    assert second.text == first.text
    assert (len(model.requests), model.counters.paid_calls, model.counters.ledger_hits, meter.calls) == (1, 1, 1, 1)


@pytest.mark.parametrize("latency_s", [0.0, 0.01])
async def test_the_same_request_asked_at_once_is_answered_once(latency_s: float) -> None:
    model = ScriptedModel(by_rule, latency_s=latency_s)
    replies = await asyncio.gather(*(model.complete(chat()) for _ in range(5)))
    assert {reply.text for reply in replies} == {"Fritz Lang"}
    assert (len(model.requests), model.counters.paid_calls) == (1, 1)


async def test_another_draw_is_another_request() -> None:
    model = ScriptedModel(lambda request: str(request.sample))
    assert [(await model.complete(chat(sample=n))).text for n in range(3)] == ["0", "1", "2"]


async def test_words_are_counted_as_tokens() -> None:
    model, meter = ScriptedModel(by_rule), Meter()
    await model.complete(chat("Who directed Metropolis?"), meter)
    usage = meter.usage(Prices(prompt_per_million=1e6, completion_per_million=1e6))
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cost) == (3, 2, 5.0)


async def test_a_prompt_that_the_script_does_not_expect_is_its_error_with_its_words() -> None:
    model = ScriptedModel(by_rule)
    with pytest.raises(LookupError, match="no reply to 'Who is he\\?'"):
        await model.complete(chat("Who is he?"))
    assert [prompt_text(request) for request in model.requests] == ["Who is he?"]


async def test_a_script_may_fail_as_a_server_would_and_then_answer() -> None:
    left = [ContextOverflow("too long"), "Lang"]

    def script(_: Request) -> str:
        reply = left.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return str(reply)

    model = ScriptedModel(script)
    with pytest.raises(ContextOverflow):
        await model.complete(chat())
    assert (await model.complete(chat())).text == "Lang"
    assert len(model.requests) == 2


async def test_calls_with_latency_run_side_by_side() -> None:
    model = ScriptedModel(lambda _: "x", latency_s=0.5)
    started = time.monotonic()
    await asyncio.gather(*(model.complete(chat(sample=n)) for n in range(20)))
    assert 0.5 <= time.monotonic() - started < 20 * 0.5 / 2  # one after the other takes twice as long at least


async def test_it_can_be_checked_and_closed_as_any_client() -> None:
    model = ScriptedModel(by_rule)
    assert await model.check() == ["scripted"]
    await model.aclose()


def test_a_scripted_model_serves_one_event_loop_after_another() -> None:
    model = ScriptedModel(by_rule)
    texts = [asyncio.run(model.complete(chat(prompt))).text for prompt in (*ANSWERS, *ANSWERS)]
    assert texts == [*ANSWERS.values(), *ANSWERS.values()]
    assert len(model.requests) == 2


def test_the_text_of_a_prompt_is_its_turns_one_below_the_other() -> None:
    turns = (ChatTurn(role="system", content="Be brief."), ChatTurn(role="user", content="Who?"))
    assert prompt_text(chat(prompt=turns)) == "Be brief.\nWho?"
    assert prompt_text(completion("Who?")) == "Who?"
