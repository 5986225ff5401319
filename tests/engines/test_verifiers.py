"""Our environment inside verifiers: its evaluation command and its training client, against scripted servers.

verifiers is installed in an environment of its own: `make test-engine ENGINE=verifiers`.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.support.tiny_tokenizer import tiny_tokenizer
from tests.support.truths import score_messages
from tests.training.framework_servers import LOGPROB, FakeSampler, says, searched
from tests.training.tiny import rl_rows, training_set
from trailforge.evaluation.folder import read_trained
from trailforge.protocols import PROTOCOLS, grammar_of
from trailforge.schemas import ChatMessage, RetrievalError
from trailforge.schemas.agent_episode import TrainingStep
from trailforge.training.adapters import search_episodes
from trailforge.training.adapters.search_episodes import read_settings, search_episode
from trailforge.training.generation import Continuation
from trailforge.training.masks import prepare_tokenizer, prompt_ids, render
from trailforge.training.token_episodes import TokenEpisode

vf: Any = pytest.importorskip("verifiers.v1")
ours: Any = pytest.importorskip("trailforge.training.adapters.verifiers")
pytestmark = pytest.mark.slow
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
RENDERER = {"name": "custom", "import_path": "trailforge.training.adapters.verifiers_renderer.Renderer"}


@dataclass
class ScriptedServer:
    """A chat endpoint that takes stop strings off, as OpenAI's does, and vLLM's for tokens, which keeps them."""

    sampler: FakeSampler
    chats: list[Mapping[str, Any]] = field(default_factory=list)
    generated: list[Mapping[str, Any]] = field(default_factory=list)
    url: str = ""

    async def chat(self, request: web.Request) -> web.Response:
        """A reply up to the first stop string."""
        body = await request.json()
        self.chats.append(body)
        turns = [ChatMessage(role=turn["role"], content=turn["content"]) for turn in body["messages"]]
        text = says(self.sampler.protocol, render(turns))
        for stop in body["stop"]:
            text = text.partition(stop)[0]
        usage = {"prompt_tokens": 100 * len(turns), "completion_tokens": 7, "total_tokens": 100 * len(turns) + 7}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        return web.json_response(
            {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
        )

    async def generate(self, request: web.Request) -> web.Response:
        """A continuation as tokens with their log-probabilities."""
        body = await request.json()
        self.generated.append(body)
        ids = self.sampler.sample(body["token_ids"])
        content = [{"token": f"token_id:{token}", "logprob": LOGPROB} for token in ids]
        choice = {"index": 0, "token_ids": ids, "logprobs": {"content": content}, "finish_reason": "stop"}
        return web.json_response({"request_id": "x", "choices": [choice]})


@asynccontextmanager
async def serving(sampler: FakeSampler) -> AsyncIterator[ScriptedServer]:
    """A server on loopback."""
    server, app = ScriptedServer(sampler), web.Application()
    app.router.add_post("/v1/chat/completions", server.chat)
    app.router.add_post("/inference/v1/generate", server.generate)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """With our template; in the folder that is its name."""
    found: Any = tiny_tokenizer()
    prepare_tokenizer(found)
    folder = tmp_path_factory.mktemp("tokenizer")
    found.save_pretrained(folder)
    found.folder = str(folder)
    return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training set for each protocol, and what they search."""
    home = tmp_path_factory.mktemp("world")
    (home / "search.yaml").write_text(yaml.safe_dump(searched(home)))
    for protocol in PROTOCOLS:
        training_set(home / protocol, rl=rl_rows(protocol))
    return home


async def our_episode(protocol: str, number: int, world: Path, tokenizer: Any) -> TokenEpisode:
    """The same question led by the core alone."""
    sampler = FakeSampler(tokenizer, protocol, beyond="")

    async def go_on(ids: list[int], room: int, stop: Sequence[str], end_ids: Collection[int]) -> Continuation:
        made = sampler.sample(ids)
        return Continuation(made, [LOGPROB] * len(made))

    return await search_episode(
        rl_rows(protocol)[number].prompt,
        protocol,
        read_settings(yaml.safe_load((world / "search.yaml").read_text())),
        go_on=go_on,
        tokenizer=tokenizer,
        max_tokens=16384,
    )


