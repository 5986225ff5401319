"""Model servers that misbehave, one table: each mode ends in good replies or in one clear error of ours, soon.

In all of them: no wait without end, no error of a library, no control character in a message, bounded memory; the
ledger opens afterwards and holds sound rows of the good replies alone; and caps hold.
"""

from __future__ import annotations

import asyncio
import json
import math
import resource
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.inference import misbehaving as bad
from tests.inference.misbehaving import TEXT, Mode, body, changed, choice, sends, status, usage
from tests.inference.support import chat, completion, config
from trailforge.inference import Caps, ModelClient, Prices, Reply, Sampling, Usage
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.inference.provider.wire import MOST_TOKENS
from trailforge.schemas import (
    BudgetExceeded,
    ContextOverflow,
    OutOfCredit,
    ProviderError,
    ServerUnavailable,
    Stalled,
    TrailforgeError,
)

TIMEOUT_S, STALL_S = 0.25, 2.5
WITHIN_S = 60.0
"""Ends a hang: far more than any mode takes, for a machine that does other things, too."""
MOST_MEMORY = 200 * 2**20
PRICES = Prices(prompt_per_million=1e6, completion_per_million=1e6)
REQUESTS = (chat("Who directed M?"), completion("M was directed by"), chat("Who shot M?"))

NO_REPLY = "is no OpenAI-compatible reply"


@dataclass(frozen=True)
class End:
    """How the three calls end that are made one after the other."""

    mode: Mode
    error: type[TrailforgeError] | None = None
    says: str = ""
    good: int = 0
    """How many get a reply; the rest get the error."""
    text: str = TEXT
    tokens: tuple[int, int] | None = None
    """Prompt and completion of each reply; None: counted by us."""


def replies(mode: Mode, text: str = TEXT, tokens: tuple[int, int] | None = (11, 3)) -> End:
    """All is well."""
    return End(mode, good=len(REQUESTS), text=text, tokens=tokens)


def counted(mode: Mode) -> End:
    """All is well, but the tokens are counted by us."""
    return replies(mode, tokens=None)


def unread(mode: Mode) -> End:
    """What comes is no reply."""
    return End(mode, ProviderError, NO_REPLY)


def refused(mode: Mode, says: str, error: type[TrailforgeError] = ProviderError) -> End:
    """At the first try."""
    return End(mode, error, says)


def down(mode: Mode, says: str) -> End:
    """After all tries."""
    return End(mode, ServerUnavailable, says)


def stalled(mode: Mode) -> End:
    """Nothing is answered any more."""
    return End(mode, Stalled, "no reply")


