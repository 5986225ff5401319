"""Measure the throughput of `trailforge serve-search` over BM25 on loopback, and how long an agent's event loop waits.

Synthetic passages of 100 words by Zipf's law, no query twice, nothing cached. The agents share a process and its event
loop, the server has another. `lag` is how late a timer of the agents' loop comes, first while nothing is asked. Batches
are what a trainer sends, single queries what agents send; `in process` are the same agents over the index itself.

    make bench B=serve_search
    make bench B=serve_search ARGS="--passages 1000000 --seconds 20 --cache FOLDER"
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from _zipf import build_over_passages, make_queries, serving

from trailforge.retrieval.indexes.store import open_index
from trailforge.retrieval.service.client import connect

_PROBE_S = 0.01


@dataclass
class Run:
    """What was measured in one run of the server."""

    queries: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    """Of the process that searches."""
    requests_ms: list[float] = field(default_factory=list)
    lags_ms: list[float] = field(default_factory=list)


def main() -> None:
    """Build, serve and measure; prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each row")
    parser.add_argument("--batch", type=int, default=16, help="queries of a trainer's request")
    parser.add_argument("--trainers", type=int, default=4, help="requests of this kind at once")
    parser.add_argument("--agents", type=int, default=16, help="single queries at once")
    parser.add_argument("--cache", type=Path, help="folder that keeps the index for the next time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trailforge-serve-search-") as scratch:
        folder = (options.cache or Path(scratch)) / f"zipf-{options.passages}"
        build_over_passages(folder, options.passages)
        print(
            f"{options.passages:,} passages, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the beginning.\n"
        )
        asyncio.run(_measure(folder, options))
    print(f"\nLoad {os.getloadavg()[0]:.1f} at the end")


async def _measure(folder: Path, options: argparse.Namespace) -> None:
    queries = make_queries(options.passages)
    print("| | queries/s | CPU ms a query | request p50 ms | p99 | lag p50 ms | p99 |", flush=True)
    print(f"|---|{'---:|' * 6}", flush=True)
    with serving(folder) as (url, process):
        client = connect(url)

        async def batch() -> int:
            await client.find_many([next(queries) for _ in range(options.batch)], 5)
            return options.batch

        async def single() -> int:
            await client.retrieve(next(queries), 5)
            return 1

        await batch()
        _print("idle", await _run(_rest, 1, options.seconds, process.pid))
        for name, ask, at_once in (
            (f"batches of {options.batch}", batch, options.trainers),
            ("single", single, options.agents),
        ):
            _print(f"{name}, {at_once} at once", await _run(ask, at_once, options.seconds, process.pid))
        memory = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").partition("VmHWM:")[2].split()[0]
    index = open_index(folder)

    async def inside() -> int:
        await index.retrieve(next(queries), 5)
        return 1

    await inside()
    _print(f"in process, {options.agents} at once", await _run(inside, options.agents, options.seconds, os.getpid()))
    print(f"\nThe server's peak memory: {int(memory) / 1024:.0f} MB.")


async def _rest() -> int:
    await asyncio.sleep(1.0)
    return 0


async def _run(ask: Callable[[], Awaitable[int]], at_once: int, seconds: float, searcher: int) -> Run:
    run, began, cpu_s = Run(), time.perf_counter(), _cpu_s(searcher)

    async def agent() -> None:
        while time.perf_counter() - began < seconds:
            start = time.perf_counter()
            asked = await ask()
            run.queries += asked
            run.requests_ms.append(1000 * (time.perf_counter() - start))

    async def probe() -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(_PROBE_S)
            run.lags_ms.append(1000 * (time.perf_counter() - start - _PROBE_S))

    probing = asyncio.create_task(probe())
    await asyncio.gather(*(agent() for _ in range(at_once)))
    run.seconds, run.cpu_s = time.perf_counter() - began, _cpu_s(searcher) - cpu_s
    while not run.lags_ms:  # of a run that a first, long request filled
        await asyncio.sleep(_PROBE_S)
    probing.cancel()
    return run


def _print(name: str, run: Run) -> None:
    shown = [np.percentile(values, share) for values in (run.requests_ms, run.lags_ms) for share in (50, 99)]
    asked = [""] * 4
    if run.queries:
        cpu_ms = 1000 * run.cpu_s / run.queries
        asked = [f"{run.queries / run.seconds:.0f}", f"{cpu_ms:.2f}", f"{shown[0]:.1f}", f"{shown[1]:.1f}"]
    print(f"| {name} | {' | '.join(asked)} | {shown[2]:.1f} | {shown[3]:.1f} |", flush=True)


def _cpu_s(process: int) -> float:
    """Seconds that a process has taken of the processors."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
