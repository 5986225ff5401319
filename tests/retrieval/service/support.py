"""A search server of a few lines, which answers as a test tells it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from trailforge.retrieval.service.client import SearchClientConfig

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

QUICK = SearchClientConfig(timeout_s=0.3, limit_s=1.0, backoff_s=0.01)


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
