"""Measure long episodes of a research agent: CPU a call, peak memory, and how busy they keep a server's slots.

So many episodes at once, each of 60 calls and an answer, against a scripted server on loopback, a process of its own,
that takes 20 ms a reply. `trailforge` runs our episode loop over our client, which keeps every reply in a fresh ledger
before it is seen. `plain loop` is what drivers of published agents are: a coroutine a question, a list of messages that
grows, the typed client of `openai`, tools in the same process, a line of JSON at the end, and nothing kept before that;
it is slow, and runs in the first round alone. `chat` is one short chat of `benchmarks/engine.py`, `chat, as long` one
whose prompt has as many bytes as the mean prompt of the episodes. Pages are of random words, and opened by the
tools of a BM25 index in memory; the plain loop has their texts. `tools` opens the episodes' pages and asks no model.
Each runs in a process of its own; rounds are interleaved, figures are medians. CPU leaves imports and the first
episode out.

    make bench B=long_episodes
    make bench B=long_episodes ARGS="--words 20 200 --rounds 3"
    make bench B=long_episodes ARGS="--only trailforge --episodes 8 --profile build/long_episodes.prof"
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import functools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine import ROOT, ask_with_trailforge, cpu_s, peak_mb

if TYPE_CHECKING:
    from trailforge.retrieval import PageTools

KINDS = ("trailforge", "tools", "plain loop", "chat", "chat, as long")
_ANSWER_TOKENS = 1024
_NUMBERS = ("episodes", "calls", "latency", "slots", "words")
"""Options that a run's own process is given."""

Result = dict[str, float]
Run = Callable[[int], Coroutine[Any, Any, object]]


