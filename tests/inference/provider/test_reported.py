"""Servers as they were reported: what is read of what they send."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from tests.inference.provider.reported import CREDIT, ERRORS, FILTERED, PAGE, WAITS, Said
from tests.inference.support import chat, config, model_server, reply_to
from trailforge.inference import ModelClient
from trailforge.inference.provider.endings import read_ending
from trailforge.inference.provider.errors import ServerError, read_error
from trailforge.inference.provider.replies import ReadReply, find_error, read_body, read_models, read_reply
from trailforge.inference.reasoning import ThoughtReader
from trailforge.retrieval.encoders.embeddings import EmbeddingsClient
from trailforge.schemas import OutOfCredit, PromptRefused, ProviderError


def sent(said: Said) -> bytes:
    return (said.body if isinstance(said.body, str) else json.dumps(said.body)).encode()


def heard(said: Said) -> ServerError:
    if said.status != 200:
        return read_error(said.status, sent(said))
    error = find_error(read_body(sent(said), "application/json"))
    assert error is not None
    return read_error(200, error)


@pytest.mark.parametrize("said", ERRORS, ids=lambda said: said.name)
def test_an_error_is_of_its_kind_and_its_words_are_shown(said: Said) -> None:
    error = heard(said)
    assert error.kind == said.kind
    assert said.words in str(error)
    assert error.parameter == said.parameter or not said.parameter
    assert said.mend in error.mend


@pytest.mark.parametrize("said", [said for said in ERRORS if said.status != 200], ids=lambda said: said.name)
def test_what_a_gateway_quotes_is_of_the_same_kind(said: Said) -> None:
    """As OpenRouter does, with the provider's own body as a text."""
    if not isinstance(said.body, str):
        raw = {"message": "Provider returned error", "code": said.status, "metadata": {"raw": sent(said).decode()}}
        error = read_error(said.status, json.dumps({"error": raw}).encode())
        assert error.kind == said.kind and said.words in error.words


def test_of_a_long_page_or_sentence_only_a_part_is_read() -> None:
    """A pattern that takes more than linear time would not come to an end here."""
    for part in (
        "insufficient_",
        "prompt ",
        "<title",
        "account ",
        "max tokens ",
        "retry ",
        "余额",
        "model ",
        "batch size",
    ):
        long = part * (60_000 // len(part))
        for status in (200, 400, 404, 429, 500):
            assert len(read_error(status, long.encode()).words) < 10_000
        for status in (200, 404):  # between them they try every pattern; the others a part of these
            assert len(read_error(status, {"error": {"message": long, "code": long}}).words) < 10_000


# Replies


def chunk(delta: Any, reason: str | None = None, **more: Any) -> str:
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]} | more)


BEGIN, END = chunk({"content": "Fritz"}), chunk({}, "stop")
STREAMS = {
    "github.com/cline/cline/pull/8527 (usage, no choices)": [BEGIN, END, 'data: {"choices":[],"usage":{}}'],
    "github.com/cline/cline/issues/1786 (choices null)": [BEGIN, 'data: {"choices":null,"usage":{}}', END],
    "github.com/microsoft/agent-framework/pull/5734 (delta null)": [BEGIN, chunk(None, "stop")],
    "github.com/BerriAI/litellm/issues/2010 (null in the last delta)": [
        BEGIN, chunk({"content": None, "role": None}, "stop")
    ],
    "github.com/Kilo-Org/kilocode/pull/3083 (data: null)": [BEGIN + "\ndata: null\n" + END],
    "github.com/AndraxDev/speak-gpt/pull/162 (Azure's preamble)": [
        'data: {"choices":[],"prompt_filter_results":[]}', BEGIN, END
    ],
    "openrouter.ai/docs/api/reference/streaming (comments)": [": OPENROUTER PROCESSING", BEGIN, END],
    "github.com/openclaw/openclaw/pull/97474 (a mark of byte order)": ["\ufeff" + BEGIN, END],
    "github.com/hyperonym/basaran/issues/144 (lines without data:)": [BEGIN[6:], END[6:]],
    "github.com/decolua/9router/issues/3492 (JSON, then [DONE])": [
        '{"choices":[{"index":0,"message":{"content":"Fritz"},"finish_reason":"stop"}]}'
    ],
    "docs.perplexity.ai (the whole in the last message)": [
        BEGIN, 'data: {"choices":[{"index":0,"delta":{},"message":{"content":"Fritz"},"finish_reason":"stop"}]}'
    ],
    "docs.anthropic.com (pings)": ['event: ping\ndata: {"type":"ping"}', BEGIN, END],
    "a heartbeat that is no JSON": ["data: ping", BEGIN, "data:", END],
    "www.xfyun.cn/doc/spark (code and message beside)": [
        chunk({"content": "Fritz"}, None, code=0, message="Success"), chunk({}, "stop", code=0, message="Success")
    ],
    "role alone first": [chunk({"role": "assistant"}), BEGIN, END],
}  # fmt: skip


