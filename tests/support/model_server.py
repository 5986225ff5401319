"""A model server on loopback for tests: a scripted model behind a real OpenAI-compatible HTTP interface.

    python -m tests.support.model_server --latency 0.05 --slots 64 --log calls.log

prints its port, then serves until its standard input ends. The log has a line per call received (`in KEY`) and per call
answered (`out KEY`), written before the reply is sent. `/stats` says how busy its slots were.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from aiohttp import web

from tests.support.world import Model


class Server:
    """Slots, latency, faults, counts."""

    def __init__(self, model: Model, *, latency_s: float, slots: int, spread: float, log: IO[str] | None) -> None:
        self.model, self.latency_s, self.slots, self.spread, self.log = model, latency_s, slots, spread, log
        self.free = asyncio.Semaphore(slots)
        self.keys: set[str] = set()
        self.calls = self.busy = self.most_busy = 0
        self.work: list[tuple[float, float]] = []  # start and end of every call
        self.first_s = self.last_s = 0.0
        self.faults: list[dict[str, Any]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """A chat or raw completion."""
        body = await request.json()
        key = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        if self.faults:
            return await self._fault(request, self.faults.pop(0))
        self._note("in", key)
        self.calls += 1
        self.keys.add(key)
        async with self.free:
            await self._serve(key)
        prompt = body["prompt"] if "prompt" in body else "\n".join(m["content"] for m in body["messages"])
        text = self.model(prompt, body.get("seed", 0))
        self._note("out", key)
        return web.json_response(_reply(body, prompt, text))

    async def stats(self, _: web.Request) -> web.Response:
        """Counts so far; `busy_fraction`: of all slots, between the first call and the last reply; `busy_by_tenth`: of
        each tenth of that time."""
        span = self.last_s - self.first_s
        tenths = [(self.first_s + span * n / 10, self.first_s + span * (n + 1) / 10) for n in range(10)] if span else []
        return web.json_response(
            {
                "calls": self.calls,
                "unique": len(self.keys),
                "most_busy": self.most_busy,
                "busy_fraction": self._busy(self.first_s, self.last_s) if span else 0.0,
                "busy_by_tenth": [self._busy(start, end) for start, end in tenths],
                "seconds": span,
            }
        )

    async def set_faults(self, request: web.Request) -> web.Response:
        """POST a list of {status, headers, body} or {drop: true}: the next calls fail in this way."""
        self.faults = await request.json()
        return web.json_response({})

    async def models(self, _: web.Request) -> web.Response:
        """The served model."""
        return web.json_response({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    async def _serve(self, key: str) -> None:
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        started = time.monotonic()
        self.first_s = self.first_s or started
        seconds = self.latency_s
        if self.spread:
            seconds *= random.Random(key).lognormvariate(-(self.spread**2) / 2, self.spread)
        await asyncio.sleep(seconds)
        self.last_s = time.monotonic()
        self.work.append((started, self.last_s))
        self.busy -= 1

    def _busy(self, start: float, end: float) -> float:
        """Share of all slots at work between two times."""
        worked = sum(max(0.0, min(until, end) - max(since, start)) for since, until in self.work)
        return worked / ((end - start) * self.slots)

    async def _fault(self, request: web.Request, fault: dict[str, Any]) -> web.StreamResponse:
        if fault.get("drop"):
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        return web.json_response(fault.get("body", {}), status=fault["status"], headers=fault.get("headers"))

    def _note(self, what: str, key: str) -> None:
        if self.log is not None:
            self.log.write(f"{what} {key}\n")
            self.log.flush()


def _reply(body: dict[str, Any], prompt: str, text: str) -> dict[str, Any]:
    content = {"text": text} if "prompt" in body else {"message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())}
    return {
        "id": "x", "object": "completion", "created": 0, "model": body["model"],
        "choices": [{"index": 0, "finish_reason": "stop", **content}],
        "usage": usage | {"total_tokens": sum(usage.values())},
    }  # fmt: skip


@contextmanager
def running(**options: object) -> Iterator[str]:
    """A server in its own process and process group; gives its base URL."""
    arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.model_server", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.communicate()


def stats(url: str) -> dict[str, Any]:
    """`/stats` of a running server."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as response:
        return json.load(response)


def fail_next(url: str, *faults: dict[str, Any]) -> None:
    """Make the next calls fail."""
    request = urllib.request.Request(url.removesuffix("/v1") + "/faults", json.dumps(faults).encode(), method="POST")
    urllib.request.urlopen(request).close()


async def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--spread", type=float, default=0.0, help="sigma of a lognormal factor of the latency")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--error-rate", type=float, default=0.0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    server = Server(
        Model(error_rate=options.error_rate),
        latency_s=options.latency,
        slots=options.slots,
        spread=options.spread,
        log=open(options.log, "a") if options.log else None,  # noqa: SIM115, open as long as the server is
    )
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", server.answer)
    app.router.add_post("/v1/completions", server.answer)
    app.router.add_get("/v1/models", server.models)
    app.router.add_get("/stats", server.stats)
    app.router.add_post("/faults", server.set_faults)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", options.port, backlog=1024)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)  # type: ignore[union-attr]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