def main() -> None:
    """Run the rounds and print the tables; with `--child`, one run; with `--server`, the scripted server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--calls", type=int, default=60, help="calls of an episode")
    parser.add_argument("--words", type=int, nargs="+", default=[20, 200], help="words of a result; a table for each")
    parser.add_argument("--latency", type=float, default=0.02, help="seconds a reply")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="where the figures of cProfile go")
    parser.add_argument("--child", nargs=2, metavar=("KIND", "URL"), help=argparse.SUPPRESS)
    parser.add_argument("--prompt-bytes", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--server", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.server:
        asyncio.run(_serve(options))
    elif options.child:
        kind, url = options.child
        print(json.dumps(_one_run(kind, url, options)))
    else:
        _measure(options)


def _measure(options: argparse.Namespace) -> None:
    with _running(options) as url:
        for words in options.words:
            runs: dict[str, list[Result]] = {kind: [] for kind in options.only or KINDS}
            for number in range(options.rounds):
                for kind in runs:
                    if kind != "plain loop" or number == 0:
                        prompt_bytes = int(runs["trailforge"][0]["prompt_kb"] * 1000) if runs.get("trailforge") else 0
                        runs[kind].append(_child(kind, url, words, prompt_bytes, options))
            print(f"\n{options.episodes} episodes of {options.calls} calls, results of {words} words\n")
            _print(runs)


def _child(kind: str, url: str, words: int, prompt_bytes: int, options: argparse.Namespace) -> Result:
    command = [sys.executable, "-m", "benchmarks.long_episodes", "--child", kind, url]
    for name in _NUMBERS:
        command += [f"--{name}", str(words if name == "words" else getattr(options, name))]
    command += ["--prompt-bytes", str(prompt_bytes)] + (["--profile", options.profile] if options.profile else [])
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{kind}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def _one_run(kind: str, url: str, options: argparse.Namespace) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        run = _run_of(kind, url, Path(folder), options)
        asyncio.run(run(1))  # what is loaded at the first call is no cost of a call
        before, loaded_s, began = _received(url), cpu_s(), time.monotonic()
        if options.profile:
            with cProfile.Profile() as profile:
                asyncio.run(run(options.episodes))
            profile.dump_stats(options.profile)
        else:
            asyncio.run(run(options.episodes))
        used_s, seconds = cpu_s() - loaded_s, time.monotonic() - began
    asked, received = (now - then for now, then in zip(_received(url), before, strict=True))
    calls = options.episodes * (options.calls + 1)
    assert asked == (0 if kind == "tools" else calls), asked
    return {
        "cpu_ms": 1000 * used_s / calls,
        "prompt_kb": received / calls / 1000,
        "calls_per_s": calls / seconds,
        "slots": 100 * calls * options.latency / (seconds * options.slots),
        "peak_mb": peak_mb(),
    }


def _run_of(kind: str, url: str, folder: Path, options: argparse.Namespace) -> Run:
    """What runs so many episodes, or as many chats as they make calls."""
    if kind == "trailforge":
        return lambda episodes: _run_episodes(url, episodes, folder, options)
    if kind == "tools":
        return lambda episodes: _open_pages(episodes, options)
    if kind == "plain loop":
        return lambda episodes: _run_plain_loops(url, episodes, folder, options)
    if kind == "chat":
        ask = ask_with_trailforge(url, options.slots, folder, kind)
    else:
        longest = options.prompt_bytes - 200  # which stand around it
        ask = ask_with_trailforge(url, options.slots, folder, kind, _write(random.Random(0), longest // 2)[:longest])
    return lambda episodes: ask(episodes * (options.calls + 1))


# Episodes


def _write(dice: random.Random, words: int) -> str:
    """A text of random words, as one of the same few would be compressed to nothing."""
    return " ".join(dice.choices(_words(), k=words))


@functools.cache
def _words() -> list[str]:
    dice = random.Random(0)
    return ["".join(dice.choices("etaoinshrdlucmfwypvbgk", k=dice.randint(2, 10))) for _ in range(5000)]


@functools.cache
def _texts(words: int) -> dict[str, str]:
    """The text of each page."""
    return {f"p{number:03d}": _write(random.Random(number), words) for number in range(300)}


@functools.cache
def _pages(words: int) -> PageTools:
    """The tools of an agent over these pages, as an index of them would give."""
    from trailforge.retrieval import RetrieverConfig
    from trailforge.retrieval.pages import open_pages
    from trailforge.schemas import Document

    documents = [Document(id=name, title=f"Page {name}", text=text) for name, text in _texts(words).items()]
    return open_pages(documents, RetrieverConfig(kind="bm25")).tools


async def _run_episodes(url: str, episodes: int, folder: Path, options: argparse.Namespace) -> None:
    from trailforge.inference import ClientConfig, ModelClient, Sampling
    from trailforge.inference.ledgers.sqlite import SqliteLedger
    from trailforge.protocols.browse import BrowseConfig, run_browse_episode

    config = ClientConfig(base_url=url, model="scripted", max_in_flight=options.slots)
    client = ModelClient(config, SqliteLedger(folder / f"{episodes}.sqlite"))
    browsing = BrowseConfig(sampling=Sampling(temperature=1.0, max_tokens=_ANSWER_TOKENS), max_tokens=1 << 20)
    pages = _pages(options.words[0])

    async def run(number: int) -> None:
        done = await run_browse_episode(
            f"Question {number}?", pages, client=client, model="scripted", config=browsing, clock=None
        )
        assert (done.answer, len(done.record.calls)) == ("Oslo", options.calls), done.stop

    try:
        await asyncio.gather(*map(run, range(episodes)))
    finally:
        await client.aclose()


async def _open_pages(episodes: int, options: argparse.Namespace) -> None:
    pages = _pages(options.words[0])

    async def run() -> None:
        for number in range(options.calls):
            await pages.open(f"p{number:03d}", 1)

    await asyncio.gather(*(run() for _ in range(episodes)))


async def _run_plain_loops(url: str, episodes: int, folder: Path, options: argparse.Namespace) -> None:
    from openai import AsyncOpenAI

    client, texts = AsyncOpenAI(base_url=url, api_key="none"), _texts(options.words[0])
    tools = [_tool("search", query="string"), _tool("open", page="string", part="integer")]
    tools.append(_tool("find", page="string", text="string"))
    asked: dict[str, Any] = {"model": "scripted", "tools": tools, "max_tokens": _ANSWER_TOKENS, "temperature": 1.0}

    async def run(number: int) -> None:
        messages: list[Any] = [
            {"role": "system", "content": "Answer by research in a collection of pages."},
            {"role": "user", "content": f"Question {number}?"},
        ]
        while True:
            reply = (await client.chat.completions.create(messages=messages, **asked)).choices[0].message
            messages.append(reply.model_dump(exclude_none=True))
            if not reply.tool_calls:
                break
            for call in reply.tool_calls:
                found = texts[json.loads(call.function.arguments)["page"]]
                messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
        assert len(messages) == 2 * options.calls + 3, len(messages)
        with (folder / "episodes.jsonl").open("a") as file:
            file.write(json.dumps({"question": number, "messages": messages}) + "\n")

    try:
        await asyncio.gather(*map(run, range(episodes)))
    finally:
        await client.close()


def _tool(name: str, **parameters: str) -> dict[str, Any]:
    said = {each: {"type": kind, "description": f"The {each} to {name}."} for each, kind in parameters.items()}
    shape = {"type": "object", "properties": said, "required": list(said)}
    about = f"What to call to {name} in the collection of pages."
    return {"type": "function", "function": {"name": name, "description": about, "parameters": shape}}


# The server


async def _serve(options: argparse.Namespace) -> None:
    """Print the port, and reply until the input ends."""
    from aiohttp import web

    free, received = asyncio.Semaphore(options.slots), [0, 0]

    async def reply(request: web.Request) -> web.Response:
        body = await request.read()
        received[0] += 1
        received[1] += len(body)
        async with free:
            await asyncio.sleep(options.latency)
        return web.json_response(_reply(body, options.calls))

    async def count(_: web.Request) -> web.Response:
        return web.json_response(received)

    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/v1/chat/completions", reply)
    app.router.add_get("/v1/received", count)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


def _reply(body: bytes, calls: int) -> dict[str, Any]:
    """The next call of an episode, or the answer after so many. It looks at no text."""
    turn = body.count(b'"assistant"')
    message: dict[str, Any] = {"role": "assistant", "content": "<answer>Oslo</answer> [p001, part 1]"}
    if b'"tools"' in body and turn < calls:
        function = {"name": "open", "arguments": json.dumps({"page": f"p{turn:03d}", "part": 1})}
        message = {"role": "assistant", "content": "", "reasoning_content": f"I read on, page {turn}."}
        message["tool_calls"] = [{"id": f"c{turn:08d}", "type": "function", "function": function}]
    choice = {"index": 0, "finish_reason": "tool_calls" if "tool_calls" in message else "stop", "message": message}
    usage = {"prompt_tokens": len(body) // 4, "completion_tokens": 20, "total_tokens": len(body) // 4 + 20}
    made = {"id": "x", "object": "chat.completion", "created": 0, "model": "scripted"}
    return made | {"choices": [choice], "usage": usage}


def _received(url: str) -> tuple[int, int]:
    """The requests that the server has had, and their bytes."""
    with urllib.request.urlopen(f"{url}/received") as response:
        calls, size = json.load(response)
    return calls, size


@contextmanager
def _running(options: argparse.Namespace) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.long_episodes", "--server"]
    for name in ("calls", "latency", "slots"):
        command += [f"--{name}", str(getattr(options, name))]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        server.stdin.close()


def _print(runs: dict[str, list[Result]]) -> None:
    medians = {
        kind: {name: statistics.median(result[name] for result in results) for name in results[0]}
        for kind, results in runs.items()
    }
    chat = medians.get("chat", {}).get("cpu_ms")
    print("| | KB sent a call | CPU ms a call | … of a chat's | calls/s | slots at work | peak MB |")
    print(f"|---|{'---:|' * 6}")
    for kind, middle in medians.items():
        times = "" if chat is None else f"{middle['cpu_ms'] / chat:.2f}"
        sent, slots = (f"{middle['prompt_kb']:.1f}", f"{middle['slots']:.0f} %") if kind != "tools" else ("", "")
        print(
            f"| {kind} | {sent} | {middle['cpu_ms']:.2f} | {times} | {middle['calls_per_s']:.0f} "
            f"| {slots} | {middle['peak_mb']:.0f} |"
        )


if __name__ == "__main__":
    main()
