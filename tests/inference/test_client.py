"""The client: what it sends, retries, shares, keeps and says."""

from __future__ import annotations

import asyncio
import email.utils
import json
import logging
import math
import sqlite3
import sys
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.inference.support import ModelServer, answer, chat, completion, config, failure, model_server, reply_to
from tests.support.model_server import fail_next, running, stats
from trailforge.inference import ChatTurn, Meter, ModelClient, Prices, Reply, Request, Sampling, Usage, ask_json
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.inference.provider import wire
from trailforge.inference.provider.endpoint import retry_after
from trailforge.schemas import ContextOverflow, InvalidInput, OutputError, ProviderError, ServerUnavailable, Stalled

SECRET = "sk-0123456789abcdef-secret"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as started:
        yield started


@asynccontextmanager
async def client_of(url: str, ledger: Path | None = None, **changes: Any) -> AsyncIterator[ModelClient]:
    client = ModelClient(config(url, **changes), SqliteLedger(ledger) if ledger else None)
    try:
        yield client
    finally:
        await client.aclose()


def ledger_text(path: Path) -> str:
    """All that a ledger holds: its files as they are, and its values unpacked."""
    connection = sqlite3.connect(path)
    values = [zstandard.decompress(value).decode() for (value,) in connection.execute("SELECT value FROM calls")]
    connection.close()
    files = [file.read_bytes().decode("latin-1") for file in path.parent.iterdir()]
    return "\n".join(values + files)


# What is sent, and what is read from the reply


async def test_a_chat_is_sent_as_turns_and_its_reply_is_read(server: ModelServer) -> None:
    request = chat(
        prompt=(ChatTurn(role="system", content="Be brief."), ChatTurn(role="user", content="Who?")),
        sampling=Sampling(temperature=0.7, top_p=0.9, max_tokens=12, stop=("\n",)),
    )
    async with client_of(server.url) as client:
        reply = await client.complete(request)
    assert server.paths == ["/v1/chat/completions"]
    assert server.bodies == [
        {
            "model": "some-model",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}],
            "temperature": 0.7,
            "top_p": 0.9,
            "max_tokens": 12,
            "stop": ["\n"],
            "seed": request.sampling_seed,
        }
    ]
    assert reply == reply_to(request, "Fritz Lang", prompt_tokens=11, completion_tokens=3)


async def test_a_text_is_sent_to_the_completions_endpoint(server: ModelServer) -> None:
    async with client_of(server.url) as client:
        reply = await client.complete(completion("Metropolis was directed by"))
    assert server.paths == ["/v1/completions"]
    assert server.bodies[0]["prompt"] == "Metropolis was directed by"
    assert "messages" not in server.bodies[0]
    assert reply.text == "Fritz Lang"


async def test_half_an_emoji_in_a_prompt_does_not_stop_the_run(server: ModelServer) -> None:
    """A model may write one in a JSON escape, and UTF-8 cannot hold it."""
    async with client_of(server.url) as client:
        await client.complete(chat("half \ud83d, and é 🙂"))
        await client.complete(completion("half \ud83d, and é 🙂"))
    assert server.bodies[0]["messages"][0]["content"] == "half ?, and é 🙂"
    assert server.bodies[1]["prompt"] == "half ?, and é 🙂"


async def test_half_an_emoji_in_a_reply_becomes_something_that_files_take(server: ModelServer) -> None:
    server.replies = [answer("half \ud83d, and é 🙂", reasoning_content="\ud83d")]
    async with client_of(server.url) as client:
        reply = await client.complete(chat())
    assert (reply.text, reply.reasoning) == ("half ?, and é 🙂", "?")


async def test_draws_of_one_prompt_are_calls_of_their_own_with_seeds_of_their_own(server: ModelServer) -> None:
    async with client_of(server.url) as client:
        await asyncio.gather(*(client.complete(chat(sample=sample)) for sample in range(5)))
    assert len({body["seed"] for body in server.bodies}) == 5


@pytest.mark.parametrize(
    ("dialect", "sent"),
    [
        ("openai", {"grammar": "G"}),
        ("llama_cpp", {"grammar": "G"}),
        ("vllm", {"structured_outputs": {"grammar": "G"}}),
    ],
)
async def test_a_grammar_is_sent_as_the_server_wants_it(server: ModelServer, dialect: str, sent: dict) -> None:
    async with client_of(server.url, dialect=dialect) as client:
        await client.complete(chat(grammar="G"))
    assert sent.items() <= server.bodies[0].items()


