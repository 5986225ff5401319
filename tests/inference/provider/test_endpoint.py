"""The wire: what a server may send, and what it cannot do to the run."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.inference.support import ModelServer, answer, chat, completion, failure, model_server
from tests.inference.test_client import client_of
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.inference.provider.endpoint import Endpoint, Failure
from trailforge.inference.provider.wire import Answer, Wire
from trailforge.pipelines.engine.progress import OPERATIONAL, _status
from trailforge.schemas import ContextOverflow, InvalidInput, ProviderError, ServerUnavailable


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as started:
        yield started


Talk = Callable[[asyncio.StreamWriter], Any]


@asynccontextmanager
async def raw_server(talk: Talk) -> AsyncIterator[str]:
    """A server of which every byte is the test's: `talk` writes what comes after a request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await talk(writer)
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has left

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    finally:
        listening.close()


# Bounds of time and size

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


async def drip(writer: asyncio.StreamWriter) -> None:
    """A body of which a byte comes every 50 ms: no single wait is long."""
    writer.write(HEAD + b"Content-Length: 10000\r\n\r\n")
    await pour(writer, 0.05, b" ")


async def drip_head(writer: asyncio.StreamWriter) -> None:
    """Headers that do not end."""
    writer.write(HEAD + b"X-Padding: ")
    await pour(writer, 0.05, b"x")


async def flood(writer: asyncio.StreamWriter) -> None:
    """A body that does not end, as fast as it is read."""
    writer.write(HEAD + b"Connection: close\r\n\r\n")
    await pour(writer, 0.0, b" " * 65536)


async def pour(writer: asyncio.StreamWriter, every_s: float, what: bytes) -> None:
    """Write until nobody reads."""
    while True:
        writer.write(what)
        await writer.drain()
        await asyncio.sleep(every_s)


@pytest.mark.parametrize("talk", [drip, drip_head])
async def test_a_reply_that_drips_ends_with_the_time_of_the_call(talk: Talk) -> None:
    async with raw_server(talk) as url, client_of(url, timeout_s=0.4, max_attempts=1) as client:
        with pytest.raises(ServerUnavailable, match=r"no whole reply within 0\.4 s"):
            await asyncio.wait_for(client.complete(chat()), 120)


async def test_a_reply_without_end_is_not_read_to_its_end() -> None:
    async with raw_server(flood) as url, client_of(url, max_attempts=2) as client:
        with pytest.raises(ProviderError, match=r"no OpenAI-compatible reply.* \(it is larger than 8 MiB\)"):
            await asyncio.wait_for(client.complete(chat()), 120)


async def test_an_error_without_end_is_told_by_its_status() -> None:
    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        await pour(writer, 0.0, b" " * 65536)

    async with raw_server(talk) as url, client_of(url, max_attempts=1) as client:
        with pytest.raises(ProviderError, match="refused with status 400"):
            await asyncio.wait_for(client.complete(chat()), 120)


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "X-GZIP": gzip.compress, "deflate": zlib.compress, "": bytes, "Identity": bytes,
}  # fmt: skip


@pytest.mark.parametrize("encoding", COMPRESSED)
async def test_a_reply_that_a_gateway_compresses_is_read(server: ModelServer, encoding: str) -> None:
    packed = COMPRESSED[encoding](json.dumps(answer("Fritz Lang " * 100)).encode())
    server.replies = [web.Response(body=packed, headers={"Content-Encoding": encoding})]
    async with client_of(server.url) as client:
        assert (await client.complete(chat())).text == "Fritz Lang " * 100
    assert server.calls == 1


@pytest.mark.parametrize("packed", [gzip.compress(bytes(2**24)), zlib.compress(bytes(2**24))])
async def test_a_bomb_is_not_unpacked_to_its_end(server: ModelServer, packed: bytes) -> None:
    server.always = lambda: web.Response(body=packed, headers={"Content-Encoding": "gzip"})
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError, match=r"no OpenAI-compatible reply.* \(it is larger than 8 MiB\)"):
            await client.complete(chat())


