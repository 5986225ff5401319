"""A model server that misbehaves: each mode is a small function, which sends whatever it likes on a raw connection."""

from __future__ import annotations

import asyncio
import json
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

MODEL = "some-model"
TEXT = "Fritz Lang"


@dataclass(frozen=True)
class Call:
    """One request as it came, and the connection to misbehave on."""

    server: Server
    number: int
    """From 0, over all connections."""
    body: dict[str, Any]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, content: bytes) -> None:
        """Raises `ConnectionError` when nobody listens any more."""
        self.writer.write(content)
        await self.writer.drain()

    def honest(self, **changes: Any) -> dict[str, Any]:
        """A reply as it should be, with other fields."""
        prompt = self.body.get("prompt") or "\n".join(turn["content"] for turn in self.body.get("messages", ()))
        return reply(self.server.model(prompt, self.body.get("seed", 0)), **changes)


Mode = Callable[[Call], Awaitable[bool]]
"""Answers a call; back comes whether the connection may be used again."""


class Server:
    """Listens on loopback. `/models` is always answered well: what is looked at here are calls."""

    def __init__(self, mode: Mode, model: Callable[[str, int], str] = lambda prompt, seed: TEXT) -> None:
        self.mode, self.model = mode, model
        self.url, self.calls = "", 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def stop(self) -> None:
        """Break every connection."""
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while await self._answered(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        sizes = [line.partition(":")[2] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
        content = await reader.readexactly(int(sizes[0]) if sizes else 0)
        if head.split()[1].endswith("/models"):
            writer.write(http({"object": "list", "data": [{"id": MODEL, "object": "model"}]}))
            await writer.drain()
            return True
        number, self.calls = self.calls, self.calls + 1
        return await self.mode(Call(self, number, json.loads(content) if content else {}, reader, writer))


@asynccontextmanager
async def misbehaving(mode: Mode) -> AsyncIterator[Server]:
    """A server in the test's own event loop."""
    server = Server(mode)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextmanager
def misbehaving_beside(mode: Mode, model: Callable[[str, int], str]) -> Iterator[Server]:
    """A server in a thread, for commands in processes of their own."""
    server, loop = Server(mode, model), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        yield server
    finally:
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# What is sent


def reply(text: Any = TEXT, **changes: Any) -> dict[str, Any]:
    """The body of a reply that both endpoints may give."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "text": text, "message": message}
    body = {"id": "x", "object": "chat.completion", "created": 0, "model": MODEL, "choices": [choice]}
    return body | {"usage": usage(11, 3)} | changes


def usage(prompt: Any, completion: Any) -> dict[str, Any]:
    """As a reply reports it."""
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": 14}


def http(body: object, status: str = "200 OK", *headers: str, kind: str = "application/json") -> bytes:
    """A whole response, which keeps the connection."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sizes = (
        ()
        if any(line.lower().startswith(("content-length", "transfer-encoding")) for line in headers)
        else (f"Content-Length: {len(content)}",)
    )
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", *sizes, *headers, "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogatepass") + content


def sends(*pieces: bytes, closes: bool = False) -> Mode:
    """To every call the same bytes."""

    async def mode(call: Call) -> bool:
        for piece in pieces:
            await call.send(piece)
        return not closes

    return mode


def status(line: str, *headers: str, body: object = None) -> Mode:
    """To every call this status, with an error in OpenAI's form."""
    return sends(http({"error": {"message": "no"}} if body is None else body, line, *headers))


def body(content: object, *headers: str, kind: str = "application/json") -> Mode:
    """To every call this body with status 200."""
    return sends(http(content, "200 OK", *headers, kind=kind))


def changed(**changes: Any) -> Mode:
    """A good reply, but for these fields; `...` leaves a field out."""

    async def mode(call: Call) -> bool:
        honest = {name: value for name, value in call.honest(**changes).items() if value is not ...}
        await call.send(http(json.dumps(honest).encode("utf-8", "surrogatepass")))
        return True

    return mode


def choice(**changes: Any) -> Mode:
    """A good reply, but for these fields of its choice, and of the choice's message."""

    async def mode(call: Call) -> bool:
        honest = call.honest()
        first = honest["choices"][0]
        if "content" in changes:
            first["message"]["content"] = first["text"] = changes["content"]
        first["message"] |= {name: value for name, value in changes.items() if name.startswith("reasoning")}
        first |= {name: value for name, value in changes.items() if name in ("finish_reason", "index")}
        honest["choices"][0] = {name: value for name, value in first.items() if value is not ...}
        await call.send(http(honest))
        return True

    return mode


def after(good: int, mode: Mode) -> Mode:
    """So many good replies, then the mode."""

    async def first_good(call: Call) -> bool:
        return await (mode if call.number >= good else well)(call)

    return first_good


def until(bad: int, mode: Mode) -> Mode:
    """So many times the mode, then good replies."""

    async def first_bad(call: Call) -> bool:
        return await (mode if call.number < bad else well)(call)

    return first_bad


well = changed()
"""No misbehaviour."""


# Connections


async def hangs(call: Call) -> bool:
    """Nothing comes."""
    await asyncio.sleep(3600)
    return False


async def hangs_within(call: Call) -> bool:
    """The head comes, and half of the body."""
    whole = http(call.honest())
    await call.send(whole[:-20])
    await asyncio.sleep(3600)
    return False


def drips_after(line: str) -> Mode:
    """This status, and a byte now and then: something always comes, and it never ends."""

    async def mode(call: Call) -> bool:
        await call.send(http(b"", line, "Content-Length: 1000000"))
        while True:
            await call.send(b" ")
            await asyncio.sleep(0.02)

    return mode


drips = drips_after("200 OK")


async def drips_head(call: Call) -> bool:
    """A head without end, a line now and then."""
    await call.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await call.send(b"X-Again: 1\r\n")
        await asyncio.sleep(0.02)


async def resets(call: Call) -> bool:
    """The connection breaks at once."""
    call.writer.transport.abort()
    return False


async def continues(call: Call) -> bool:
    """`100 Continue` without end."""
    while True:
        await call.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 64)
        await asyncio.sleep(0.005)