@pytest.mark.parametrize(
    ("dialect", "sent"),
    [
        ("llama_cpp", {"json_schema": {"type": "object"}}),
        ("vllm", {"structured_outputs": {"json": {"type": "object"}}}),
    ],
)
async def test_a_schema_for_a_text_is_sent_as_the_server_wants_it(
    server: ModelServer, dialect: str, sent: dict
) -> None:
    async with client_of(server.url, dialect=dialect) as client:
        await client.complete(completion(json_schema='{"type": "object"}'))
    assert sent.items() <= server.bodies[0].items()


async def test_a_schema_for_a_chat_is_sent_as_a_response_format(server: ModelServer) -> None:
    async with client_of(server.url) as client:
        await client.complete(chat(json_schema='{"type": "object"}'))
    sent = server.bodies[0]["response_format"]
    assert sent["type"] == "json_schema" and sent["json_schema"]["schema"] == {"type": "object"}


LIMITED = {
    "type": "object",
    "properties": {
        "splits": {"type": "array", "items": {"type": "string", "minLength": 1, "pattern": "a"}, "minItems": 1},
        "minItems": {"anyOf": [{"type": "integer", "minimum": 1}, {"$ref": "#/$defs/a"}]},
        "answer": {"type": "string", "enum": ["minimum"]},
    },
    "required": ["splits", "minItems", "answer"],
    "additionalProperties": False,
    "$defs": {"a": {"type": "number", "maximum": 2}},
}
UNLIMITED = {
    "type": "object",
    "properties": {
        "splits": {"type": "array", "items": {"type": "string"}},
        "minItems": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/a"}]},
        "answer": {"type": "string", "enum": ["minimum"]},
    },
    "required": ["splits", "minItems", "answer"],
    "additionalProperties": False,
    "$defs": {"a": {"type": "number"}},
}


@pytest.mark.parametrize(("dialect", "sent"), [("openai", UNLIMITED), ("vllm", LIMITED), ("llama_cpp", LIMITED)])
async def test_a_strict_schema_has_no_keyword_that_strict_mode_refuses(
    server: ModelServer, dialect: str, sent: dict
) -> None:
    async with client_of(server.url, dialect=dialect) as client:
        await client.complete(chat(json_schema=json.dumps(LIMITED)))
    assert server.bodies[0]["response_format"]["json_schema"] == {"name": "reply", "schema": sent, "strict": True}


@pytest.mark.parametrize("dialect", ["openai", "vllm"])
async def test_fields_reach_the_server_in_the_order_in_which_they_are_declared(
    server: ModelServer, dialect: str
) -> None:
    server.replies = [answer('{"thought": "so", "answer": "Lang"}')]
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"thought": text, "answer": text}, "required": ["thought", "answer"]}
    async with client_of(server.url, dialect=dialect) as client:
        await ask_json(client, chat(), schema)
    sent = server.bodies[0]["response_format"]["json_schema"]["schema"]
    assert list(sent["properties"]) == ["thought", "answer"]