@pytest.mark.parametrize("protocol", ["react", "r_search"])
async def test_its_evaluation_command_pays_and_converses_as_we_do(
    protocol: str, world: Path, tokenizer: Any, tmp_path: Path
) -> None:
    """On every question of the set, with a server that takes closing tags off: they are back in the conversation. The
    command's process ends with every episode kept."""
    keeping = keep_in(tmp_path / "kept", world)
    async with serving(FakeSampler(tokenizer, protocol)) as server:
        command = (
            f"trailforge --env.taskset.training-set {world / protocol} --env.taskset.protocol {protocol} "
            f"--env.taskset.search {keeping} --env.taskset.tokenizer {tokenizer.folder} "
            f"--model m --client.base-url {server.url} --no-rich --no-push --output-dir {tmp_path} --run.name run"
        )
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).parent / "vf-eval"),
            *command.split(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed = (await process.communicate())[0].decode()
    assert process.returncode == 0, printed[-3000:]
    traces = [trace for line in (tmp_path / "run" / "traces.jsonl").open() for trace in traces_of(json.loads(line))]
    assert len(traces) == len(rl_rows(protocol))
    assert not [trace["errors"] for trace in traces if not trace["ok"]]
    assert {tuple(body["stop"]) for body in server.chats} == {tuple(grammar_of(protocol).stop)}
    for trace in traces:
        number = int(trace["task"]["data"]["name"].partition("-")[0])
        episode = await our_episode(protocol, number, world, tokenizer)
        assert [node["message"]["content"] for node in trace["nodes"]] == [m.content for m in episode.messages]
        truth = rl_rows(protocol)[number].reward_model.ground_truth
        direct = score_messages(episode.messages, truth).total
        assert trace["rewards"]["reward"]["score"] == pytest.approx(direct, abs=1e-9)
        assert trace["metrics"]["num_searches"] == 1 and trace["info"]["stop"] == "answered"
    kept = {row.question_id: row for row in read_trained(tmp_path / "kept")}
    assert set(kept) == {row.uid for row in rl_rows(protocol)} == {trace["task"]["data"]["name"] for trace in traces}
    for trace in traces:
        row = kept[trace["task"]["data"]["name"]]
        assert [node["message"]["content"] for node in trace["nodes"]] == [m.content for m in row.messages]
        assert row.training is not None and row.training.reward == trace["rewards"]["reward"]["score"]
        assert (row.agent, row.stop, row.model, len(row.searches)) == (protocol, "answered", "m", 1)
        assert (row.costs.calls, row.costs.completion_tokens, row.costs.prompt_tokens) == (2, 14, 100 * (2 + 4))
        assert row.dataset == rl_rows(protocol)[0].data_source and row.golds and row.index


def keep_in(folder: Path, world: Path) -> Path:
    """The settings of a world by which episodes are kept in a folder."""
    path = folder.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(yaml.safe_load((world / "search.yaml").read_text()) | {"keep_in": str(folder)}))
    return path


def traces_of(line: dict[str, Any]) -> list[dict[str, Any]]:
    """A line of its file is an episode, or a trace."""
    return line.get("traces", [line])


@every_protocol
async def test_its_training_client_gets_our_tokens_mask_and_reward(protocol: str, world: Path, tokenizer: Any) -> None:
    """Turns that are spelled stay spelled. We put an end behind the last turn, without loss; it needs none."""
    environment = ours.load_environment(
        str(world / protocol), str(world / "search.yaml"), protocol=protocol, tokenizer=tokenizer.folder
    )
    (task, *_) = environment.taskset
    async with serving(FakeSampler(tokenizer, protocol, beyond="")) as server, environment.serving():
        client = vf.TrainClientConfig(base_url=server.url, renderer=RENDERER, renderer_model_name=tokenizer.folder)
        episode = await environment.run_episode(task, vf.ModelContext(model="m", client=client))
    (trace,) = episode.traces
    assert trace.ok, trace.errors
    (branch,) = trace.branches
    direct = await our_episode(protocol, 0, world, tokenizer)
    assert branch.token_ids == [*direct.prompt_ids, *direct.ids[:-1]] and direct.mask[-1] == 0
    assert [int(is_sampled) for is_sampled in branch.sampled_mask] == [0] * len(direct.prompt_ids) + direct.mask[:-1]
    assert [logprob for node in branch.nodes for logprob in node.logprobs] == [LOGPROB] * sum(direct.mask)
    assert [message.content for message in branch.messages] == [message.content for message in direct.messages]
    truth = rl_rows(protocol)[0].reward_model.ground_truth
    paid = score_messages(direct.messages, truth, tokens=len(direct.ids)).total
    assert trace.reward == pytest.approx(paid, abs=1e-9)
    assert server.generated[0]["sampling_params"]["stop"] == list(grammar_of(protocol).stop)
    assert server.generated[0]["token_ids"] == prompt_ids(tokenizer, rl_rows(protocol)[0].prompt)


class NothingFound:
    """Fails for good."""

    name = "none"

    async def retrieve(self, query: str, k: int) -> list[Any]:
        raise RetrievalError("the index is gone")


async def test_an_episode_whose_search_fails_is_kept_out_of_training(
    world: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It has no reward, and says why; verifiers drops what is not ok. The page shows it all the same."""
    real = ours.environment_of
    monkeypatch.setattr(ours, "environment_of", lambda *given: replace(real(*given), documents=NothingFound()))
    environment = ours.load_environment(str(world / "react"), str(keep_in(tmp_path / "kept", world)))
    (task, *_) = environment.taskset
    async with serving(FakeSampler(tokenizer, "react")) as server, environment.serving():
        client = vf.EvalClientConfig(base_url=server.url)
        (trace,) = (await environment.run_episode(task, vf.ModelContext(model="m", client=client))).traces
    assert not trace.ok and "the index is gone" in trace.last_error.message and trace.reward == 0
    search_episodes._writer_to(str(tmp_path / "kept")).close()
    (row,) = read_trained(tmp_path / "kept")
    assert row.stop == "failed" and "the index is gone" in row.error and row.training == TrainingStep(step=0)


async def test_a_wrong_setting_is_said_before_anything_runs(world: Path) -> None:
    """By the taskset."""
    environment = ours.load_environment(str(world / "react"), str(world / "none.yaml"))
    with pytest.raises(Exception, match=r"none\.yaml"):
        list(environment.taskset)
    said = yaml.safe_load((world / "search.yaml").read_text()) | {"mask_truncated": True}
    (world / "masking.yaml").write_text(yaml.safe_dump(said))
    environment = ours.load_environment(str(world / "react"), str(world / "masking.yaml"))
    with pytest.raises(Exception, match=r"masking\.yaml.*mask_truncated|verifiers trains all"):
        list(environment.taskset)
