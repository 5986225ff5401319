"""Our client beside the bare openai package: requests a second, CPU seconds and peak memory of the whole process.

Each kind runs in a process of its own against one scripted server on loopback; rounds are
interleaved, figures are medians. `trailforge` keeps every reply in a fresh ledger; `openai` keeps nothing, and sends as
many at once. `CPU ms a call` leaves imports out, `all` does not.

    make bench B=engine
    make bench B=engine ARGS="--only trailforge --prompts 100000 --rounds 1"
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
KINDS = ("trailforge", "openai, aiohttp", "openai")
_WORDS = "search agents decompose a question and read what they find before they answer " * 12
_ANSWER_TOKENS = 256


def main() -> None:
    """Run the rounds and print the table; with `--child`, one run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds a call")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--child", nargs=2, metavar=("KIND", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_one_run(options.child[0], options.child[1], options.prompts, options.in_flight)))
        return
    from tests.support.model_server import running

    kinds = options.only or KINDS
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    with running(latency=options.latency, slots=options.in_flight) as url:
        for _ in range(options.rounds):
            for kind in kinds:
                runs[kind].append(_child(kind, url, options))
    _print(runs)


def _child(kind: str, url: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.engine", "--child", kind, url]
    command += ["--prompts", str(options.prompts), "--in-flight", str(options.in_flight)]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def _one_run(kind: str, url: str, prompts: int, in_flight: int) -> dict[str, float]:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = _ours(url, in_flight, Path(folder)) if kind == "trailforge" else _bare(url, in_flight, kind)
        asyncio.run(run(1))  # what is loaded at the first call is no cost of a call
        loaded_s = _cpu_s()
        seconds = asyncio.run(run(prompts))
    return {
        "requests_per_s": prompts / seconds,
        "cpu_s": _cpu_s(),
        "cpu_ms": 1000 * (_cpu_s() - loaded_s) / prompts,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "wall_s": time.monotonic() - started,
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _drain(prompts: int, workers: int, ask: Callable[[int], Awaitable[object]]) -> float:
    """Ask all, so many at a time; the seconds from the first to the last."""
    numbers = iter(range(prompts))

    async def work() -> None:
        for number in numbers:
            await ask(number)

    started = time.monotonic()
    await asyncio.gather(*(work() for _ in range(workers)))
    return time.monotonic() - started


def _ours(url: str, in_flight: int, folder: Path) -> Callable[[int], Coroutine[Any, Any, float]]:
    from inference import ChatTurn, ClientConfig, ModelClient, Request, Sampling, SqliteLedger

    async def run(prompts: int) -> float:
        client = ModelClient(
            ClientConfig(base_url=url, model="scripted", max_in_flight=in_flight), SqliteLedger(folder / "calls.sqlite")
        )

        async def ask(number: int) -> None:
            turns = (ChatTurn(role="user", content=_prompt(number)),)
            await client.complete(Request(model="scripted", prompt=turns, sampling=Sampling(max_tokens=_ANSWER_TOKENS)))

        try:
            return await _drain(prompts, in_flight, ask)
        finally:
            await client.aclose()

    return run


def _bare(url: str, in_flight: int, kind: str) -> Callable[[int], Coroutine[Any, Any, float]]:
    from openai import AsyncOpenAI, DefaultAioHttpClient

    async def run(prompts: int) -> float:
        http = DefaultAioHttpClient() if "aiohttp" in kind else None
        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0, http_client=http)

        async def ask(number: int) -> None:
            await client.chat.completions.create(
                model="scripted",
                messages=[{"role": "user", "content": _prompt(number)}],
                max_tokens=_ANSWER_TOKENS,
                seed=number,
            )

        try:
            return await _drain(prompts, in_flight, ask)
        finally:
            await client.close()

    return run


def _prompt(number: int) -> str:
    """One that the scripted model repeats, nearly."""
    return f"Write another search query\nQuery: {number} {_WORDS}"


def _print(runs: dict[str, list[dict[str, float]]]) -> None:
    print(f"| client | requests/s | CPU s, all | CPU ms a call | peak MB | wall s, all |\n|---|{'---:|' * 5}")
    for kind, results in runs.items():
        middle = {name: statistics.median(result[name] for result in results) for name in results[0]}
        print(
            f"| {kind} | {middle['requests_per_s']:.0f} | {middle['cpu_s']:.2f} "
            f"| {middle['cpu_ms']:.2f} | {middle['peak_mb']:.0f} | {middle['wall_s']:.2f} |"
        )


if __name__ == "__main__":
    main()
