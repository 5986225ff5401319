"""The command in a process of its own: killed while agents search, restarted, stopped, and started wrongly."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.retrieval.kg.support import small_store
from tests.retrieval.service.support import closed_port, get, post
from tests.retrieval.support import DOCUMENTS
from tests.support.recorded import recorded
from tests.support.scripted import ScriptedModel
from tests.support.turns import text_of
from tests.support.warm import Running
from trailforge.commands.serve import serve_search
from trailforge.inference import Request
from trailforge.protocols import SEARCH_R1
from trailforge.protocols.environment import Environment
from trailforge.protocols.episodes import EpisodeConfig, EpisodeRun, run_episode
from trailforge.retrieval.indexes.store import build_index
from trailforge.retrieval.service.client import SearchClientConfig, connect
from trailforge.schemas import InvalidInput, RetrievalError, SearchFailed

LIMIT_S = 6.0
TURNS = 400
"""Searches of an episode: more than are made before the server dies."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small index in a folder."""
    folder = tmp_path_factory.mktemp("indexes") / "films"
    asyncio.run(build_index(DOCUMENTS, folder, "bm25"))
    return folder


@dataclass(frozen=True)
class Command:
    """The command under way, and what it says."""

    process: Running
    out: Path
    err: Path

    def line(self, number: int) -> str:
        """A line that it prints, once it is there."""
        while len(lines := self.out.read_text().splitlines(keepends=True)) <= number or not lines[number].endswith(
            "\n"
        ):
            assert self.process.poll() is None, self.err.read_text()
            time.sleep(0.01)
        return lines[number]


@contextmanager
def start(*words: str) -> Iterator[Command]:
    """The command, until the block ends."""
    with tempfile.TemporaryDirectory() as name:
        out, err = Path(name) / "out", Path(name) / "err"
        out.touch()
        err.touch()
        process = Running(["serve-search", *words], os.environ, out, err)
        try:
            yield Command(process, out, err)
        finally:
            process.end_group()


@contextmanager
def started(*words: str) -> Iterator[tuple[Command, str]]:
    """The command when it is ready, and its address without a path."""
    with start(*words) as command:
        number = 0
        while not (line := command.line(number)).startswith("ready: "):
            number += 1
        yield command, line.removeprefix("ready: ").strip().removesuffix("/retrieve")


def episode(environment: Environment, number: int, turns: int) -> asyncio.Task[EpisodeRun]:
    """An agent that searches turn by turn for something new and then answers."""

    def reply(request: Request) -> str:
        searched = str(request.prompt).count("<information>")
        if searched > turns:
            return "<think>Enough.</think><answer>Vienna</answer>"
        return f"<think>I look.</think><search>Fritz Lang {number} {searched}</search>"

    question = "Where was the director of Metropolis born?"
    respond = environment.respond(SEARCH_R1, question)
    config = EpisodeConfig(max_turns=turns + 2, max_tokens=10**9)
    client = ScriptedModel(reply)
    return asyncio.create_task(run_episode(question, SEARCH_R1, respond, client=client, model="m", config=config))


async def test_a_killed_server_ends_episodes_with_errors_and_a_restarted_one_serves_the_same_client(
    index: Path,
) -> None:
    """Kill -9 in the middle of their searches: every episode ends with an error within the client's limit."""
    port = closed_port()
    words = (str(index), "--port", str(port))
    client = connect(f"http://127.0.0.1:{port}", config=SearchClientConfig(timeout_s=3.0, limit_s=LIMIT_S))
    environment = Environment(documents=client, top_k=2)
    with started(*words) as (command, url):
        episodes = [episode(environment, number, TURNS) for number in range(16)]
        while (await get(f"{url}/stats"))["queries"] < 40:
            await asyncio.sleep(0.01)
        assert not any(each.done() for each in episodes)
        command.process.send_signal(signal.SIGKILL)
        ends = await asyncio.gather(*episodes, return_exceptions=True)
    assert [type(end) for end in ends] == [SearchFailed] * len(ends)
    assert "is the search server up" in str(ends[0])
    with started(*words):
        again = await asyncio.gather(*(episode(environment, number, 2) for number in range(4)))
    assert [run.stop for run in again] == ["answered"] * 4
    assert all("Fritz Lang was born in Vienna." in text_of(run) for run in again)


