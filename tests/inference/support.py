"""What the tests of this folder share: requests, replies, and a model server inside the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from trailforge.inference import ChatTurn, ClientConfig, Reply, Request, Sampling
from trailforge.inference.ledgers.sqlite import Ledger

MODEL = "some-model"


def chat(text: str = "Who directed Metropolis?", **changes: Any) -> Request:
    """A chat request."""
    return Request(
        **{"model": MODEL, "prompt": (ChatTurn(role="user", content=text),), "sampling": Sampling()} | changes
    )


def completion(text: str = "Metropolis was directed by", **changes: Any) -> Request:
    """A request for the completions endpoint."""
    return Request(**{"model": MODEL, "prompt": text, "sampling": Sampling()} | changes)


def reply_to(request: Request, text: str = "Fritz Lang", **changes: Any) -> Reply:
    """A reply with that request's key."""
    content = {"text": text, "finish_reason": "stop", "prompt_tokens": 7, "completion_tokens": 2, "key": request.key}
    return Reply(**content | changes)


def allowing(max_tokens: int, **changes: Any) -> Request:
    """The same request, but for how long the reply may be."""
    return chat(sampling=Sampling(max_tokens=max_tokens), **changes)


async def check_families(ledger: Ledger) -> None:
    """What any ledger has to do for `find_complete`."""
    cut, whole, other = allowing(4), allowing(64), chat("Who directed M?", sampling=Sampling(max_tokens=64))
    await ledger.put(cut, reply_to(cut, "Fritz", finish_reason="length", completion_tokens=4))
    assert await ledger.find_complete(cut) is None and await ledger.find_complete(whole) is None
    await ledger.put(whole, reply_to(whole, "Fritz Lang, in 1927", completion_tokens=9))
    for longest, redo in ((64, 0), (64, 1), (9, 0), (9, 7), (8192, 0)):
        found = await ledger.find_complete(allowing(longest, redo=redo))
        assert found is not None and found.from_ledger and (found.text, found.key) == ("Fritz Lang, in 1927", whole.key)
    assert await ledger.find_complete(allowing(8)) is None
    hides = allowing(64, seed=7)  # the server bills thoughts that it hides, and `max_tokens` did not end
    await ledger.put(hides, reply_to(hides, completion_tokens=9000))
    for longest, is_found in ((63, False), (64, True), (65, True), (8192, True)):
        assert (await ledger.find_complete(allowing(longest, seed=7)) is not None) is is_found
    assert await ledger.find_complete(other) is None
    assert await ledger.find_complete(allowing(64, sample=1)) is None


def config(url: str, **changes: Any) -> ClientConfig:
    """Of a client that does not wait long between attempts."""
    settings = {"base_url": url, "model": MODEL, "backoff_s": 0.001, "max_attempts": 3, "timeout_s": 20.0}
    return ClientConfig(**settings | changes)


def answer(text: str = "Fritz Lang", *, usage: Any = (11, 3), **message: Any) -> Any:
    """The body of a reply that both endpoints may give."""
    body: dict[str, Any] = {
        "id": "x", "object": "chat.completion", "created": 0, "model": MODEL,
        "choices": [
            {"index": 0, "finish_reason": "stop", "text": text,
             "message": {"role": "assistant", "content": text} | message}
        ],
    }  # fmt: skip
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return body


def failure(status: int, message: str = "no", **headers: str) -> web.Response:
    """A reply with that status and an error in OpenAI's form."""
    return web.json_response({"error": {"message": message}}, status=status, headers=headers)


class ModelServer:
    """Gives its `replies` in order, then what `always` makes, if it is set, and else `Fritz Lang` to every call. Holds
    replies back while `gate` is not set."""

    def __init__(self) -> None:
        self.url = ""
        self.replies: list[Any] = []
        self.always: Callable[[], Any] | None = None
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.in_flight = self.most_in_flight = 0
        self._runner: web.AppRunner | None = None

    @property
    def calls(self) -> int:
        """Calls received."""
        return len(self.bodies)

    async def reached(self, calls: int) -> None:
        """Wait until so many calls were received."""
        async with asyncio.timeout(120):
            while self.calls < calls:
                await asyncio.sleep(0.002)

    async def start(self) -> None:
        """Listen on a free port."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_post("/v1/completions", self._answer)
        app.router.add_get("/v1/models", self._models)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def stop(self) -> None:
        """Nothing answers at `url` any more."""
        self.gate.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        self.paths.append(request.path)
        self.keys.append(request.headers.get("Authorization", ""))
        planned = self._planned(answer)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.gate.wait()
            await asyncio.sleep(0.002)
        finally:
            self.in_flight -= 1
        return planned if isinstance(planned, web.Response) else web.json_response(planned)

    async def _models(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers.get("Authorization", ""))
        planned = self._planned(lambda: {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0}]})
        return planned if isinstance(planned, web.Response) else web.json_response(planned)

    def _planned(self, else_: Callable[[], Any]) -> Any:
        return self.replies.pop(0) if self.replies else (self.always or else_)()


@asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    """A server that listens."""
    server = ModelServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
