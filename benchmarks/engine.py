"""Compare our model client with others: requests a second, CPU seconds and peak memory of the whole process.

`trailforge` keeps every reply in a fresh ledger before it is seen. `datatrove`'s inference runner, the peer that also
keeps each reply (in a cache of requests and in checkpoints), runs in an environment of its own. `openai` keeps nothing,
nor does bare `aiohttp`, the floor. Each runs in a process of its own against one scripted server on loopback and sends
as many at once; rounds are interleaved, figures are medians. `CPU ms a call` leaves imports out, `all` does not.

    make bench B=engine
    make bench B=engine ARGS="--only trailforge --prompts 100000 --rounds 1"

The environment of datatrove is made by pip at the first run, in the user's cache or where `--datatrove` says.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
KINDS = ("trailforge", "datatrove", "openai, aiohttp", "openai", "aiohttp")
_DATATROVE = "datatrove==0.10.1"
_DATATROVE_NEEDS = (
    "aiofiles", "aiosqlite", "dill", "fsspec", "httpx", "huggingface-hub", "humanize", "loguru", "multiprocess",
    "numpy", "orjson", "tqdm", "xxhash",
)  # fmt: skip
"""What its runner imports. Its extra brings vLLM and torch, too, which a client does without."""
_WORDS = "search agents decompose a question and read what they find before they answer " * 12
_ANSWER_TOKENS = 256

Run = Callable[[int], Coroutine[Any, Any, float]]
"""So many prompts to the seconds that they took."""


def main() -> None:
    """Run the rounds and print the table; with `--child`, one run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds a call")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--datatrove", type=Path, default=_cache() / _DATATROVE.replace("==", "-"), metavar="FOLDER")
    parser.add_argument("--child", nargs=2, metavar=("KIND", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_one_run(options.child[0], options.child[1], options.prompts, options.in_flight)))
        return
    from tests.support.model_server import running

    kinds = options.only or KINDS
    missing = _install_datatrove(options.datatrove) if "datatrove" in kinds else None
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds if kind != "datatrove" or missing is None}
    with running(latency=options.latency, slots=options.in_flight) as url:
        for _ in range(options.rounds):
            for kind in runs:
                runs[kind].append(_child(kind, url, options))
    _print(runs)
    if missing is not None:
        print(f"| datatrove | could not be installed: {missing} |")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trailforge-benchmarks"


