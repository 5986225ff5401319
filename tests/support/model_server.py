"""A model server on loopback for tests: a scripted model behind a real OpenAI-compatible HTTP interface.

    python -m tests.support.model_server --latency 0.05 --slots 64 --log calls.log

prints its port, then serves until its standard input ends, or the process that has begun it by `running`. The log has
a line per call received (`in KEY`) and per call answered (`out KEY`), written before the reply is sent. `/stats` says
how busy its slots were. `--rate` and `--burst` put a token bucket before it; `weather` makes shares of all calls fail,
until it is told otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from aiohttp import web

from tests.support.warm import Running


class Bucket:
    """A token bucket: `burst` calls at once, `rate` a second for ever."""

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, burst
        self.tokens, self.filled_at = float(burst), time.monotonic()

    def admits(self) -> bool:
        """Take a token, if there is one."""
        now = time.monotonic()
        self.tokens = min(self.burst, self.tokens + self.rate * (now - self.filled_at))
        self.filled_at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class Server:
    """Slots, latency, faults, counts."""

    def __init__(
        self,
        model: Callable[[str, int], Any],
        *,
        latency_s: float = 0.0,
        slots: int = 64,
        spread: float = 0.0,
        log: IO[str] | None = None,
        bucket: Bucket | None = None,
        retry_after: str = "",
        most: int = 0,
    ) -> None:
        self.model, self.latency_s, self.slots, self.spread, self.log = model, latency_s, slots, spread, log
        self.bucket, self.retry_after, self.most, self.under_way = bucket, retry_after, most, 0
        self.limited = 0
        self.replied: list[float] = []
        self.weather: dict[str, float] = {}
        self.dice = random.Random(0)
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
        if self.bucket is not None and not self.bucket.admits():
            return self._limit()
        if self.most and self.under_way >= self.most:
            return self._limit()
        if (spoilt := await self._spoilt(request)) is not None:
            return spoilt
        self._note("in", key)
        self.calls += 1
        self.keys.add(key)
        self.under_way += 1
        try:
            async with self.free:
                await self._serve(key)
        finally:
            self.under_way -= 1
        prompt = body["prompt"] if "prompt" in body else "\n".join(m["content"] for m in body["messages"])
        text = self.model(prompt, body.get("seed", 0))
        self._note("out", key)
        self.replied.append(time.monotonic())
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
                "limited": self.limited,
            }
        )

    async def times(self, _: web.Request) -> web.Response:
        """When each reply was sent, by `time.monotonic`, which all processes of a machine share."""
        return web.json_response(self.replied)

    async def set_faults(self, request: web.Request) -> web.Response:
        """POST a list of {status, headers, body} or {drop: true}: the next calls fail in this way."""
        self.faults = await request.json()
        return web.json_response({})

    async def set_weather(self, request: web.Request) -> web.Response:
        """POST shares of calls by what they meet: `limited` (429), `malformed`, `half`, `hang`, `error` (500)."""
        self.weather = await request.json()
        return web.json_response({})

    async def models(self, _: web.Request) -> web.Response:
        """The served model."""
        return web.json_response({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    async def embed(self, request: web.Request) -> web.Response:
        """Vectors of the words of texts: those that share words are near."""
        body = await request.json()
        vectors = [embedding(text) for text in body["input"]]
        return web.json_response({"data": [{"index": n, "embedding": each} for n, each in enumerate(vectors)]})

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

    def _limit(self) -> web.Response:
        self.limited += 1
        headers = {"Retry-After": self.retry_after} if self.retry_after else {}
        return web.json_response({"error": {"message": "slower"}}, status=429, headers=headers)

    async def _spoilt(self, request: web.Request) -> web.StreamResponse | None:
        """What the weather makes of this call; None: nothing."""
        kinds, shares = [*self.weather, ""], [*self.weather.values()]
        what = self.dice.choices(kinds, [*shares, 1 - sum(shares)])[0]
        if not what:
            return None
        if what == "limited":
            return self._limit()
        if what == "error":
            return web.json_response({"error": {"message": "broken"}}, status=500)
        if what == "malformed":
            return web.Response(text='{"choices": [{"mess', content_type="application/json")
        if what == "hang":
            await asyncio.sleep(3600)
        response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"choices": [')
        assert request.transport is not None
        request.transport.close()
        return response

    def _note(self, what: str, key: str) -> None:
        if self.log is not None:
            self.log.write(f"{what} {key}\n")
            self.log.flush()


def _reply(body: dict[str, Any], prompt: str, text: Any) -> dict[str, Any]:
    """A word is a token: what is longer than `max_tokens` is cut. A turn of a research agent is never cut."""
    if not isinstance(text, str):
        from tests.support.browse_agent import message_of

        message = message_of(text, body)
        return _body(body, prompt, json.dumps(message), {"message": message}, is_cut=False)
    words, most = text.split(), body["max_tokens"]
    if is_cut := len(words) > most:
        text = " ".join(words[:most])
    content = {"text": text} if "prompt" in body else {"message": {"role": "assistant", "content": text}}
    return _body(body, prompt, text, content, is_cut=is_cut)


def _body(body: dict[str, Any], prompt: str, text: str, content: dict[str, Any], *, is_cut: bool) -> dict[str, Any]:
    usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())}
    return {
        "id": "x", "object": "completion", "created": 0, "model": body["model"],
        "choices": [{"index": 0, "finish_reason": "length" if is_cut else "stop", **content}],
        "usage": usage | {"total_tokens": sum(usage.values())},
    }  # fmt: skip


def embedding(text: str) -> list[float]:
    """64 numbers: a word counts at a place of its own, or shares it."""
    vector = [0.01] * 64
    for word in re.findall(r"\w+", text.casefold()):
        vector[hashlib.sha256(word.encode()).digest()[0] % 64] += 1.0
    return vector


def verdict(prompt: str, seed: int) -> str:
    """What a judge replies that takes an answer for right in so far as it is short: 1 for one word, 1/2 for two …"""
    answer = prompt.rpartition("\nAnswer: ")[2].partition("\n\n")[0]
    return json.dumps({"score": round(1 / max(1, len(answer.split())), 3)})


@contextmanager
def running(**options: object) -> Iterator[str]:
    """A server in its own process and process group; gives its base URL."""
    process, url = start(**options)
    try:
        yield url
    finally:
        process.end_group()


def start(**options: object) -> tuple[Running, str]:
    """A server and its base URL. It ends with this process, if nobody ends it before."""
    arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    with tempfile.TemporaryDirectory(prefix="trailforge-model-") as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        process = Running(arguments, os.environ, out, err, module="tests.support.model_server")
        while not (port := out.read_text() if out.exists() else "").endswith("\n"):
            assert process.poll() is None, err.read_text()
            time.sleep(0.005)
    return process, f"http://127.0.0.1:{int(port)}/v1"


def stats(url: str) -> dict[str, Any]:
    """`/stats` of a running server."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as response:
        return json.load(response)