async def test_parameters_of_the_server_are_sent_and_are_part_of_the_key(server: ModelServer, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    for extra in ('{"top_k": 1}', '{"top_k": 2}', '{"top_k": 1}'):
        async with client_of(server.url, path, extra_body=extra) as client:
            await client.complete(chat())
    assert [body["top_k"] for body in server.bodies] == [1, 2]


async def test_usage_is_read_from_the_reply(server: ModelServer) -> None:
    server.replies = [answer(usage=(1000, 50)), answer(usage=(500, 7))]
    meter = Meter()
    async with client_of(server.url) as client:
        await client.complete(chat("one"), meter)
        await client.complete(chat("two"), meter)
    usage = meter.usage(Prices(prompt_per_million=1.0))
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (2, 1500, 57)
    assert usage.cost == pytest.approx(0.0015)


async def test_a_server_that_tells_no_usage_is_charged_by_our_own_count(server: ModelServer) -> None:
    server.replies = [answer(usage=None)]
    async with client_of(server.url) as client:
        reply = await client.complete(chat())
        assert client.figures["disbelieved_usage"] == 1
    assert (reply.prompt_tokens, reply.completion_tokens) == (28, 5)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thoughts_that_are_sent_apart_stay_apart(server: ModelServer, field: str) -> None:
    message: dict[str, Any] = {field: "It was Lang."}
    server.replies = [answer("Lang", **message)]
    async with client_of(server.url) as client:
        reply = await client.complete(chat())
    assert (reply.text, reply.reasoning) == ("Lang", "It was Lang.")


async def test_an_empty_reply_is_an_empty_text(server: ModelServer) -> None:
    body = answer()
    body["choices"][0]["message"]["content"] = None
    server.replies = [body]
    async with client_of(server.url) as client:
        assert (await client.complete(chat())).text == ""


# Retries


async def test_a_429_is_asked_again_after_the_time_that_the_server_names(server: ModelServer) -> None:
    server.replies = [failure(429, **{"Retry-After": "0.25"})]
    async with client_of(server.url, backoff_s=900.0) as client:  # a wait of our own would not end
        started = time.monotonic()
        reply = await client.complete(chat())
        waited = time.monotonic() - started
    assert reply.text == "Fritz Lang"
    assert waited >= 0.25
    assert (server.calls, client.counters.retries, client.counters.paid_calls) == (2, 1, 1)
    assert server.bodies[0] == server.bodies[1]


async def test_without_a_time_from_the_server_the_wait_is_our_own(server: ModelServer) -> None:
    server.replies = [failure(429)]
    async with client_of(server.url, backoff_s=0.3) as client:
        started = time.monotonic()
        await client.complete(chat())
    assert time.monotonic() - started >= 0.15


@pytest.mark.parametrize("status", [408, 409, 425, 500, 502, 503, 529])
async def test_a_passing_failure_is_asked_again(server: ModelServer, status: int) -> None:
    server.replies = [failure(status), failure(status)]
    async with client_of(server.url) as client:
        assert (await client.complete(chat())).text == "Fritz Lang"
    assert (server.calls, client.counters.retries) == (3, 2)


def test_a_connection_that_breaks_is_asked_again() -> None:
    request = chat("Which of the questions below can be divided?\nQuestions:\n1. What is the editor of Morvak?")

    async def ask(url: str) -> tuple[str, int]:
        async with client_of(url) as client:
            return (await client.complete(request)).text, client.counters.retries

    with running() as url:
        fail_next(url, {"drop": True})
        assert asyncio.run(ask(url)) == ("No", 1)
        assert stats(url)["calls"] == 1


async def test_a_server_that_stays_at_429_stalls_the_run_with_a_mend(server: ModelServer) -> None:
    server.replies = [failure(429) for _ in range(10_000)]
    async with client_of(server.url, stall_s=0.5) as client:
        with pytest.raises(Stalled, match=r"no reply for 0\.5 s .*status 429.*run the same command again") as caught:
            await client.complete(chat())
    assert server.url in str(caught.value)
    assert server.calls > 3


async def test_a_server_that_stays_at_500_is_unavailable(server: ModelServer) -> None:
    server.always = lambda: failure(500, "no kernel image")
    async with client_of(server.url) as client:
        with pytest.raises(ServerUnavailable, match="status 500: no kernel image, after 3 attempts; see to it"):
            await client.complete(chat())
    assert server.calls == 5  # of the prompt, then of a control


async def test_a_call_that_failed_is_made_anew_when_it_is_asked_again(server: ModelServer, tmp_path: Path) -> None:
    server.always = lambda: failure(500)
    async with client_of(server.url, tmp_path / "ledger.sqlite", max_attempts=1) as client:
        with pytest.raises(ServerUnavailable):
            await client.complete(chat())
        server.always = None
        assert (await client.complete(chat())).text == "Fritz Lang"


async def test_waiting_for_a_retry_holds_no_slot(server: ModelServer) -> None:
    server.replies = [failure(429, **{"Retry-After": "0.5"})]
    async with client_of(server.url, max_in_flight=1) as client:
        waiting = asyncio.create_task(client.complete(chat("first")))
        await server.reached(1)
        await client.complete(chat("second"))
        assert not waiting.done()
        await waiting
    assert [body["messages"][0]["content"] for body in server.bodies] == ["first", "second", "first"]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_the_time_that_a_server_names_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_that_a_server_names_is_read_as_the_time_until_then() -> None:
    then = email.utils.formatdate(time.time() + 90, usegmt=True)
    assert retry_after({"retry-after": then}) == pytest.approx(90, abs=5)


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text() | st.floats().map(str)))
def test_no_header_makes_the_client_fail_or_wait_for_ever(headers: dict[str, str]) -> None:
    seconds = retry_after(headers)
    assert seconds is None or (seconds >= 0 and math.isfinite(seconds))


