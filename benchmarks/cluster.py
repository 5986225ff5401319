"""Measure how worker processes under one scheduler use a model server: calls a second, limits kept, cost of a call.

    make bench B=cluster                                    # a server that sleeps: 1, 2 and 4 workers
    make bench B=cluster ARGS="--rate 50 --seconds 60"      # 4 workers against a limit on the rate, with Retry-After
    make bench B=cluster ARGS="--slots 32 --seconds 30"     # … against one on the calls in flight
    make bench B=cluster ARGS="--postgres"                  # a ledger in PostgreSQL

Workers do nothing but ask: no search, no parsing. `share` is what was answered of what the limit allows, from the first
reply to the last; `most` the calls admitted in the busiest second. Driver, scheduler and each worker are processes of
their own. The scheduler's CPU seconds are those of the limits, of Dask and of nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

from tests.support import dask_cluster, model_server, postgres
from trailforge.inference import Caps, ChatTurn, ClientConfig, ModelClient, Request, Sampling, Usage
from trailforge.inference.ledgers import PASSWORD_VARIABLE, open_ledger
from trailforge.inference.shared_limits.link import LimitsLink
from trailforge.inference.threads import LoopThread
from trailforge.pipelines.engine.dask_jobs import close_link, holding_limits, open_link


def main() -> None:
    """Measure each case and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, help="permitted calls a second")
    parser.add_argument("--slots", type=int, help="permitted calls in flight")
    parser.add_argument("--burst", type=int, default=20)
    parser.add_argument("--latency", type=float, help="seconds a call (default: 1, with --rate 0.05)")
    parser.add_argument("--seconds", type=float, default=20.0, help="that a case takes at the least")
    parser.add_argument("--workers", type=int, nargs="+", help="default: 1 2 4, with a limit 4")
    parser.add_argument("--in-flight", type=int, default=64, help="`model.max_in_flight`, over all workers")
    parser.add_argument("--max-calls", type=int, help="a cap")
    parser.add_argument("--alone", action="store_true", help="each worker holds its own limits")
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    is_limited = options.rate or options.slots
    options.latency = options.latency or (0.05 if options.rate else 1.0)
    with contextlib.ExitStack() as stack:
        ledger = ""
        if options.postgres:
            server = stack.enter_context(postgres.running())
            os.environ[PASSWORD_VARIABLE], ledger = server.password, server.url
        for workers in options.workers or ([4] if is_limited else [1, 2, 4]):
            print(_measure(options, workers, ledger), flush=True)


def _measure(options: argparse.Namespace, workers: int, ledger: str) -> str:
    limits: dict[str, Any] = {"rate": options.rate, "burst": options.burst, "retry_after": "1"} if options.rate else {}
    if options.slots:
        limits |= {"most": options.slots}
    expected = options.rate or (options.slots or options.in_flight) / options.latency
    prompts = int(expected * options.seconds)
    with (
        tempfile.TemporaryDirectory() as name,
        model_server.running(latency=options.latency, **limits) as url,
        _cluster(workers, Path(name) / "dask") as (client, arguments),
    ):
        config = ClientConfig(
            base_url=url, model="scripted", max_in_flight=options.in_flight, caps=Caps(max_calls=options.max_calls)
        )
        ask = partial(_ask, config, name, ledger, "" if options.alone else name)
        with holding_limits(arguments, name, config.limits(Usage()), lambda keys: dict.fromkeys(keys)):
            client.gather(client.map(_warm_up, range(workers), pure=False))
            began, cpu = time.monotonic(), _cpu(client)
            done: Any = client.gather(client.map(ask, [(n, prompts // workers) for n in range(workers)], pure=False))
            seconds, (driver, scheduler) = time.monotonic() - began, (_cpu(client) - cpu)
        times, seen = model_server.reply_times(url), model_server.stats(url)
    calls, worker_cpu = sum(each[0] for each in done), sum(each[1] for each in done)
    # The first replies take a latency that no limit counts, and a burst is granted on top of a rate.
    at_once = options.burst if options.rate else options.slots or options.in_flight
    share = (len(times) - at_once) / (times[-1] - times[0]) / expected
    busiest = max(sum(at <= other < at + 1 for other in times) for at in times[::20])
    how = f"{workers} workers{' alone' if options.alone else ''}{', PostgreSQL' if ledger else ''}"
    return (
        f"{how}: {calls} calls in {seconds:.1f} s; share {share:.1%} of {expected:g}/s; refused {seen['limited']:.0f}, "
        f"most {busiest} in a second, {seen['most_busy']:.0f} in flight; CPU a call: driver "
        f"{1000 * driver / calls:.2f} ms, scheduler {1000 * scheduler / calls:.2f} ms, worker "
        f"{1000 * worker_cpu / calls:.2f} ms; load {os.getloadavg()[0]:.0f}"
    )


@contextlib.contextmanager
def _cluster(workers: int, folder: Path) -> Iterator[tuple[Client, tuple[str, ...]]]:
    with dask_cluster.running(folder, workers=workers) as here, Client(here.address) as client:
        client.wait_for_workers(workers)
        yield client, ("--runner=dask", f"--scheduler={here.address}")


def _cpu(client: Client) -> np.ndarray:
    """Seconds of driver and scheduler so far."""
    return np.array([time.process_time(), client.run_on_scheduler(time.process_time)])


def _warm_up(number: int) -> int:
    time.sleep(0.5)
    return number


def _ask(config: ClientConfig, folder: str, ledger: str, run: str, part: tuple[int, int]) -> tuple[int, float]:
    """On a worker: ask its part of the prompts. How many were answered, and the CPU seconds."""
    loop, cpu = LoopThread("bench"), time.process_time()
    link = open_link(run, config.limits(Usage()), loop.loop) if run else None
    try:
        answered = loop.call(_ask_all(config, folder, ledger, link, *part))
    finally:
        close_link(run)
        loop.end()
    return answered, time.process_time() - cpu


async def _ask_all(
    config: ClientConfig, folder: str, ledger: str, link: LimitsLink | None, part: int, prompts: int
) -> int:
    kept = open_ledger(ledger, Path(folder) / "calls.sqlite", run=folder)
    async with aclosing(ModelClient(config, kept, link)) as client:
        asked = (client.complete(_request(f"{folder}.{part}.{number}")) for number in range(prompts))
        replies = await asyncio.gather(*asked, return_exceptions=True)
    return sum(not isinstance(reply, BaseException) for reply in replies)


def _request(name: str) -> Request:
    asked = f"Write other search queries that look for the same\nQuery: What is the editor of {name}?"
    turn = ChatTurn(role="user", content=asked)
    return Request(model="scripted", prompt=(turn,), sampling=Sampling(max_tokens=32))


if __name__ == "__main__":
    main()
