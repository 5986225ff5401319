"""Measure how the client copes with a rate limit and with a storm of refusals: share of the permitted rate, time to
recover.

A server on loopback permits 50 calls a second (bursts of 20) and answers all others with 429; `share` is the time that
the limit allows over the time that was taken. In the storm 90 % of all calls get a 429, with nothing said about when to
come back; `recovered` is the time after its end until the rate of replies is back at 80 % of that before it.

    make bench B=rate_limit
    make bench B=rate_limit ARGS="--rate 200 --prompts 4000 --latency 0.5"
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from tests.support.model_server import reply_times, running, stats, weather
from trailforge.inference import ChatTurn, ClientConfig, ModelClient, Request, Sampling
from trailforge.inference.ledgers.sqlite import SqliteLedger

_WINDOW_S = 1.0


def main() -> None:
    """Measure each case and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=50.0, help="permitted calls a second")
    parser.add_argument("--burst", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=500)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds a call")
    parser.add_argument("--storm", type=float, default=20.0, help="seconds of the storm")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for retry_after in ("1", ""):
        for _ in range(options.rounds):
            print(_limited(options, retry_after), flush=True)
    print(_storm(options), flush=True)


def _limited(options: argparse.Namespace, retry_after: str) -> str:
    """All prompts against the limit."""
    with running(latency=options.latency, rate=options.rate, burst=options.burst, retry_after=retry_after) as url:
        cpu = time.process_time()
        asyncio.run(_ask_all(url, options.prompts))
        cpu = time.process_time() - cpu
        times, seen = reply_times(url), stats(url)
    allowed = max(0, options.prompts - options.burst) / options.rate
    # The first reply takes a latency that the limit does not count.
    taken = times[-1] - times[0]
    return (
        f"Retry-After {retry_after or '-'}: {len(times)} of {options.prompts} answered in {taken:.1f} s, "
        f"{seen['limited']:.0f} refused; share {allowed / taken:.0%} of {options.rate:g}/s, {cpu:.1f} CPU s"
    )


def _storm(options: argparse.Namespace) -> str:
    """Calm, storm, calm."""
    with running(latency=options.latency) as url:
        started, ended, lost = asyncio.run(_through_a_storm(url, options.storm))
        times = reply_times(url)
    before = sum(started - 3 <= at < started for at in times) / 3
    during = sum(started <= at < ended for at in times)
    back = next(
        (at for at in times if at >= ended and _rate(times, at) >= 0.8 * before),
        float("inf"),
    )
    return (
        f"storm of {options.storm:g} s: {before:.0f} replies/s before, {during} replies in it, {lost} lost, "
        f"recovered {back - ended:.1f} s after"
    )


def _rate(times: list[float], begin: float) -> float:
    return sum(begin <= at < begin + _WINDOW_S for at in times) / _WINDOW_S


async def _through_a_storm(url: str, seconds: float) -> tuple[float, float, int]:
    """Keep the client busy; when the storm began and ended, and how many calls failed."""
    with tempfile.TemporaryDirectory() as folder:
        client, busy = _client(url, Path(folder)), True

        async def work(worker: int) -> int:
            number = lost = 0
            while busy:
                number += 1
                try:
                    await client.complete(_request(f"{worker}.{number}"))
                except Exception:  # counted: any error is a lost call here
                    lost += 1
            return lost

        workers = [asyncio.create_task(work(n)) for n in range(64)]
        await asyncio.sleep(5)
        await asyncio.to_thread(weather, url, limited=0.9)
        started = time.monotonic()
        await asyncio.sleep(seconds)
        await asyncio.to_thread(weather, url)
        ended = time.monotonic()
        await asyncio.sleep(15)
        busy = False
        lost = sum(await asyncio.gather(*workers))
        await client.aclose()
    return started, ended, lost


async def _ask_all(url: str, prompts: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        client = _client(url, Path(folder))
        await asyncio.gather(*(client.complete(_request(str(n))) for n in range(prompts)))
        await client.aclose()


def _client(url: str, folder: Path) -> ModelClient:
    return ModelClient(ClientConfig(base_url=url, model="scripted"), SqliteLedger(folder / "calls.sqlite"))


def _request(name: str) -> Request:
    asked = f"Write other search queries that look for the same\nQuery: What is the editor of {name}?"
    turn = ChatTurn(role="user", content=asked)
    return Request(model="scripted", prompt=(turn,), sampling=Sampling(max_tokens=32))


if __name__ == "__main__":
    main()