def fail_next(url: str, *faults: dict[str, Any]) -> None:
    """Make the next calls fail."""
    request = urllib.request.Request(url.removesuffix("/v1") + "/faults", json.dumps(faults).encode(), method="POST")
    urllib.request.urlopen(request).close()


def weather(url: str, **shares: float) -> None:
    """Set the weather of a running server; without shares it is fine again."""
    request = urllib.request.Request(url.removesuffix("/v1") + "/weather", json.dumps(shares).encode(), method="POST")
    urllib.request.urlopen(request).close()


def reply_times(url: str) -> list[float]:
    """`/times` of a running server."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/times") as response:
        return json.load(response)


def _model_of(options: argparse.Namespace) -> Callable[[str, int], Any]:
    """The scripted model that the options name. Each is imported when it is asked for."""
    if options.judge:
        return verdict
    if options.nightly:
        from tests.support import nightly_world

        return nightly_world.Model()
    if options.bundles:
        from tests.support import bundle_world

        return bundle_world.Model()
    if options.kg:
        from tests.support import kg_agent

        return kg_agent.Model()
    if options.agents:
        from tests.support import search_agent

        return search_agent.Model()
    if options.browse:
        from tests.support import browse_agent

        return browse_agent.Model(options.browse)
    if options.evaluations:
        from tests.support import agent_model

        return agent_model.Model()
    from tests.support import world

    return world.Model(error_rate=options.error_rate)


async def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--spread", type=float, default=0.0, help="sigma of a lognormal factor of the latency")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--error-rate", type=float, default=0.0)
    parser.add_argument("--bundles", type=int, default=0, help="1: the model of bundles of documents")
    parser.add_argument("--kg", type=int, default=0, help="1: the model of the pipelines over a knowledge graph")
    parser.add_argument("--agents", type=int, default=0, help="1: an agent of any protocol that searches documents")
    parser.add_argument("--nightly", type=int, default=0, help="1: the model of a night, for all three data sets")
    parser.add_argument("--evaluations", type=int, default=0, help="1: the model of all agents of evaluations")
    parser.add_argument("--browse", type=int, default=0, help="1 or 2: a research agent, in both writings")
    parser.add_argument("--judge", type=int, default=0, help="1: a judge of answers")
    parser.add_argument("--rate", type=float, help="calls a second that are permitted; 429 beyond")
    parser.add_argument("--burst", type=int, default=20, help="calls at once that are permitted")
    parser.add_argument("--most", type=int, default=0, help="calls under way that are permitted; 429 beyond")
    parser.add_argument("--retry-after", default="", help="Retry-After header of a 429")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    server = Server(
        _model_of(options),
        latency_s=options.latency,
        slots=options.slots,
        spread=options.spread,
        log=open(options.log, "a") if options.log else None,  # noqa: SIM115, open as long as the server is
        bucket=Bucket(options.rate, options.burst) if options.rate else None,
        retry_after=options.retry_after,
        most=options.most,
    )
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", server.answer)
    app.router.add_post("/v1/completions", server.answer)
    app.router.add_post("/v1/embeddings", server.embed)
    app.router.add_get("/v1/models", server.models)
    app.router.add_get("/health", server.models)
    app.router.add_get("/stats", server.stats)
    app.router.add_get("/times", server.times)
    app.router.add_post("/faults", server.set_faults)
    app.router.add_post("/weather", server.set_weather)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, options.host, options.port, backlog=1024)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)  # type: ignore[union-attr]
    parent = multiprocessing.parent_process()
    await asyncio.get_running_loop().run_in_executor(None, parent.join if parent else sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
