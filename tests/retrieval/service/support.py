"""Search servers on loopback: ours, and one of a few lines that answers as a test tells it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession, web

from trailforge.retrieval.backends.declaration import FoundPassage
from trailforge.retrieval.service.client import SearchClientConfig
from trailforge.retrieval.service.server import SearchServer, make_runner
from trailforge.schemas import Passage, RetrievalError

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

JSON = {"Content-Type": "application/json"}
QUICK = SearchClientConfig(timeout_s=1.0, limit_s=3.0, backoff_s=0.01)


def closed_port() -> int:
    """One at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@asynccontextmanager
async def answering(answer: Answer, port: int = 0) -> AsyncIterator[str]:
    """Its address. Every request goes to `answer`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serving(server: SearchServer) -> AsyncIterator[str]:
    """The address of one of ours."""
    runner = make_runner(server, grace_s=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def post(url: str, body: Any) -> tuple[int, Any, Mapping[str, str]]:
    """Status, JSON and headers of what is answered."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with ClientSession() as session, session.post(url, data=content, headers=JSON) as response:
        return response.status, await response.json(), response.headers


async def get(url: str) -> Any:
    """JSON at an address."""
    async with ClientSession() as session, session.get(url) as response:
        return await response.json()


class ScriptedIndex:
    """Finds one passage, whose text is the query. Notes its searches, waits for `gate`, and fails for `bad`."""

    def __init__(self) -> None:
        self.searched: list[str] = []
        self.busy = self.most_busy = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """See `Index`."""
        self.searched.append(query)
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            await self.gate.wait()
            if query == "bad":
                raise RetrievalError("the index is broken")
            return [echo(query)]
        finally:
            self.busy -= 1


class ScriptedBatchIndex(ScriptedIndex):
    """The same for several queries at once."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    async def find_many(self, queries: Sequence[str], k: int) -> list[list[FoundPassage]]:
        """`find` for each of them."""
        self.batches.append(len(queries))
        self.searched += queries
        await self.gate.wait()
        if "bad" in queries:
            raise RetrievalError("the index is broken")
        return [[echo(query)] for query in queries]


def echo(query: str) -> FoundPassage:
    """What the scripted indexes find."""
    return FoundPassage(passage=Passage(id="1", title="Echo", text=query, score=1.0), why="said so", sources=("1",))


def saying(*answers: Any) -> tuple[Answer, list[Any]]:
    """Gives the answers one after the other, the last for ever, and notes what it was asked.

    An answer is JSON, or a status, or a status with headers.
    """
    asked: list[Any] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        asked.append((request.path, await request.json() if body else None))
        said = answers[min(len(asked), len(answers)) - 1]
        if isinstance(said, int):
            return web.Response(status=said)
        if isinstance(said, tuple):
            return web.json_response({"error": "too busy"}, status=said[0], headers=said[1])
        return web.json_response(said)

    return answer, asked