# Errors


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens.",
        "the request exceeds the available context size, try increasing it",
        "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)",  # vLLM: it fills the window exactly
    ],
)
async def test_a_prompt_that_is_too_long_is_an_error_of_one_item(server: ModelServer, message: str) -> None:
    server.replies = [failure(400, message)]
    async with client_of(server.url) as client:
        with pytest.raises(ContextOverflow, match="too long for the model"):
            await client.complete(chat())
    assert server.calls == 1


async def test_an_overflow_that_only_the_error_type_tells_is_seen(server: ModelServer) -> None:
    body = {"error": {"code": 400, "message": "too many tokens", "type": "exceed_context_size_error"}}
    server.replies = [web.json_response(body, status=400)]
    async with client_of(server.url) as client:
        with pytest.raises(ContextOverflow):
            await client.complete(chat())


async def test_another_bad_request_is_not_taken_for_an_overflow(server: ModelServer) -> None:
    server.always = lambda: failure(400, "temperature must not be negative")
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError, match=r"status 400.*temperature must not be negative") as caught:
            await client.complete(chat())
    assert not isinstance(caught.value, ContextOverflow)
    assert server.url in str(caught.value)
    assert server.calls == 2  # of the prompt, and of a control


@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_refused_is_an_error_that_does_not_tell_it(
    server: ModelServer, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAILFORGE_API_KEY", SECRET)
    server.always = lambda: failure(status, f"Incorrect API key provided: {SECRET}")
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError, match=r"provided: <key>.*set TRAILFORGE_API_KEY") as caught:
            await client.complete(chat())
    assert set(server.keys) == {f"Bearer {SECRET}"}
    assert SECRET not in f"{caught.value}{caught.value!r}"
    assert server.calls == (1 if status == 401 else 2)  # a filter refuses with 403, too


