"""A server on loopback that answers as it was told, and keeps what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One reply. `cut`: the connection breaks in the middle of it."""

    body: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cut: bool = False


@dataclass
class Recorded:
    """The server's answers in turn, the last one for ever, and what came in."""

    answers: Sequence[Answer]
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Parameters of a GET, the body of a POST."""
    headers: list[Mapping[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    busy: int = 0
    most_busy: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Keep the request, give the next answer."""
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.times.append(asyncio.get_running_loop().time())
        self.asked.append(dict(request.query) if request.method == "GET" else await request.json())
        self.headers.append(request.headers)
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        await asyncio.sleep(answer.delay_s)
        self.busy -= 1
        if not answer.cut:
            return web.Response(text=answer.body, status=answer.status, headers=answer.headers)
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(answer.body.encode())
        assert request.transport is not None
        request.transport.close()
        return response


@asynccontextmanager
async def recorded(*answers: Answer | str) -> AsyncIterator[Recorded]:
    """A running server with these answers; a text is a body with status 200."""
    server = Recorded([Answer(body=a) if isinstance(a, str) else a for a in answers])
    app = web.Application()
    app.router.add_route("*", "/api", server.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/api"
    try:
        yield server
    finally:
        await runner.cleanup()