async def floods(call: Call) -> bool:
    """A body of two gigabytes, of which its head says nothing."""
    await call.send(http(b"", "200 OK", "Transfer-Encoding: chunked"))
    for _ in range(2048):
        await call.send(b"100000\r\n" + bytes(2**20) + b"\r\n")
    return False


async def floods_text(call: Call) -> bool:
    """A text of two gigabytes within a reply."""
    await call.send(http(b"", "200 OK", "Content-Length: 2147483648"))
    await call.send(b'{"choices": [{"message": {"content": "')
    for _ in range(2048):
        await call.send(b"x" * 2**20)
    return False


async def in_small_chunks(call: Call) -> bool:
    """A good reply, a byte a chunk."""
    content = json.dumps(call.honest()).encode()
    await call.send(http(b"", "200 OK", "Transfer-Encoding: chunked"))
    await call.send(b"".join(b"1\r\n%c\r\n" % byte for byte in content) + b"0\r\n\r\n")
    return True


async def without_length(call: Call) -> bool:
    """HTTP/1.0: the end of the connection is the end of the reply."""
    await call.send(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + json.dumps(call.honest()).encode())
    return False


async def answers_twice(call: Call) -> bool:
    """A second reply that nobody asked for, which must not be taken for the answer to the next call."""
    await call.send(http(call.honest()) + http(reply("of nobody")))
    return True


def with_length(more: int, *, closes: bool = True) -> Mode:
    """A good reply, whose `Content-Length` is another."""

    async def mode(call: Call) -> bool:
        content = json.dumps(call.honest()).encode()
        await call.send(http(content, "200 OK", f"Content-Length: {len(content) + more}"))
        return not closes

    return mode


def sends_on(target: str, line: str = "307 Temporary Redirect") -> Mode:
    """A redirect. `{url}`: of this server."""

    async def mode(call: Call) -> bool:
        await call.send(http(b"", line, f"Location: {target.format(url=call.server.url)}"))
        return True

    return mode


def bomb(size: int) -> bytes:
    """Little that unpacks, by gzip, to so many MiB: one packed block again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    begin = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return begin + again * (size - 1)


def gzipped(content: object) -> bytes:
    """As a server sends it that compresses."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(json.dumps(content).encode()) + packer.flush()


def deep(levels: int) -> bytes:
    """A reply whose text is a list in a list in a list …"""
    return b'{"choices": [{"message": {"content": ' + b"[" * levels + b"]" * levels + b"}}]}"