async def test_a_server_that_stops_finishes_what_is_asked(tmp_path: Path) -> None:
    """On SIGTERM: the large request under way is answered, the process ends with code 0, and nothing new is taken."""
    file = tmp_path / "passages.jsonl"
    lines = [json.dumps({"id": f"{n}", "title": f"T{n}", "text": f"word{n % 97} " * 50}) for n in range(3000)]
    file.write_text("\n".join(lines), encoding="utf-8")
    with started(f"words={file}", "--port", "0", "--cached", "0") as (command, url):
        queries = [f"word{n % 97} word{n % 89} {n}" for n in range(1500)]
        asked = asyncio.create_task(post(f"{url}/retrieve", {"queries": queries, "topk": 1}))
        while not (await get(f"{url}/stats"))["queries"]:
            await asyncio.sleep(0.005)
        command.process.send_signal(signal.SIGTERM)
        status, reply, _ = await asked
        code = await asyncio.to_thread(command.process.wait, 30)
        problems, last = command.err.read_text(), command.out.read_text().splitlines()[-1]
    assert (status, len(reply["result"])) == (200, 1500)
    assert (code, problems) == (0, "") and last.startswith("stopping: 1 request")


def test_what_cannot_be_served_is_said(index: Path, tmp_path: Path) -> None:
    """Before anything is opened, where that can be said."""
    (tmp_path / "empty.jsonl").touch()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "nothing to serve: give an index, --kg or --web"),
        ({"indexes": [str(tmp_path / "none")]}, "none: no such index; `trailforge index build` makes one"),
        ({"indexes": [str(tmp_path)]}, "holds no index: make one with `trailforge index build`"),
        ({"indexes": [str(tmp_path / "empty.jsonl")]}, "holds no passages"),
        ({"indexes": [str(index), f"films={index}"]}, "two indexes are called 'films'"),
        ({"kg": tmp_path}, "holds no"),
    ]
    for options, shown in wrong:
        with pytest.raises((InvalidInput, RetrievalError), match=re.escape(shown)):
            serve_search(**options)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"cannot listen at 127.0.0.1:{port} .*; give another --port"):
            serve_search([str(index)], port=port)


async def test_the_command_serves_graph_and_web_too(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each under its path or its name; where the web is searched its pages may be opened."""
    small_store(tmp_path)
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-test")
    hit = {"title": "Mills", "url": "https://mills.example/1", "content": "Tide mills."}
    async with recorded(json.dumps({"results": [hit]})) as web:
        words = (str(index), "--kg", str(tmp_path / "store"), "--web", "--web-url", web.url, "--port", "0")
        with started(*words) as (_, url):
            health = await get(f"{url}/health")
            found = await connect(url, corpus="web").find("tide mills", 3)
            triples = (await connect(url).search_kg(["Einstein"], ["born in"])).triples
            status, refused, _ = await post(f"{url}/open", {"page": web.url})
    assert (list(health["corpora"]), health["kg"], health["web_pages"]) == (["films", "web"], True, True)
    assert [(each.passage.id, each.why) for each in found] == [("https://mills.example/1", "result 1 of the web")]
    assert triples[0].tail_label == "Ulm"
    assert status == 424 and "is not public" in refused["error"]


def test_listening_to_the_network_is_warned_of(index: Path) -> None:
    """Nothing asks for a key there."""
    with start(str(index), "--host", "0.0.0.0", "--port", "0") as command:
        assert command.line(2).startswith("warning: whoever reaches this machine")
        assert command.line(3).startswith("ready: http://127")