@pytest.mark.parametrize("line", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", ""])
@pytest.mark.parametrize("end", ["data: [DONE]", "data:[DONE]", 'data: "[DONE]"', ""])
@pytest.mark.parametrize("source", STREAMS)
def test_a_stream_in_any_form_is_read(source: str, end: str, kind: str, line: str) -> None:
    whole = "".join(f"{event}\n\n" for event in (*STREAMS[source], end)).replace("\n", line)
    body = read_body(whole.encode(), kind)
    assert find_error(body) is None
    reply = read_reply(body, is_text=False)
    assert (reply.text, reply.finish_reason, reply.error) == ("Fritz", "stop", None)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_letters_that_end_lines_elsewhere_do_not_end_them_in_streams(separator: str) -> None:
    text = f"a{separator}b"
    event = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    body = read_body(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode(), "text/event-stream")
    assert read_reply(body, is_text=False).text == text


@pytest.mark.parametrize(
    "events",
    [
        [BEGIN],
        [BEGIN, 'data: {"choices":[{"ind'],
        [BEGIN, chunk({"content": ""}, "error", error={"code": "server_error", "message": "Provider disconnected"})],
        [BEGIN, 'data: {"error":{"message":"overloaded"}}'],
        [BEGIN, 'event: error\ndata: {"message":"overloaded","code":500}'],
    ],
)
def test_a_stream_that_broke_off_is_no_whole_reply(events: list[str]) -> None:
    reply = read_reply(read_body("\n\n".join(events).encode(), "text/event-stream"), is_text=False)
    assert reply.error
    assert read_error(500, reply.error).words


def test_a_stream_that_begins_with_an_error_is_that_error() -> None:
    """github.com/BerriAI/litellm/issues/6629: too long, as an event of status 200."""
    said = 'data: {"error": {"message": "Input is too long for requested model.", "code": "400"}}\n\ndata: [DONE]\n\n'
    error = find_error(read_body(said.encode(), "text/event-stream"))
    assert read_error(200, error).kind == "too_long"


def read(message: Any, **choice: Any) -> ReadReply:
    return read_reply({"choices": [{"message": message, "finish_reason": "stop"} | choice]}, is_text=False)


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": [{"type": "text", "text": "Fritz"}]}, "Fritz", ""),  # docs.mistral.ai
        (
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True},
                         {"type": "text", "text": "Fritz"}]},
            "Fritz", "hm",
        ),  # docs.mistral.ai (Magistral)
        ({"content": [{"type": "reference", "reference_ids": [1]}, {"type": "text", "text": "Fritz"}]}, "Fritz", ""),
        ({"content": [{"type": "text", "text": {"value": "Fritz", "annotations": []}}]}, "Fritz", ""),  # assistants
        ({"content": {"type": "text", "text": "Fritz"}}, "Fritz", ""),
        ({"content": {"parts": [{"text": "Fritz"}]}}, "Fritz", ""),  # Gemini behind a gateway
        ({"content": {"answer": "Fritz"}}, '{"answer": "Fritz"}', ""),  # developers.cloudflare.com (JSON mode)
        ({"content": "Fritz", "reasoning": "hm"}, "Fritz", "hm"),  # console.groq.com
        ({"content": "Fritz", "reasoning": {"content": "hm"}}, "Fritz", "hm"),
        ({"content": "Fritz", "reasoning": True}, "Fritz", ""),
        (
            {"content": "Fritz", "reasoning_details": [{"type": "reasoning.summary", "summary": "hm"},
                                                       {"type": "reasoning.encrypted", "data": "x"}]},
            "Fritz", "hm",
        ),  # openrouter.ai
        ({"content": "Fritz", "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "x"}]}, "Fritz",
         "hm"),  # docs.litellm.ai
        ({"content": None, "refusal": "I can't."}, "I can't.", ""),  # platform.openai.com
    ],
)  # fmt: skip
def test_text_and_thoughts_are_found_wherever_they_are(message: Any, text: str, reasoning: str) -> None:
    assert (read(message).text, read(message).reasoning) == (text, reasoning)