CONTROLS = "\x1b]0;pwn\x07\x1b[2J\u202e\x9b31m no\r\nroot@host:~# \x00"
STATUS = {
    "400": refused(status("400 Bad Request"), "status 400: no"),
    "400 with control characters": refused(
        status("400 Bad Request", body={"error": {"message": CONTROLS}}), "refused with status 400"
    ),
    "400 with control characters, no JSON": refused(
        status("400 Bad Request", body=CONTROLS.encode()), "refused with status 400"
    ),
    "400 of a megabyte": refused(status("400 Bad Request", body={"error": {"message": "x" * 2**20}}), "status 400"),
    "400 with a list": refused(status("400 Bad Request", body=[1, 2]), "status 400"),
    "400 with a deep error": refused(status("400 Bad Request", body=b"[" * 100_000), "status 400"),
    "400, the prompt is too long": refused(
        status("400 Bad Request", body={"error": {"message": "maximum context length is 9"}}),
        "too long",
        ContextOverflow,
    ),
    "401": refused(status("401 Unauthorized"), "the key is refused"),
    "401 that drips": refused(bad.drips_after("401 Unauthorized"), "the key is refused"),
    "401 compressed": refused(status("401 Unauthorized", "Content-Encoding: br"), "the key is refused"),
    "401 midway": End(bad.after(1, status("401 Unauthorized")), ProviderError, "the key is refused", good=1),
    "403": refused(status("403 Forbidden"), "is the key right?"),
    "404": refused(status("404 Not Found"), "not found; check the URL"),
    "402": refused(status("402 Payment Required"), "nothing is left to pay with", OutOfCredit),
    "400, a parameter": refused(
        status("400 Bad Request", body={"error": {"message": "Unsupported parameter", "param": "seed"}}),
        "leave it out: model.parameters.omit: [seed]",
    ),
    "404, no such model": refused(
        status("404 Not Found", body={"error": "model 'x' not found, try pulling it first"}),
        f"it serves {bad.MODEL}: add --model-name {bad.MODEL}",
    ),
    "429, no quota": refused(
        status("429 Too Many Requests", body={"error": {"message": "no", "code": "insufficient_quota"}}),
        "nothing is left to pay with",
        OutOfCredit,
    ),
    "500, the prompt is too long": refused(
        status("500 Internal Server Error", body={"error": "input is too long for this model"}),
        "too long",
        ContextOverflow,
    ),
    "408": down(status("408 Request Timeout"), "status 408: no, after 2 attempts"),
    "413": refused(status("413 Payload Too Large"), "status 413", ContextOverflow),
    "422": refused(status("422 Unprocessable Entity"), "status 422"),
    "429 for ever": stalled(status("429 Too Many Requests")),
    "429, Retry-After absurd": stalled(status("429 Too Many Requests", "Retry-After: 99999999999999999999")),
    "429, Retry-After no number": stalled(status("429 Too Many Requests", "Retry-After: nan, inf, -1")),
    "429, Retry-After a date far off": stalled(
        status("429 Too Many Requests", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT")
    ),
    "429 once": replies(bad.until(1, status("429 Too Many Requests", "Retry-After: -5"))),
    "429 once, compressed": replies(bad.until(1, status("429 Too Many Requests", "Content-Encoding: br"))),
    "429 once, drips": replies(bad.until(1, bad.drips_after("429 Too Many Requests"))),
    "500": down(status("500 Internal Server Error"), "status 500: no, after 2 attempts"),
    "500 once": replies(bad.until(1, status("500 Internal Server Error"))),
    "502 with HTML": down(status("502 Bad Gateway", body=b"<html>" * 999), "status 502"),
    "503": down(status("503 Service Unavailable"), "status 503"),
    "503, Retry-After absurd": stalled(status("503 Service Unavailable", "Retry-After: 99999999999999999999")),
    "599": down(status("599 Odd"), "status 599"),
    "204": unread(sends(b"HTTP/1.1 204 No Content\r\n\r\n")),
    "304": refused(sends(b"HTTP/1.1 304 Not Modified\r\n\r\n"), "sends us on to nowhere"),
    "no status": down(sends(b"HTTP/1.1 abc\r\n\r\n", closes=True), "no reply after 2 attempts"),
}

REDIRECTS = {
    "to itself": refused(bad.sends_on("{url}/chat/completions"), "sends us on to"),
    "permanently": refused(bad.sends_on("{url}/again", "301 Moved Permanently"), "sends us on to"),
    "as GET": refused(bad.sends_on("{url}/again", "303 See Other"), "sends us on to"),
    "to a file": refused(bad.sends_on("file:///etc/passwd"), "sends us on to"),
    "to no URL": refused(bad.sends_on("http://[::1:9\x1b[2J"), "sends us on to"),
    "nowhere": refused(status("302 Found", body=b""), "sends us on to"),
}

BODIES = {
    "HTML": unread(body(b"<html>please log in</html>", kind="text/html")),
    "empty": unread(body(b"")),
    "blanks": unread(body(b" \n" * 1000)),
    "half of a reply": unread(body(json.dumps(bad.reply()).encode()[:-30])),
    "two replies": unread(body(json.dumps(bad.reply()).encode() * 2)),
    "events without a choice": unread(body(b'data: {"choices": []}\n\ndata: [DONE]\n\n', kind="text/event-stream")),
    "events that nobody asked for": counted(
        body(
            b': comment\n\ndata: {"choices": [{"delta": {"content": "Fritz "}}]}\n\n'
            b'data: {"choices": [{"text": "Lang", "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n',
            kind="text/event-stream",
        )
    ),
    "events that break off": down(
        body(b'data: {"choices": [{"delta": {"content": "Fr"}}]}\n\n', kind="text/event-stream"), "broke its reply off"
    ),
    "deep": unread(body(bad.deep(100_000))),
    "deep where nobody looks": unread(body(b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")),
    "an error with status 200": down(body({"error": {"message": "no kernel"}}), "status 500: no kernel"),
    "no credit with status 200": refused(
        body({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}),
        "nothing is left to pay with",
        OutOfCredit,
    ),
    "a limit with status 200": stalled(body({"choices": None, "error": {"message": "slower", "code": 429}})),
    "NaN": unread(body(b"NaN")),
    "null": unread(body(b"null")),
    "a number": unread(body(b"7")),
    "a number of a million digits": unread(body(b"7" * 1_000_000)),
    "a string": unread(body(b'"choices"')),
    "a list": unread(body(b"[]")),
    "no UTF-8": unread(body(json.dumps(bad.reply()).encode().replace(b"Fritz", b"\xff\xfe\xfd"))),
    "gigabytes in chunks": unread(bad.floods),
    "gigabytes of text": unread(bad.floods_text),
    "gzip bomb": unread(body(bad.bomb(1024), "Content-Encoding: gzip")),
    "gzip that nobody asked for": replies(body(bad.gzipped(bad.reply()), "Content-Encoding: gzip")),
    "no encoding": replies(body(bad.reply(), "Content-Encoding:")),
    "gzip that is none": unread(body(bad.reply(), "Content-Encoding: gzip")),
    "compressed in an unknown way": unread(body(bad.reply(), "Content-Encoding: x-odd")),
    "another charset in the head": replies(body(bad.reply(), kind="application/json; charset=utf-16")),
    "another type in the head": replies(body(bad.reply(), kind="text/plain")),
    "a key twice": replies(body(b'{"choices": [], ' + json.dumps(bad.reply()).encode()[1:])),
}

CHOICES = {
    **{
        f"choices {value!r}": unread(changed(choices=value))
        for value in (..., None, 7, "text", {}, [], [None], [7], ["text"], [[]], {"0": {}})
    },
    "many choices": replies(changed(choices=[bad.reply()["choices"][0], bad.reply("other")["choices"][0]] * 50)),
    "an odd index": replies(choice(index="first")),
    "no id": replies(changed(id=...)),
    "an odd id": replies(changed(id=[None])),
    "no object": replies(changed(object=None, created="never")),
    "another model": replies(changed(model="another")),
    "an odd model": replies(changed(model=[7])),
    "more fields": replies(changed(choices_=[], usage_=math.nan, __class__="x")),
    "no finish_reason": replies(choice(finish_reason=...)),
    "finish_reason null": replies(choice(finish_reason=None)),
    "an unknown finish_reason": replies(choice(finish_reason="tired\x1b[2J")),
    "finish_reason error": down(choice(finish_reason="error"), "broke its reply off"),
    "finish_reason abort": down(choice(finish_reason="abort"), "broke its reply off"),
    "broken off once": replies(bad.until(1, choice(finish_reason="error"))),
    "finish_reason an object": replies(choice(finish_reason={"type": "stop", "matched": 7})),
    "finish_reason of a window": replies(choice(finish_reason="model_length")),
    "finish_reason of a busy server": down(choice(finish_reason="insufficient_system_resource"), "broke its reply off"),
    "finish_reason a number": unread(choice(finish_reason=7)),
    "finish_reason a list": unread(choice(finish_reason=["stop"])),
    "content null": counted(choice(content=None)),
    "content a number": unread(choice(content=7)),
    "content a bool": unread(choice(content=True)),
    "content in parts": replies(choice(content=[{"type": "text", "text": "Fritz "}, {"type": "text", "text": "Lang"}])),
    "content an object": replies(choice(content={"text": "Fritz Lang"})),
    "content in parts of numbers": unread(choice(content=[7])),
    "half of an emoji": replies(choice(content="Fritz \ud83d Lang"), "Fritz ? Lang"),
    "controls in the content": replies(choice(content="Fritz \x00\x1b[2J Lang"), "Fritz \x00\x1b[2J Lang"),
    "a content of a megabyte": counted(choice(content="x" * 2**20)),
}

CONNECTIONS = {
    "broken at once": down(bad.resets, "no reply after 2 attempts"),
    "broken once": replies(bad.until(1, bad.resets)),
    "closed without a word": down(sends(closes=True), "no reply after 2 attempts"),
    "closed within the head": down(sends(b"HTTP/1.1 200 OK\r\nContent-", closes=True), "no reply after 2 attempts"),
    "closed within the body": down(bad.with_length(1000), "no reply after 2 attempts"),
    "hangs": down(bad.hangs, "no reply after 2 attempts"),
    "hangs midway": End(bad.after(2, bad.hangs), ServerUnavailable, "no reply after 2 attempts", good=2),
    "hangs within the body": down(bad.hangs_within, "no reply after 2 attempts"),
    "drips": down(bad.drips, "no reply after 2 attempts"),
    "drips within the head": down(bad.drips_head, "no reply after 2 attempts"),
    "100 for ever": down(bad.continues, "no reply after 2 attempts"),
    "HTTP/1.0": replies(bad.without_length),
    "in chunks of a byte": replies(bad.in_small_chunks),
    "a length that is too small": down(bad.with_length(-30), "no reply after 2 attempts"),
    "a length below nothing": down(bad.with_length(-10_000), "no reply after 2 attempts"),
    "a length that is none": down(body(bad.reply(), "Content-Length: many"), "no reply after 2 attempts"),
    "two lengths": down(body(bad.reply(), "Content-Length: 5", "Content-Length: 7"), "no reply after 2 attempts"),
    "chunks that are none": down(
        sends(bad.http(b"zz\r\n{}\r\n0\r\n\r\n", "200 OK", "Transfer-Encoding: chunked"), closes=True),
        "no reply after 2 attempts",
    ),
    "chunks without an end": down(
        sends(bad.http(b'5\r\n{"a":\r\n', "200 OK", "Transfer-Encoding: chunked"), closes=True),
        "no reply after 2 attempts",
    ),
    "a head of a megabyte": down(body(bad.reply(), "X-Large: " + "x" * 2**20), "no reply after 2 attempts"),
    "100,000 heads": down(body(bad.reply(), *["X-Again: 1"] * 100_000), "no reply after 2 attempts"),
    "no HTTP": down(sends(b"220 mail.example ESMTP\r\n", closes=True), "no reply after 2 attempts"),
    "TLS": down(sends(b"\x15\x03\x03\x00\x02\x02\x28", closes=True), "no reply after 2 attempts"),
    "two answers to one call": replies(bad.answers_twice),
}

ODD_COUNTS = (None, "7", 1.5, 7.0, math.nan, math.inf, -1_000_000, True, 10**30, 2**63, [7], {})
USAGES = {
    **{f"usage {value!r}": changed(usage=value) for value in (..., None, 7, "14", [11, 3], {}, {"total_tokens": 14})},
    **{f"tokens {value!r}": changed(usage=usage(value, value)) for value in ODD_COUNTS},
    "prompt tokens alone": changed(usage={"prompt_tokens": 11}),
    "completion tokens null": changed(usage=usage(11, None)),
    "fewer than nothing of one kind": changed(usage=usage(24, -10)),
    "nothing": changed(usage=usage(0, 0)),
}

MODES = {
    f"{kind}: {name}": end
    for kind, table in (
        ("status", STATUS),
        ("redirect", REDIRECTS),
        ("body", BODIES),
        ("reply", CHOICES),
        ("connection", CONNECTIONS),
        ("usage", {name: counted(mode) for name, mode in USAGES.items()}),
    )
    for name, end in table.items()
}


@dataclass
class Seen:
    """What is looked at in every mode."""

    ends: list[Reply | BaseException] = field(default_factory=list)
    memory: int = 0
    unheard: list[Any] = field(default_factory=list)
    """Errors that nobody caught, as the event loop was told of them."""


async def asked(server: bad.Server, ledger: SqliteLedger, **changes: Any) -> Seen:
    """Make the calls, one after the other."""
    seen = Seen()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.unheard.append(context))
    settings = {"timeout_s": TIMEOUT_S, "stall_s": STALL_S, "max_attempts": 2, "prices": PRICES}
    client = ModelClient(config(server.url, **settings | changes), ledger)
    await client.check()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        async with asyncio.timeout(WITHIN_S):
            for request in REQUESTS:
                seen.ends += await asyncio.gather(client.complete(request), return_exceptions=True)
    finally:
        await client.aclose()
    seen.memory = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory)
    return seen


def check_error(error: object, kind: type[TrailforgeError], says: str) -> None:
    """It is ours, says what is wrong, and can be shown."""
    assert type(error) is kind, repr(error)
    assert says in str(error), str(error)
    assert len(str(error)) < 600 and all(char.isprintable() for char in str(error)), repr(str(error))


async def check_ledger(path: Path, kept: list[Reply]) -> None:
    """It opens, and holds these replies and nothing else."""
    ledger = SqliteLedger(path)
    try:
        assert ledger.damage() is None and not ledger.unreadable()
        assert ledger.entries() == len(kept)
        for reply in kept:
            found = ledger.get(reply.key)
            assert found is not None and (found.text, found.finish_reason) == (reply.text, reply.finish_reason)
        assert await ledger.spent() == Usage(
            calls=len(kept),
            prompt_tokens=sum(reply.prompt_tokens for reply in kept),
            completion_tokens=sum(reply.completion_tokens for reply in kept),
        )
    finally:
        ledger.close()


@pytest.mark.parametrize("end", MODES.values(), ids=MODES.keys())
async def test_a_mode_ends_in_good_replies_or_in_one_clear_error(end: End, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    async with bad.misbehaving(end.mode) as server:
        seen = await asked(server, SqliteLedger(path), caps=Caps(max_calls=3, max_cost=1e6))
    kept = [each for each in seen.ends if isinstance(each, Reply)]
    assert len(kept) == end.good, seen.ends
    for error in seen.ends[end.good :]:
        assert end.error is not None
        check_error(error, end.error, end.says)
    for reply in kept:
        expected = "" if end is MODES["reply: content null"] else end.text
        assert reply.text == expected or end is MODES["reply: a content of a megabyte"]
        tokens = reply.prompt_tokens, reply.completion_tokens
        assert all(type(count) is int and 0 <= count <= MOST_TOKENS for count in tokens)
        assert tokens == end.tokens or (end.tokens is None and 5 <= tokens[0] < 1000 and sum(tokens) > 5)
    assert not seen.unheard
    assert seen.memory < MOST_MEMORY
    await check_ledger(path, kept)


async def test_a_redirect_to_another_server_is_not_followed_and_takes_no_prompt_along(tmp_path: Path) -> None:
    async with bad.misbehaving(bad.well) as elsewhere, bad.misbehaving(bad.sends_on(f"{elsewhere.url}/x")) as server:
        seen = await asked(server, SqliteLedger(tmp_path / "ledger.sqlite"))
        assert (elsewhere.calls, server.calls) == (0, 2 * len(REQUESTS))  # and a control each
    for error in seen.ends:
        check_error(error, ProviderError, elsewhere.url)
    await check_ledger(tmp_path / "ledger.sqlite", [])


async def test_a_server_that_sends_no_replies_for_too_long_is_not_said_to_be_silent(tmp_path: Path) -> None:
    """Tries that are left do not matter: the run ends when nothing was answered for `stall_s`."""
    async with bad.misbehaving(BODIES["HTML"].mode) as server:
        seen = await asked(server, SqliteLedger(tmp_path / "ledger.sqlite"), max_attempts=10**6, stall_s=0.3)
    for error in seen.ends:
        check_error(error, Stalled, NO_REPLY)


@pytest.mark.parametrize("name", USAGES)
async def test_caps_hold_whatever_is_said_of_tokens(name: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    caps = Caps(max_cost=1500.0) if name in ("usage Ellipsis", "tokens -1000000") else Caps(max_tokens=1500)
    async with bad.misbehaving(USAGES[name]) as server:
        client = ModelClient(config(server.url, caps=caps, prices=PRICES, max_in_flight=8), SqliteLedger(path))
        requests = [chat(f"Who directed M? {n}", sampling=Sampling(max_tokens=64)) for n in range(120)]
        ends = await asyncio.gather(*map(client.complete, requests), return_exceptions=True)
        await client.aclose()
        kept = [each for each in ends if isinstance(each, Reply)]
        assert {type(end) for end in ends} == {Reply, BudgetExceeded}
        assert 3 <= len(kept) == server.calls <= 100
    await check_ledger(path, kept)
    assert sum(reply.prompt_tokens + reply.completion_tokens for reply in kept) <= 1500