def _install_datatrove(folder: Path) -> str | None:
    """Make its environment, unless it is there. Why not, if it cannot be."""
    if (folder / "complete").exists():
        return None
    venv.create(folder, with_pip=True, clear=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
    for arguments in (["--no-deps", _DATATROVE], _DATATROVE_NEEDS):
        done = subprocess.run([*pip, *arguments], capture_output=True, text=True)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    (folder / "complete").touch()
    return None


def _child(kind: str, url: str, options: argparse.Namespace) -> dict[str, float]:
    python = options.datatrove / "bin" / "python" if kind == "datatrove" else sys.executable
    command = [python, "-m", "benchmarks.engine", "--child", kind, url]
    command += ["--prompts", str(options.prompts), "--in-flight", str(options.in_flight)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{kind}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def _one_run(kind: str, url: str, prompts: int, in_flight: int) -> dict[str, float]:
    started = time.monotonic()
    clients = {"trailforge": ask_with_trailforge, "datatrove": _datatrove, "aiohttp": _floor}
    with tempfile.TemporaryDirectory() as folder:
        run = clients.get(kind, _openai)(url, in_flight, Path(folder), kind)
        asyncio.run(run(1))  # what is loaded at the first call is no cost of a call
        loaded_s = cpu_s()
        seconds = asyncio.run(run(prompts))
    return {
        "requests_per_s": prompts / seconds,
        "cpu_s": cpu_s(),
        "cpu_ms": 1000 * (cpu_s() - loaded_s) / prompts,
        "peak_mb": peak_mb(),
        "wall_s": time.monotonic() - started,
    }


def cpu_s() -> float:
    """Return the CPU seconds of this process so far, over all its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mb() -> float:
    """Return the peak memory (MB) of this process alone; `ru_maxrss` would include what the parent held when it started
    it.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


async def _drain(prompts: int, workers: int, ask: Callable[[int], Awaitable[object]]) -> float:
    """Ask all, so many at a time; the seconds from the first to the last."""
    numbers = iter(range(prompts))

    async def work() -> None:
        for number in numbers:
            await ask(number)

    started = time.monotonic()
    await asyncio.gather(*(work() for _ in range(workers)))
    return time.monotonic() - started


def ask_with_trailforge(url: str, in_flight: int, folder: Path, _: str, words: str = _WORDS) -> Run:
    """Send the prompts through our client with a fresh ledger; `words` is what each prompt ends with."""
    from trailforge.inference import ChatTurn, ClientConfig, ModelClient, Request, Sampling
    from trailforge.inference.ledgers.sqlite import SqliteLedger

    async def run(prompts: int) -> float:
        client = ModelClient(
            ClientConfig(base_url=url, model="scripted", max_in_flight=in_flight),
            SqliteLedger(folder / f"{prompts}.sqlite"),
        )

        async def ask(number: int) -> None:
            turns = (ChatTurn(role="user", content=_prompt(number, words)),)
            await client.complete(Request(model="scripted", prompt=turns, sampling=Sampling(max_tokens=_ANSWER_TOKENS)))

        try:
            return await _drain(prompts, in_flight, ask)
        finally:
            await client.aclose()

    return run


def _datatrove(url: str, in_flight: int, folder: Path, _: str) -> Run:
    from datatrove.data import Document  # pyright: ignore[reportMissingImports]
    from datatrove.pipeline.inference.run_inference import InferenceConfig, InferenceRunner  # pyright: ignore[reportMissingImports]
    from datatrove.pipeline.writers import JsonlWriter  # pyright: ignore[reportMissingImports]
    from loguru import logger  # pyright: ignore[reportMissingImports]

    logger.remove()

    async def ask(document: Any, generate: Callable[[dict[str, Any]], Awaitable[Any]]) -> str:
        return (await generate(_chat(document.text, int(document.id)))).text

    async def run(prompts: int) -> float:
        config = InferenceConfig(
            server_type="endpoint", model_name_or_path="scripted", endpoint_url=url.removesuffix("/v1"),
            max_concurrent_generations=in_flight, max_concurrent_documents=in_flight,
        )  # fmt: skip
        writer = JsonlWriter(str(folder / f"{prompts}"), "${rank}_${chunk_index}.jsonl", compression=None)
        runner = InferenceRunner(ask, config, writer, checkpoints_local_dir=str(folder / f"{prompts}.checkpoints"))
        await runner.run_async([Document(text=_prompt(number), id=str(number)) for number in range(prompts)])
        if runner.stats["successful_requests"].total != prompts:
            sys.exit("not every request was answered")
        return runner.stats["inference_time"].total  # without the start of its server, which is there

    return run


def _openai(url: str, in_flight: int, _: Path, kind: str) -> Run:
    from openai import AsyncOpenAI, DefaultAioHttpClient

    async def run(prompts: int) -> float:
        http = DefaultAioHttpClient() if "aiohttp" in kind else None
        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0, http_client=http)

        async def ask(number: int) -> None:
            await client.chat.completions.create(model="scripted", **_chat(_prompt(number), number))

        try:
            return await _drain(prompts, in_flight, ask)
        finally:
            await client.close()

    return run


def _floor(url: str, in_flight: int, _: Path, __: str) -> Run:
    import aiohttp

    async def run(prompts: int) -> float:
        async with aiohttp.ClientSession() as session:

            async def ask(number: int) -> None:
                body = {"model": "scripted", **_chat(_prompt(number), number)}
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    (await response.json())["choices"][0]["message"]["content"]

            return await _drain(prompts, in_flight, ask)

    return run


def _prompt(number: int, words: str = _WORDS) -> str:
    """One that the scripted model repeats, nearly."""
    return f"Write other search queries that look for the same\nQuery: {number} {words}"


def _chat(prompt: str, number: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt}], "max_tokens": _ANSWER_TOKENS, "seed": number}


def _print(runs: dict[str, list[dict[str, float]]]) -> None:
    medians = {
        kind: {name: statistics.median(result[name] for result in results) for name in results[0]}
        for kind, results in runs.items()
    }
    floor = medians.get("aiohttp", {}).get("cpu_ms")
    print("| client | requests/s | CPU ms a call | … over aiohttp | CPU s, all | peak MB | wall s, all |")
    print(f"|---|{'---:|' * 6}")
    for kind, middle in medians.items():
        over = "" if floor is None else f"{middle['cpu_ms'] - floor:.2f}"
        print(
            f"| {kind} | {middle['requests_per_s']:.0f} | {middle['cpu_ms']:.2f} | {over} "
            f"| {middle['cpu_s']:.2f} | {middle['peak_mb']:.0f} | {middle['wall_s']:.2f} |"
        )


if __name__ == "__main__":
    main()