@pytest.mark.parametrize("error", [None, {}, "", False, {"code": 0, "message": ""}])
def test_an_error_that_says_nothing_beside_a_reply_is_none(error: Any) -> None:
    assert find_error({"error": error, "choices": [{"message": {"content": "x"}}]}) is None


@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        ("content_filter: PROHIBITED_CONTENT", "cut"),
        ("FinishReason.MAX_TOKENS", "cut"),
        ("FINISH_REASON_STOP", "whole"),
        ("SAFETY", "cut"),  # github.com/HKUDS/Vibe-Trading/pull/308
        ("end_turn", "whole"),  # github.com/vercel/modelfusion/pull/343
        ("eos", "whole"),  # github.com/vibrantlabsai/ragas/issues/1548
        ("eos_token", "whole"),  # github.com/spring-projects/spring-ai/pull/4900
        ("", "whole"),  # github.com/togethercomputer/together-python/pull/239
        ("error", "broken"),  # github.com/togethercomputer/together-python/pull/153
        ("maxPredictedTokensReached", "cut"),
        ("eosFound", "whole"),
        ("out_of_tokens", "cut"),
        ("CONTENT_FILTERED", "cut"),  # Amazon Titan
        ("endoftext", "whole"),
        ("sensitive", "cut"),
        ("IMAGE_SAFETY", "cut"),
        ("max_output", "cut"),
        ("timeout", "broken"),
        ("halted", "unknown"),
    ],
)
def test_finish_reasons_of_providers(reason: str, ending: str) -> None:
    assert read_ending(reason) == ending


@pytest.mark.parametrize(
    "body",
    [
        [{"id": "a"}, {"id": "b"}],  # github.com/maximhq/bifrost/issues/6711 (Together)
        {"models": [{"name": "a"}, {"name": "b"}]},  # docs.cohere.com
        {"models": [{"key": "a"}, {"key": "b"}]},  # lmstudio.ai (v1)
        {"data": {"a": {}, "b": {}}},
        {"data": {"models": [{"id": "a"}, {"id": "b"}]}},
        {"data": {"data": [{"id": "a"}, {"id": "b"}]}},
        {"resources": [{"model_id": "a"}, {"model_id": "b"}]},  # cloud.ibm.com/apidocs/watsonx-ai
        {"endpoints": [{"name": "a"}, {"name": "b"}]},  # docs.databricks.com
        {"object": "list", "data": ["a", "b"]},
        ["a", "b"],
        {"data": [{"id": "a"}, {}, None, {"id": "b"}]},
    ],
)
def test_models_are_listed_in_any_form(body: Any) -> None:
    assert read_models(body) == ["a", "b"]


@pytest.mark.parametrize("body", [{}, {"error": {"message": "no"}}, {"data": None}, 7, None, "a"])
def test_what_lists_no_models_says_so(body: Any) -> None:
    with pytest.raises(ValueError):
        read_models(body)


# Whole clients


@pytest.mark.parametrize("status", [401, 403, 404, 405, 500, 501])
async def test_a_server_that_lists_no_models_is_used(status: int) -> None:
    async with model_server() as server:
        server.replies = [web.Response(status=status, text=PAGE.format(title="no list"))]
        client = ModelClient(config(server.url))
        assert await client.check() == []
        assert (await client.complete(chat())).text == "Fritz Lang"
        await client.aclose()


def response(said: Said) -> web.Response:
    kind = "text/html" if isinstance(said.body, str) else "application/json"
    return web.Response(status=said.status, body=sent(said), content_type=kind)


@pytest.mark.parametrize("said", FILTERED, ids=lambda said: said.name)
async def test_a_filtered_prompt_costs_itself_and_says_why(said: Said) -> None:
    async with model_server() as server:
        client = ModelClient(config(server.url))
        server.always = lambda: response(said) if "poison" in str(server.bodies[-1]) else good()
        with pytest.raises(PromptRefused) as caught:
            await client.complete(chat("poison"))
        assert (await client.complete(chat("good"))).text == "Fritz Lang"
        await client.aclose()
    assert said.words in str(caught.value)


