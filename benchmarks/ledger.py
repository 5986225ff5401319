"""Measure how many replies a second a ledger commits, and its cost: writes alone, and calls (two look-ups, then a
write).

    make bench B=ledger                           # SQLite and PostgreSQL, 1, 2 and 4 processes
    make bench B=ledger ARGS="--in-flight 256 --processes 1 4"

Processes do nothing but keep replies, so many at a time over all of them. Prompts and replies have the sizes of a
search agent's (12 and 1.2 thousand characters). CPU is that of the processes and, of PostgreSQL, of the server. First
comes what the disk takes at the most, one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.support import postgres
from trailforge.inference import Reply, Request, Sampling
from trailforge.inference.ledgers import PASSWORD_VARIABLE, open_ledger

_PROMPT, _REPLY = 12_000, 1_200
"""Characters."""
_WORDS = [f"{a}{b}{c}" for a, b, c in itertools.product("bdfgklmnprst", "aeiou", ("n", "r", "st", "l"))]


class _Task(NamedTuple):
    """What one process has to do."""

    number: int
    url: str
    """Of the ledger; empty: a file in the folder."""
    folder: Path
    looks_up: bool
    at_once: int
    seconds: float


class _Part(NamedTuple):
    """What one process did."""

    kept: int
    seconds: float
    cpu: float


def main() -> None:
    """Measure each case and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--in-flight", type=int, default=64, help="over all processes")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a case")
    parser.add_argument("--ledger", choices=("sqlite", "postgres"), nargs="+", default=["sqlite", "postgres"])
    options = parser.parse_args()
    print(f"the disk: {_syncs_a_second():,.0f} flushes/s of a page; load {os.getloadavg()[0]:.0f}", flush=True)
    for kind, what in itertools.product(options.ledger, ("writes", "calls")):
        for processes in options.processes:
            with tempfile.TemporaryDirectory() as folder, _server(kind) as server:
                print(_measure(options, what, processes, Path(folder), server), flush=True)


def _syncs_a_second(seconds: float = 3.0) -> float:
    with tempfile.TemporaryFile() as file:
        began, times = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            times += 1
        return times / (time.monotonic() - began)


@contextmanager
def _server(kind: str) -> Iterator[postgres.Server | None]:
    if kind == "sqlite":
        yield None
        return
    with postgres.running() as server:
        os.environ[PASSWORD_VARIABLE] = server.password
        yield server


def _measure(
    options: argparse.Namespace, what: str, processes: int, folder: Path, server: postgres.Server | None
) -> str:
    context = multiprocessing.get_context("spawn")
    parts, barrier, measured = context.Queue(), context.Barrier(processes), context.Event()
    url = server.url if server else ""
    given = (url, folder, what == "calls", options.in_flight // processes, options.seconds)
    tasks = [_Task(number, *given) for number in range(processes)]
    children = [context.Process(target=_work, args=(task, barrier, measured, parts)) for task in tasks]
    before = _cpu_of(server)
    for child in children:
        child.start()
    done: list[_Part] = [parts.get() for _ in children]
    of_server = _cpu_of(server) - before
    measured.set()
    kept = sum(part.kept for part in done)
    for child in children:
        child.join()
    rate = sum(part.kept / part.seconds for part in done)
    cpu = sum(part.cpu for part in done)
    name = "PostgreSQL" if server else "SQLite"
    at_server = f", server {1000 * of_server / kept:.2f} ms" if server else ""
    return (
        f"{name}, {processes} processes: {rate:,.0f} {what}/s; CPU for one: process {1000 * cpu / kept:.2f} ms"
        f"{at_server}; load {os.getloadavg()[0]:.0f}"
    )


def _cpu_of(server: postgres.Server | None) -> float:
    """CPU seconds of a database server and its children, of which those that have ended count for their parent."""
    if server is None:
        return 0.0
    (main,) = [each for each in psutil.Process().children() if each.name() == "postgres"]
    times = [main.cpu_times(), *(child.cpu_times() for child in main.children())]
    return sum(each.user + each.system for each in times) + times[0].children_user + times[0].children_system


def _work(task: _Task, barrier: Barrier, measured: Event, parts: Any) -> None:
    asyncio.run(_keep(task, barrier, measured, parts))


async def _keep(task: _Task, barrier: Barrier, measured: Event, parts: Any) -> None:
    """Keep replies for so long, so many at a time."""
    dice = random.Random(task.number)
    texts = [" ".join(dice.choices(_WORDS, k=_PROMPT // 5)) for _ in range(20)]
    replies = [" ".join(dice.choices(_WORDS, k=_REPLY // 5)) for _ in range(20)]
    numbers, kept = itertools.count(), 0
    async with aclosing(open_ledger(task.url, task.folder / "calls.sqlite", run=task.folder.name)) as ledger:
        await ledger.find("")
        barrier.wait()
        cpu, began = time.process_time(), time.monotonic()

        async def keep() -> None:
            nonlocal kept
            while time.monotonic() - began < task.seconds:
                this = next(numbers)
                request = Request(
                    model="m", prompt=f"{task.number} {this} {texts[this % 20]}", sampling=Sampling(max_tokens=512)
                )
                if task.looks_up:
                    assert await ledger.find(request.key) is None
                    assert await ledger.find_complete(request) is None
                text = replies[this % 20]
                reply = Reply(
                    text=text, finish_reason="stop", prompt_tokens=3000, completion_tokens=300, key=request.key
                )
                await ledger.put(request, reply)
                kept += 1

        await asyncio.gather(*(keep() for _ in range(task.at_once)))
        parts.put(_Part(kept, time.monotonic() - began, time.process_time() - cpu))
        measured.wait()  # or the server's processes would have ended


if __name__ == "__main__":
    main()