@pytest.mark.parametrize("status", [400, 429, 500])
async def test_a_key_that_the_server_repeats_is_in_no_traceback(
    server: ModelServer, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect logs whole tracebacks, causes included, and keeps them in its database."""
    monkeypatch.setenv("TRAILFORGE_API_KEY", SECRET)
    server.replies = [failure(status, f"what is {SECRET}?")] * 1000
    async with client_of(server.url, max_attempts=2, stall_s=0.3) as client:
        with pytest.raises((ProviderError, Stalled)) as caught:
            await client.complete(chat())
    assert SECRET not in "".join(traceback.format_exception(caught.value))


async def test_a_wrong_path_or_model_names_both(server: ModelServer) -> None:
    server.always = lambda: failure(404, "The model `some-model` does not exist.")
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError, match=r"not found; check the URL .*--model-name") as caught:
            await client.complete(chat())
    assert server.url in str(caught.value) and "some-model" in str(caught.value)


async def test_a_refused_connection_names_the_url_and_a_mend(server: ModelServer) -> None:
    await server.stop()
    async with client_of(server.url) as client:
        with pytest.raises(ServerUnavailable, match=r"start it \(or use --model embedded\)") as caught:
            await client.complete(chat())
    assert server.url in str(caught.value)
    assert "connect" in str(caught.value).lower() and "timed out" not in str(caught.value)
    assert client.counters.retries == 3  # two of the prompt, one of a control
    assert client.counters.paid_calls == 0


async def test_a_server_that_never_answers_is_given_up(server: ModelServer) -> None:
    server.gate.clear()
    async with client_of(server.url, timeout_s=0.1, max_attempts=2) as client:
        with pytest.raises(ServerUnavailable, match="no reply after 2 attempts"):
            await client.complete(chat())
        assert client.counters.in_flight == 0
    assert server.calls == 4


NOT_A_REPLY = {
    "a web page": lambda: web.Response(text="<html>Welcome</html>", content_type="text/html"),
    "no choices": lambda: web.json_response({"object": "chat.completion"}),
    "an empty list of choices": lambda: web.json_response(answer() | {"choices": []}),
    "a list": lambda: web.json_response([]),
    "half a reply": lambda: web.Response(text=json.dumps(answer())[:40], content_type="application/json"),
    "nothing": lambda: web.Response(text="", content_type="application/json"),
}


@pytest.mark.parametrize("what", NOT_A_REPLY)
@pytest.mark.parametrize("ask", [chat, completion])
async def test_what_is_no_reply_is_an_error_that_names_the_url(server: ModelServer, what: str, ask: Any) -> None:
    server.always = NOT_A_REPLY[what]
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError, match="no OpenAI-compatible reply; check the URL") as caught:
            await client.complete(ask())
        assert server.url in str(caught.value)
        assert server.calls == 5
        assert client.counters.in_flight == 0


async def test_a_gateway_that_sends_its_error_as_200_is_asked_again(server: ModelServer) -> None:
    server.replies = [web.json_response({"error": {"message": "overloaded", "code": 502}})]
    async with client_of(server.url) as client:
        assert (await client.complete(chat())).text == "Fritz Lang"
    assert client.counters.retries == 1


# Bounds and sharing


async def test_never_more_calls_are_in_flight_than_allowed(server: ModelServer) -> None:
    async with client_of(server.url, max_in_flight=3) as client:
        await asyncio.gather(*(client.complete(chat(str(n))) for n in range(30)))
    assert server.most_in_flight == 3
    assert server.calls == client.counters.paid_calls == 30
    assert client.counters.in_flight == 0


async def test_the_bound_holds_while_calls_fail_and_are_repeated(server: ModelServer) -> None:
    server.replies = [failure(500) if n % 2 else answer() for n in range(20)]
    async with client_of(server.url, max_in_flight=3, max_attempts=20) as client:
        await asyncio.gather(*(client.complete(chat(str(n))) for n in range(20)))
    assert server.most_in_flight == 3
    assert client.counters.in_flight == 0


@pytest.mark.parametrize("kept", [True, False])
async def test_the_same_request_asked_twice_at_once_is_one_call(
    server: ModelServer, tmp_path: Path, kept: bool
) -> None:
    meter = Meter()
    async with client_of(server.url, tmp_path / "ledger.sqlite" if kept else None) as client:
        replies = await asyncio.gather(*(client.complete(chat(purpose=str(n)), meter) for n in range(10)))
    assert server.calls == client.counters.paid_calls == meter.calls == 1
    assert {reply.text for reply in replies} == {"Fritz Lang"}


async def test_an_error_reaches_all_who_share_the_call(server: ModelServer) -> None:
    server.always = lambda: failure(400, "no")
    async with client_of(server.url) as client:
        outcomes = await asyncio.gather(*(client.complete(chat()) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ProviderError] * 3
    assert server.calls == 2


async def test_a_caller_who_leaves_does_not_take_the_call_from_the_others(server: ModelServer, tmp_path: Path) -> None:
    server.gate.clear()
    async with client_of(server.url, tmp_path / "ledger.sqlite") as client:
        first, second = (asyncio.create_task(client.complete(chat())) for _ in range(2))
        await server.reached(1)
        first.cancel()
        await asyncio.sleep(0)
        server.gate.set()
        assert (await asyncio.wait_for(second, 60)).text == "Fritz Lang"
        assert first.cancelled()
    assert server.calls == 1


async def test_a_call_that_nobody_waits_for_any_more_is_finished_and_kept(server: ModelServer, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    server.gate.clear()
    async with client_of(server.url, path) as client:
        asked = asyncio.create_task(client.complete(chat()))
        await server.reached(1)
        asked.cancel()
        await asyncio.sleep(0)
        server.gate.set()  # closing the client waits for it
    async with client_of(server.url, path) as client:
        assert (await client.complete(chat())).from_ledger
    assert server.calls == 1


async def test_callers_who_leave_free_their_slots(server: ModelServer) -> None:
    server.gate.clear()
    async with client_of(server.url, max_in_flight=2) as client:
        asked = [asyncio.create_task(client.complete(chat(str(n)))) for n in range(6)]
        await server.reached(2)
        for task in asked:
            task.cancel()
        server.gate.set()
        assert (await asyncio.wait_for(client.complete(chat("after")), 60)).text == "Fritz Lang"
        assert server.most_in_flight == 2


async def test_closing_does_not_wait_for_ever(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trailforge.inference.client._CLOSING_S", 0.1)
    server.gate.clear()
    client = ModelClient(config(server.url))
    asked = asyncio.create_task(client.complete(chat()))
    await server.reached(1)
    await asyncio.wait_for(client.aclose(), 60)
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_closing_sends_nothing_more_of_what_waits_for_a_slot(server: ModelServer) -> None:
    client = ModelClient(config(server.url, max_in_flight=1))
    server.gate.clear()
    asked = [asyncio.create_task(client.complete(chat(str(n)))) for n in range(5)]
    await server.reached(1)
    closing = asyncio.create_task(client.aclose())
    await asyncio.sleep(0)
    server.gate.set()
    await closing
    replies = await asyncio.gather(*asked, return_exceptions=True)
    assert server.calls == 1
    assert [isinstance(reply, ServerUnavailable) for reply in replies] == [False, True, True, True, True]


async def test_a_longer_max_tokens_pays_for_the_cut_replies_alone(server: ModelServer, tmp_path: Path) -> None:
    whole, cut = answer("Fritz Lang"), answer("Fritz", usage=(11, 4))
    cut["choices"][0]["finish_reason"] = "length"
    server.replies = [whole, whole, cut, cut, cut, *[cut] * 3, *[whole] * 3]
    asked: list[int] = []
    for longest, redo in ((4, 0), (4, 1), (4, 1), (16, 1), (16, 2)):
        client = ModelClient(config(server.url, redo=redo), SqliteLedger(tmp_path / "ledger.sqlite"))
        before = server.calls
        for text in ("short 1", "short 2", "long 1", "long 2", "long 3"):
            await client.complete(chat(text, sampling=Sampling(max_tokens=longest)))
        await client.aclose()
        asked.append(server.calls - before)
    assert asked == [5, 3, 0, 3, 0] and not server.replies


async def test_a_ledger_that_cannot_keep_a_reply_stops_further_calls(server: ModelServer) -> None:
    class FullDisk:
        """A ledger that holds nothing and takes nothing."""

        damaged: frozenset[str] = frozenset()

        async def find(self, key: str) -> None:
            return None

        async def find_complete(self, request: Request) -> None:
            return None

        async def put(self, request: Request, reply: Reply) -> Reply:
            raise OutputError("the disk is full")

        async def spent(self) -> Usage:
            return Usage()

        async def aclose(self) -> None: ...

    client = ModelClient(config(server.url, max_in_flight=2), FullDisk())
    replies = await asyncio.gather(*(client.complete(chat(str(n))) for n in range(20)), return_exceptions=True)
    await client.aclose()
    assert all(isinstance(reply, OutputError) for reply in replies)
    assert server.calls <= 4


# The ledger


async def test_what_is_in_the_ledger_is_not_asked_again(server: ModelServer, tmp_path: Path) -> None:
    path, requests = tmp_path / "ledger.sqlite", [chat(str(n)) for n in range(20)]
    server.replies = [answer(f"reply {n}", usage=(n, 1)) for n in range(20)]
    first_meter, second_meter = Meter(), Meter()
    async with client_of(server.url, path, max_in_flight=1) as client:
        first = [await client.complete(request, first_meter) for request in requests]
    async with client_of(server.url, path) as client:
        second = await asyncio.gather(*(client.complete(request, second_meter) for request in requests))
        assert (client.counters.paid_calls, client.counters.ledger_hits) == (0, 20)
    assert server.calls == 20
    assert [reply.text for reply in second] == [reply.text for reply in first]
    assert all(reply.from_ledger for reply in second) and not any(reply.from_ledger for reply in first)
    assert second_meter.usage(Prices()) == first_meter.usage(Prices())


async def test_a_replay_needs_no_server(server: ModelServer, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    async with client_of(server.url, path) as client:
        paid = await client.complete(chat())
    await server.stop()
    async with client_of(server.url, path) as client:
        assert (await client.complete(chat())).text == paid.text
        with pytest.raises(ServerUnavailable):
            await client.complete(chat("never asked"))


async def test_a_reply_is_kept_before_its_caller_sees_it(server: ModelServer, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    async with client_of(server.url, path) as client:
        await client.complete(chat())
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT key FROM calls").fetchall() == [(chat().key,)]
        connection.close()


async def test_a_failure_is_not_kept(server: ModelServer, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    server.always = lambda: failure(400, "no")
    async with client_of(server.url, path) as client:
        with pytest.raises(ProviderError):
            await client.complete(chat())
    ledger = SqliteLedger(path)
    assert ledger.entries() == 0
    ledger.close()


# The key


@pytest.mark.parametrize("variable", ["TRAILFORGE_API_KEY", "OPENAI_API_KEY"])
async def test_the_key_reaches_the_server_and_nothing_else(
    variable: str,
    server: ModelServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, SECRET)
    caplog.set_level(logging.DEBUG)
    path, said = tmp_path / "ledger.sqlite", []
    async with client_of(server.url, path, max_attempts=2) as client:
        said.append(repr(await client.complete(chat())))
        said.append(repr(await client.complete(completion())))
        await client.check()
        server.replies = [failure(429, f"your header was Bearer {SECRET}")]
        said.append(repr(await client.complete(chat("asked again"))))
        for status in (400, 401, 404, 422, 500):
            server.always = partial(failure, status, f"your header was Bearer {SECRET}")
            with pytest.raises(ProviderError) as caught:
                await client.complete(chat(f"{status}"))
            said.append(f"{caught.value} {caught.value!r}")
        said.append(ledger_text(path))
        said += [repr(client), repr(vars(client)), repr(config(server.url))]
    await server.stop()
    async with client_of(server.url) as client:
        with pytest.raises(ServerUnavailable) as caught:
            await client.complete(chat())
        said.append(f"{caught.value} {caught.value!r}")
    said += [caplog.text, *capfd.readouterr()]
    assert len(server.keys) > 5 and set(server.keys) == {f"Bearer {SECRET}"}
    assert "Fritz Lang" in "".join(said)
    assert [text for text in said if SECRET in text] == []


async def test_a_line_break_after_the_key_does_not_matter(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAILFORGE_API_KEY", f"{SECRET}\r\n")
    async with client_of(server.url) as client:
        await client.complete(chat())
    assert server.keys == [f"Bearer {SECRET}"]


@pytest.mark.parametrize("key", ["sk-schlüssel", "sk-two\nlines"])
async def test_what_cannot_be_a_key_is_an_error_that_does_not_tell_it(
    key: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAILFORGE_API_KEY", key)
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError, match="set TRAILFORGE_API_KEY anew") as caught:
            await client.complete(chat())
    assert key not in str(caught.value)
    assert server.calls == 0


async def test_our_own_variable_comes_before_the_common_one(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAILFORGE_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
    async with client_of(server.url) as client:
        await client.complete(chat())
    assert server.keys == [f"Bearer {SECRET}"]


# The check before a run


async def test_the_check_names_the_models_that_are_served(server: ModelServer) -> None:
    async with client_of(server.url) as client:
        assert await client.check() == ["some-model"]


async def test_the_check_takes_a_server_that_lists_no_models(server: ModelServer) -> None:
    server.replies = [failure(404)]
    async with client_of(server.url) as client:
        assert await client.check() == []


async def test_the_check_of_a_dead_server_names_its_url_and_a_mend(server: ModelServer) -> None:
    await server.stop()
    async with client_of(server.url) as client:
        with pytest.raises(ServerUnavailable, match="nothing answers; start it") as caught:
            await client.check()
    assert server.url in str(caught.value)


async def test_the_check_tells_a_key_that_is_refused(server: ModelServer) -> None:
    server.always = lambda: failure(401)
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError, match="the key is refused"):
            await client.check()


async def test_the_check_of_a_web_page_names_its_url(server: ModelServer) -> None:
    server.always = NOT_A_REPLY["a web page"]
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError) as caught:
            await client.check()
    assert server.url in str(caught.value)


async def test_without_its_package_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(wire._libraries.cache_clear)
    wire._libraries.cache_clear()
    monkeypatch.setitem(sys.modules, "openai", None)
    client = ModelClient(config("http://127.0.0.1:9/v1"))
    with pytest.raises(InvalidInput, match=r"needs the package openai: pip install 'trailforge\[agent\]'"):
        await client.complete(completion("hi"))
    await client.aclose()


async def test_version_2_of_its_package_speaks_through_httpx(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(wire._libraries.cache_clear)
    for version, library in (("2.54.0", "httpx"), ("3.52.0", "httpx2")):
        wire._libraries.cache_clear()
        monkeypatch.setattr("openai.__version__", version)
        assert wire._libraries()[0].__name__ == library