def good() -> Any:
    return {"choices": [{"message": {"content": "Fritz Lang"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("said", CREDIT, ids=lambda said: said.name)
async def test_without_credit_the_first_call_is_the_last(said: Said) -> None:
    async with model_server() as server:
        server.always = lambda: response(said)
        client = ModelClient(config(server.url))
        for _ in range(2):
            with pytest.raises(OutOfCredit) as caught:
                await client.complete(chat())
            assert said.words in str(caught.value)
        assert server.calls == 1
        await client.aclose()


@pytest.mark.parametrize("said", WAITS, ids=lambda said: said.name)
async def test_what_only_looks_like_it_is_waited_for(said: Said) -> None:
    async with model_server() as server:
        server.replies = [response(said), response(said)]
        client = ModelClient(config(server.url, max_attempts=1))
        assert (await client.complete(chat())).text == "Fritz Lang"
        assert server.calls == 3
        await client.aclose()


@pytest.mark.parametrize(
    ("message", "mend"),
    [
        ({"content": None, "reasoning_content": "Lang"}, "parser"),  # github.com/vllm-project/vllm/issues/17357
        ({"content": "", "reasoning": "Lang"}, "parser"),  # github.com/sgl-project/sglang/issues/37645
        ({"content": "\n\n", "reasoning_content": "Lang"}, "parser"),  # github.com/QwenLM/Qwen3/issues/1297
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Lang"}]}]}, "parser"),
        ({"content": None, "reasoning_details": [{"type": "reasoning.text", "text": "Lang"}]}, "parser"),
        ({"content": None, "tool_calls": [{"id": "1", "function": {"name": "x"}}]}, "tools"),
        ({"content": "", "function_call": {"name": "x", "arguments": "{}"}}, "tools"),
        ({"content": None, "reasoning": "hm", "tool_calls": [{"id": "1"}]}, "tools"),
    ],
)
def test_replies_that_are_all_empty_end_the_run_with_a_mend(message: Any, mend: str) -> None:
    reader, found = ThoughtReader("separate"), read(message)
    with pytest.raises(ProviderError, match=mend):
        for number in range(3):
            request = chat(f"Question {number}?")
            texts = {"text": found.text, "reasoning": found.reasoning, "finish_reason": found.finish_reason}
            reader.read(request, reply_to(request, **texts))


LIMITS = {
    "github.com/apecloud/ApeRAG/issues/716": (
        413, {"code": 20042, "message": "input batch size 136 > maximum allowed batch size 64", "data": None}),
    "github.com/n4ze3m/page-assist/issues/371": (
        400, {"error": {"code": "InvalidParameter", "param": None, "message": "<400> InternalError.Algo.Invalid"
              "Parameter: Value error, batch size is invalid, it should not be larger than 20.: input.contents"}}),
    "github.com/sigoden/aichat/pull/825": (
        400, {"detail": "Request to model 'v' failed. The max allowed tokens per submitted batch is 120000. Your batch "
              "has 121138 tokens after truncation. Please lower the number of tokens in the batch."}),
    "github.com/ggml-org/llama.cpp/pull/7389": (
        500, {"error": {"code": 500, "message": "input is too large to process. increase the physical batch size"}}),
    "docs.cohere.com": (400, {"message": "total number of texts must be at most 96 - received 128"}),
    "ai.google.dev": (400, [{"error": {"code": 400, "message": "at most 100 requests can be in one batch"}}]),
    "platform.openai.com": (
        400, {"error": {"message": "Invalid 'input': array too long. Expected an array with maximum length 2048.",
              "type": "invalid_request_error", "param": "input", "code": "array_above_max_length"}}),
    "github.com/huggingface/text-embeddings-inference": (
        422, {"error": "batch size 64 > maximum allowed batch size 32", "error_type": "Validation"}),
    "nginx.org": (413, PAGE.format(title="413 Request Entity Too Large")),
}  # fmt: skip


@pytest.mark.parametrize("source", LIMITS)
def test_batches_of_embeddings_become_as_small_as_a_server_wants(source: str) -> None:
    status, said = LIMITS[source]

    async def ask() -> np.ndarray:
        async def embed(request: web.Request) -> web.Response:
            texts = (await request.json())["input"]
            if len(texts) > 5:
                return response(Said(source, status, said, "", ""))
            return web.json_response({"data": [{"index": n, "embedding": [1.0, 0.0]} for n in range(len(texts))]})

        app = web.Application()
        app.router.add_post("/v1/embeddings", embed)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        client = EmbeddingsClient(f"http://127.0.0.1:{runner.addresses[0][1]}/v1#m")
        try:
            return await asyncio.to_thread(client.encode, [f"text {n}" for n in range(70)])
        finally:
            await asyncio.to_thread(client.close)
            await runner.cleanup()

    assert asyncio.run(ask()).shape == (70, 2)