async def test_what_unpacks_to_nothing_is_not_read_to_its_end() -> None:
    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n")
        writer.write(gzip.compress(b"")[:10])
        await pour(writer, 0.0, b"\x00\x00\x00\xff\xff" * 13107)  # stored blocks without content

    async with raw_server(talk) as url, client_of(url, max_attempts=1) as client:
        with pytest.raises(ProviderError, match="larger than 8 MiB"):
            await asyncio.wait_for(client.complete(chat()), 120)


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", b"{}"), ("gzip", gzip.compress(b"{}" * 99)[:-9]), ("gzip", b""), ("deflate", b"{}"),
        ("br", b"{}"), ("zstd", b"{}"), ("gzip, gzip", gzip.compress(gzip.compress(b"{}"))),
    ],
)  # fmt: skip
async def test_what_cannot_be_unpacked_is_no_reply(server: ModelServer, encoding: str, packed: bytes) -> None:
    server.always = lambda: web.Response(body=packed, headers={"Content-Encoding": encoding})
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError, match=r"no OpenAI-compatible reply.* \(it is compressed in a way"):
            await client.complete(chat())


@pytest.mark.parametrize("encoding", ["br", "gzip"])
async def test_a_refusal_whose_body_cannot_be_read_is_one_all_the_same(server: ModelServer, encoding: str) -> None:
    """What is asked of us stands in the head: to wait, or another key."""
    unread = {"Content-Encoding": encoding}
    server.replies = [web.Response(status=429, body=b"?", headers=unread | {"Retry-After": "0.1"})]
    async with client_of(server.url, max_attempts=1) as client:
        assert (await client.complete(chat())).text == "Fritz Lang"  # a 429 is no failed try
        server.replies = [web.Response(status=401, body=b"?", headers=unread) for _ in range(3)]
        with pytest.raises(ProviderError, match="the key is refused"):
            await client.complete(completion())
    assert server.calls == 3


@pytest.mark.parametrize("end", [b" ", b""], ids=["drips", "breaks off"])
async def test_a_status_is_heard_though_its_body_does_not_end(end: bytes) -> None:
    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 9999\r\n\r\n")
        if end:
            await pour(writer, 0.05, end)

    async with raw_server(talk) as url:
        wire = Wire(url, timeout_s=0.4)
        heard = await wire.send("/completions", b"{}")
        await wire.close()
    assert (heard.status, heard.headers["retry-after"], heard.body) == (429, "7", b"")


async def test_what_an_error_says_is_waited_for_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trailforge.inference.provider.wire._ERROR_BODY_S", 0.2)

    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 No\r\nContent-Length: 9999\r\n\r\n")
        await pour(writer, 0.05, b" ")

    async with raw_server(talk) as url:
        wire = Wire(url, timeout_s=600.0)
        heard = await asyncio.wait_for(wire.send("/completions", b"{}"), 120)
        await wire.close()
    assert heard.status == 503


@pytest.mark.parametrize(
    ("base", "sent"),
    [
        ("/v1", "/v1/completions"),
        ("/v1/", "/v1/completions"),
        ("", "/completions"),
        ("/deployments/d?api-version=2024-10-21", "/deployments/d/completions?api-version=2024-10-21"),
        ("/a%2Fb/?x=%20&y=/", "/a%2Fb/completions?x=%20&y=/"),
    ],
)
async def test_a_path_goes_before_the_query_of_a_url(base: str, sent: str) -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire = Wire(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}{base}", timeout_s=5.0)
    await wire.send("/completions", b"{}")
    await wire.close()
    listening.close()
    assert heads[0].split()[1].decode() == sent


async def test_what_a_compressed_refusal_says_is_heard(server: ModelServer) -> None:
    told = gzip.compress(json.dumps({"error": {"message": "maximum context length is 9"}}).encode())
    server.replies = [web.Response(status=400, body=told, headers={"Content-Encoding": "gzip"})]
    async with client_of(server.url) as client:
        with pytest.raises(ContextOverflow, match="the prompt is too long for the model"):
            await client.complete(chat())


async def test_plain_text_is_asked_for_and_nothing_is_told_of_the_machine() -> None:
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    async with client_of(url, max_attempts=1) as client:
        with pytest.raises(ServerUnavailable):
            await client.complete(chat())
    listening.close()
    assert "accept-encoding: identity\r\n" in heads[0] and "x-stainless" not in heads[0]


