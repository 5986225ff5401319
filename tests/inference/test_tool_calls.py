"""Native tool calls over HTTP: what is sent, what is read, what the ledger keeps, and what cached tokens cost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.inference.support import ModelServer, answer, chat, config, reply_to
from trailforge.inference import Caps, ChatTurn, ModelClient, Prices
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.inference.provider.wire import pack, unpack
from trailforge.schemas import BudgetExceeded, ToolCall

TOOLS = json.dumps([{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}])
CALL = ToolCall(id="call_1", name="search", arguments='{"query": "Größe"}')
ASKED = chat(
    prompt=(
        ChatTurn(role="user", content="Who?"),
        ChatTurn(role="assistant", content="", reasoning="I look.", tool_calls=(CALL,)),
        ChatTurn(role="tool", content="1. …", tool_call_id="call_1"),
    ),
    tools=TOOLS,
    is_turn=True,
)
SENT = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": '{"query": "Größe"}'}}


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    server = ModelServer()
    await server.start()
    yield server
    await server.stop()


def calling(*calls: dict[str, Any], **message: Any) -> Any:
    return answer("", tool_calls=list(calls), **message)


async def test_calls_go_out_and_come_back_in_openais_form(server: ModelServer, tmp_path: Path) -> None:
    server.replies = [calling(SENT | {"id": "call_2"}, reasoning_content="And now?")]
    for _ in range(2):  # from the server, then from the ledger
        client = ModelClient(config(server.url), SqliteLedger(tmp_path / "ledger.sqlite"))
        reply = await client.complete(ASKED)
        await client.aclose()
        assert reply.tool_calls == (ToolCall(id="call_2", name="search", arguments='{"query": "Größe"}'),)
        assert (reply.text, reply.reasoning, reply.finish_reason) == ("", "And now?", "tool_calls")
    assert server.calls == 1 and reply.from_ledger
    (body,) = server.bodies
    assert body["tools"] == json.loads(TOOLS)
    assert body["messages"] == [
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": "", "reasoning_content": "I look.", "tool_calls": [SENT]},
        {"role": "tool", "content": "1. …", "tool_call_id": "call_1"},
    ]


async def test_a_request_without_tools_is_sent_as_ever(server: ModelServer) -> None:
    client = ModelClient(config(server.url))
    await client.complete(chat("Who?"))
    await client.aclose()
    assert "tools" not in server.bodies[0] and server.bodies[0]["messages"] == [{"role": "user", "content": "Who?"}]


async def test_turns_of_calls_alone_are_no_silence(server: ModelServer) -> None:
    """A model that only calls tools has said something each time, where it was offered tools."""
    server.always = lambda: calling(SENT)
    client = ModelClient(config(server.url))
    replies = [await client.complete(chat(sample=sample, tools=TOOLS)) for sample in range(4)]
    client.check_replies()  # which raises where all replies say nothing
    await client.aclose()
    assert [len(reply.tool_calls) for reply in replies] == [1] * 4 and not any(reply.text for reply in replies)


@pytest.mark.parametrize(
    "called",
    [
        {"tool_calls": [{"id": "a", "function": {"name": "search", "arguments": {"query": "Oslo"}}}]},
        {"tool_calls": [{"id": "a", "name": "search", "arguments": '{"query": "Oslo"}'}]},
        {"function_call": {"name": "search", "arguments": '{"query": "Oslo"}'}},
    ],
)
async def test_calls_of_other_forms_are_read(server: ModelServer, called: Any) -> None:
    server.replies = [answer("", **called)]
    client = ModelClient(config(server.url))
    reply = await client.complete(ASKED)
    await client.aclose()
    (call,) = reply.tool_calls
    assert call.name == "search" and json.loads(call.arguments) == {"query": "Oslo"}


async def test_calls_of_a_stream_are_joined_from_their_pieces(server: ModelServer) -> None:
    pieces = [
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "search", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"query":'}}]},
        {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "open", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ' "Oslo"}'}}]},
    ]
    events = [{"choices": [{"index": 0, "delta": piece}]} for piece in pieces]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    from trailforge.inference.provider.replies import read_body, read_reply

    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    read = read_reply(read_body(stream.encode(), "text/event-stream"), is_text=False)
    assert read.finish_reason == "tool_calls"
    assert read.tool_calls == (
        ToolCall(id="a", name="search", arguments='{"query": "Oslo"}'),
        ToolCall(id="b", name="open", arguments="{}"),
    )


@pytest.mark.parametrize(
    ("said", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 9}}, 9),
        ({"prompt_cache_hit_tokens": 8}, 8),
        ({"prompt_tokens_details": {"cached_tokens": 10**6}}, 11),
        ({"prompt_tokens_details": {"cached_tokens": -1}}, 0),
        ({"prompt_tokens_details": "many"}, 0),
        ({}, 0),
    ],
)
async def test_cached_tokens_are_read_where_a_server_says_them(server: ModelServer, said: Any, cached: int) -> None:
    body = answer("Lang")
    body["usage"] |= said
    server.replies = [body]
    client = ModelClient(config(server.url))
    reply = await client.complete(chat())
    await client.aclose()
    assert (reply.prompt_tokens, reply.cached_tokens) == (11, cached)


def test_an_entry_keeps_calls_and_cached_tokens_and_one_without_them_is_as_before() -> None:
    plain = reply_to(ASKED)
    with_more = reply_to(ASKED, "", tool_calls=(CALL,), cached_tokens=5)
    for reply in (plain, with_more):
        entry = unpack(ASKED.key, pack(ASKED, reply))
        assert entry is not None and (entry.reply.tool_calls, entry.reply.cached_tokens) == (
            reply.tool_calls,
            reply.cached_tokens,
        )


async def test_a_cap_on_cost_counts_cached_tokens_at_their_price_over_restarts(
    server: ModelServer, tmp_path: Path
) -> None:
    """Twelve of fourteen tokens of each call are cached and free: at full price the second call would not fit."""
    body = answer("Lang", usage=(11, 3))
    body["usage"]["prompt_tokens_details"] = {"cached_tokens": 11}
    server.always = lambda: body
    per_call = 3e-6 * 100
    most = {"prompt_per_million": 100.0, "completion_per_million": 100.0}
    worst = 400 * 100e-6  # what is set aside for a call that allows 256 tokens

    async def ask(sample: int, prices: Prices) -> None:
        caps = Caps(max_cost=2 * per_call + worst)
        ledger = SqliteLedger(tmp_path / f"{prices.cached_per_million}.sqlite")
        client = ModelClient(config(server.url, caps=caps, prices=prices), ledger)
        try:
            await client.complete(chat(sample=sample))
        finally:
            await client.aclose()

    for sample in range(3):
        await ask(sample, Prices(**most, cached_per_million=0.0))
    asked = 0
    with pytest.raises(BudgetExceeded):
        for asked in range(20):
            await ask(asked, Prices(**most))
    assert 0 < asked < 20