# Where prompts go


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_prompt_does_not_follow_where_a_server_sends_it(server: ModelServer, status: int) -> None:
    async with model_server() as other:
        server.always = lambda: web.Response(status=status, headers={"Location": f"{other.url}/chat/completions"})
        async with client_of(server.url) as client:
            with pytest.raises(ProviderError, match=r"it sends us on to http://\S+; give the URL where the model is"):
                await client.complete(chat())
        assert (server.calls, other.calls) == (2, 0)  # a firewall sends single prompts away


async def test_what_speaks_no_http_is_a_server_that_does_not_answer() -> None:
    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        await writer.drain()

    async with raw_server(talk) as url, client_of(url, max_attempts=2) as client:
        with pytest.raises(ServerUnavailable, match="no reply after 2 attempts"):
            await client.complete(chat())
        with pytest.raises(ServerUnavailable, match="nothing answers"):
            await client.check()


async def test_what_is_no_url_is_an_error_before_anything_is_sent() -> None:
    async with client_of("http://[::1") as client:
        with pytest.raises(InvalidInput, match=r"model\.url.*is no URL"):
            await client.complete(chat())


# Replies that are none


def spoilt(**changes: Any) -> Any:
    """A reply whose only choice is changed."""
    body = answer()
    body["choices"][0] |= changes
    return body


NO_REPLY: dict[str, Any] = {
    "a choice without content": answer() | {"choices": [{"index": 0, "finish_reason": "stop"}]},
    "choices that are an object": answer() | {"choices": {"0": {}}},
    "choices that are a text": answer() | {"choices": "none"},
    "choices that are null": answer() | {"choices": None},
    "a choice that is null": answer() | {"choices": [None]},
    "a choice that is a text": answer() | {"choices": ["Fritz Lang"]},
    "a reason that is a number": spoilt(finish_reason=7),
    "a reason that is a list": spoilt(finish_reason=["stop"]),
    "content that is a number": spoilt(text=7, message={"content": 7}),
    "content that is a list of numbers": spoilt(text=[7], message={"content": [7]}),
    "a text": "Fritz Lang",
    "a number": 7,
    "null": None,
}


@pytest.mark.parametrize("what", NO_REPLY)
@pytest.mark.parametrize("ask", [chat, completion])
async def test_a_reply_of_wrong_types_is_asked_for_again_then_an_error(
    server: ModelServer, what: str, ask: Any
) -> None:
    server.always = lambda: NO_REPLY[what]
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError, match="no OpenAI-compatible reply; check the URL"):
            await client.complete(ask())
        assert (server.calls, client.counters.in_flight) == (5, 0)  # the prompt's, then a control's
        server.always = None
        assert (await client.complete(ask())).text == "Fritz Lang"


@pytest.mark.parametrize("message", [None, [], "Fritz", {"content": "x", "reasoning_content": 7}])
async def test_a_message_of_a_wrong_type_is_no_reply(server: ModelServer, message: Any) -> None:
    server.always = lambda: spoilt(message=message)
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError, match="no OpenAI-compatible reply"):
            await client.complete(chat())


@pytest.mark.parametrize("depth", [200, 200_000])
async def test_a_reply_that_is_nested_deeply_is_no_reply(server: ModelServer, depth: int) -> None:
    text = '{"choices": ' + "[" * depth + "]" * depth + "}"
    server.always = lambda: web.Response(text=text, content_type="application/json")
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError, match="no OpenAI-compatible reply"):
            await client.complete(chat())


BROKEN_OFF: dict[str, Any] = {
    "error": spoilt(finish_reason="error"),
    "abort": spoilt(finish_reason="abort"),
    "an error beside it": spoilt(error={"code": 502, "message": "upstream"}),
}


@pytest.mark.parametrize("what", BROKEN_OFF)
@pytest.mark.parametrize("ask", [chat, completion])
async def test_a_reply_that_broke_off_is_asked_for_again_and_not_kept(
    server: ModelServer, tmp_path: Path, what: str, ask: Any
) -> None:
    path, request = tmp_path / "ledger.sqlite", ask()
    server.replies = [BROKEN_OFF[what]] * 5
    async with client_of(server.url, path) as client:
        with pytest.raises(ServerUnavailable, match=r"the server broke its reply off .*, after 3 attempts"):
            await client.complete(request)
        assert (await client.complete(request)).text == "Fritz Lang"
    assert server.calls == 6
    ledger = SqliteLedger(path)
    assert ledger.entries() == 1
    ledger.close()


async def test_an_error_that_is_none_breaks_nothing_off(server: ModelServer) -> None:
    server.replies = [spoilt(error=None)]
    async with client_of(server.url) as client:
        assert (await client.complete(chat())).text == "Fritz Lang"


async def test_half_an_emoji_as_the_reason_becomes_something_that_files_take(server: ModelServer) -> None:
    server.replies = [spoilt(finish_reason="\ud83d")]
    async with client_of(server.url) as client:
        assert (await client.complete(chat())).finish_reason == "?"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "text", "finish_reason", "usage", "prompt_tokens", "error"]
            )
            | st.text(),
            inner,
            max_size=4,
        )
    ),
)
MESSAGES = st.fixed_dictionaries({}, optional={name: JSON for name in ("content", "reasoning", "reasoning_content")})
CHOICES = st.fixed_dictionaries({}, optional={"message": MESSAGES | JSON, "text": JSON, "finish_reason": JSON})
BODIES = JSON | st.fixed_dictionaries({"choices": st.lists(CHOICES | JSON, max_size=2)}, optional={"usage": JSON})


@given(
    body=BODIES,
    status=st.sampled_from([200, 200, 204, 302, 400, 404, 500]),
    request=st.sampled_from([chat, completion]),
)
def test_whatever_json_comes_is_a_reply_or_an_error_of_ours(body: Any, status: int, request: Any) -> None:
    class Told(Wire):
        """Answers without a server."""

        async def send(self, path: str, body_: bytes | None = None) -> Answer:
            return Answer(status, {}, json.dumps(body).encode())

    endpoint = Endpoint("http://x/v1", model="m", dialect="openai", timeout_s=1.0)
    endpoint._wire = Told("http://x/v1", timeout_s=1.0)
    try:
        reply = asyncio.run(endpoint.exchange(request()))
    except (Failure, ProviderError):
        return
    assert all(type(value) is str for value in (reply.text, reply.reasoning, reply.finish_reason))
    (reply.text + reply.reasoning + reply.finish_reason).encode()  # files take it
    assert type(reply.prompt_tokens) is type(reply.completion_tokens) is int
    assert 0 <= reply.prompt_tokens < 2**31 and 0 <= reply.completion_tokens < 2**31


# What a server says of an error


async def test_the_text_of_an_error_cannot_act_on_a_terminal(server: ModelServer) -> None:
    server.always = lambda: failure(400, "no \x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\x00")
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError, match=r"no .*owned") as caught:
            await client.complete(chat())
    assert not set(str(caught.value)) & set("\x1b\x07\x9b\u202e\x00\r\n")


@pytest.mark.parametrize("before", range(280, 321, 8))
async def test_half_a_key_is_not_told_either(server: ModelServer, before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAILFORGE_API_KEY", "sk-0123456789abcdef-secret")
    server.always = lambda: failure(400, "x" * before + " sk-0123456789abcdef-secret")
    async with client_of(server.url) as client:
        with pytest.raises(ProviderError) as caught:
            await client.complete(chat())
    assert "sk-0" not in str(caught.value)


# What people see of it


async def test_no_figure_of_the_client_is_taken_for_rows(server: ModelServer) -> None:
    async with client_of(server.url) as client:
        assert set(client.figures) <= OPERATIONAL


def test_progress_says_how_many_replies_were_counted_here() -> None:
    assert "(3 replies counted here: their usage was missing or impossible)" in _status(Counter(disbelieved_usage=3))
    assert "counted here" not in _status(Counter())


def test_certificates_are_read_once_and_anew_where_the_variables_name_others(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    own = ssl.SSLContext.load_verify_locations
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *given: read.append(own(*given)))
    Wire("https://127.0.0.1:9/v1", timeout_s=1.0).open()
    before = len(read)
    Wire("https://127.0.0.1:9/v1", timeout_s=1.0).open()
    assert len(read) == before
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/certificates.pem")
    with pytest.raises(FileNotFoundError):
        Wire("https://127.0.0.1:9/v1", timeout_s=1.0).open()
