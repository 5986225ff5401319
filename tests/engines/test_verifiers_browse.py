"""Research agents inside verifiers: native calls through its evaluation client, paid as elsewhere.

verifiers is installed in an environment of its own: `make test-engine ENGINE=verifiers`.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.protocols.browse.test_loop import Agent
from tests.support.browse_agent import ANSWER, QUESTION, Road, message_of, opening_turn
from tests.support.native_models import TEMPLATES, THINKING, native_tokenizer, served, speak
from tests.support.sft_rows import sft_row
from tests.training.tiny import rl_rows, training_set
from trailforge.inference import Sampling
from trailforge.inference.provider import chat_message
from trailforge.protocols.browse import BROWSE, BROWSE_QUESTIONS, BrowseConfig, run_browse_episode, window_rows
from trailforge.protocols.browse.actions import BrowseTurn
from trailforge.training.adapters.search_episodes import environment_of, read_settings
from trailforge.training.native import native_tokens

vf: Any = pytest.importorskip("verifiers.v1")
ours: Any = pytest.importorskip("trailforge.training.adapters.verifiers")
pytestmark = pytest.mark.slow
CALLS = 6
RENDERER = {"name": "custom", "import_path": "trailforge.training.adapters.verifiers_native.NativeRenderer"}


@asynccontextmanager
async def serving(bodies: list[Mapping[str, Any]], generate: Any = None) -> AsyncIterator[str]:
    """A chat endpoint that takes tools and calls them; its URL."""

    async def chat(request: web.Request) -> web.Response:
        body = await request.json()
        bodies.append(body)
        turn = opening_turn("\n".join(each.get("content") or "" for each in body["messages"]))
        assert isinstance(turn, BrowseTurn)
        message = message_of(turn, body)
        usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
        finish = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "finish_reason": finish, "message": message}
        return web.json_response(
            {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
        )

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    if generate is not None:
        app.router.add_post("/inference/v1/generate", generate)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


def world(home: Path) -> tuple[Path, dict[str, Any]]:
    """A training set with one question, and what is searched."""
    Road(3).write(home / "road.jsonl")
    search = {
        "documents": [str(home / "road.jsonl")],
        "kind": "bm25",
        "top_k": 2,
        "max_observation_tokens": 1000,
        "max_searches": CALLS,
    }
    (home / "search.yaml").write_text(yaml.safe_dump(search))
    (first, *_) = rl_rows(BROWSE)
    truth = replace(first.reward_model.ground_truth, target=(ANSWER,), reward_preset=BROWSE_QUESTIONS.reward)
    row = replace(
        first,
        question=QUESTION,
        prompt=BROWSE_QUESTIONS.opening(QUESTION),
        reward_model=replace(first.reward_model, ground_truth=truth),
    )
    return training_set(home / "set", rl=[row]), search


async def test_a_research_agent_calls_and_is_paid(tmp_path: Path) -> None:
    """Its server is sent, turn by turn, what our own client sends."""
    asked, search = world(tmp_path)
    environment = ours.load_environment(str(asked), str(tmp_path / "search.yaml"), protocol=BROWSE)
    (task, *_) = environment.taskset
    bodies: list[Mapping[str, Any]] = []
    async with serving(bodies) as url, environment.serving():
        client = vf.EvalClientConfig(base_url=url)
        (trace,) = (await environment.run_episode(task, vf.ModelContext(model="m", client=client))).traces
    assert trace.ok, trace.errors
    assert trace.reward == 1.0 and trace.info["stop"] == "answered" and len(trace.branches) == 1
    agent = Agent(opening_turn)
    pages = environment_of(BROWSE, read_settings(search)).pages
    assert pages is not None
    config = BrowseConfig(writing="native", sampling=Sampling(max_tokens=4096), max_calls=CALLS, top_k=2)
    await run_browse_episode(QUESTION, pages, client=agent, model="m", config=config, clock=None)
    assert len(bodies) == len(agent.requests) >= 3
    for body, request in zip(bodies, agent.requests, strict=True):
        expected = [chat_message(turn) for turn in request.prompt]  # type: ignore[arg-type]
        assert [_said(each) for each in body["messages"]] == [_said(each) for each in expected]
        assert len(body["tools"]) == 3 and "stop" not in body


@pytest.mark.parametrize("model", TEMPLATES)
async def test_its_training_client_trains_what_was_served(model: str, tmp_path: Path) -> None:
    """Token by token what our own client's server reads, and what supervised training makes of the episode."""
    asked, search = world(tmp_path)
    tokenizer = native_tokenizer(model)
    tokenizer.save_pretrained(tmp_path / "model")

    def agent_turn(prompt: str) -> BrowseTurn:
        turn = opening_turn(prompt)
        assert isinstance(turn, BrowseTurn)
        said = "" if turn.calls else turn.thought
        return turn if model == THINKING else replace(turn, thought="", said=said)

    async def generate(request: web.Request) -> web.Response:
        ids = (await request.json())["token_ids"]
        prompts.append(ids)
        made = tokenizer.encode(speak(tokenizer, agent_turn(tokenizer.decode(ids))), add_special_tokens=False)
        content = [{"token": f"token_id:{token}", "logprob": -0.25} for token in made]
        choice = {"index": 0, "token_ids": made, "logprobs": {"content": content}, "finish_reason": "stop"}
        return web.json_response({"request_id": "x", "choices": [choice]})

    prompts: list[list[int]] = []
    environment = ours.load_environment(str(asked), str(tmp_path / "search.yaml"), protocol=BROWSE)
    (task, *_) = environment.taskset
    async with serving([], generate) as url, environment.serving():
        client = vf.TrainClientConfig(base_url=url, renderer=RENDERER, renderer_model_name=str(tmp_path / "model"))
        (trace,) = (await environment.run_episode(task, vf.ModelContext(model="m", client=client))).traces
    assert trace.ok, trace.errors
    (branch,) = trace.branches
    agent = Agent(agent_turn)
    pages = environment_of(BROWSE, read_settings(search)).pages
    assert pages is not None
    config = BrowseConfig(writing="native", sampling=Sampling(max_tokens=4096), max_calls=CALLS, top_k=2)
    done = await run_browse_episode(QUESTION, pages, client=agent, model="m", config=config, clock=None)
    assert trace.reward == 1.0 and prompts == served(tokenizer, agent.requests)
    (sft,) = window_rows(sft_row("u", (), protocol=BROWSE, question="q", answer="a"), done.record)
    assert sft.native is not None
    (whole,) = native_tokens(tokenizer, sft.native, sft.train)
    assert branch.token_ids == whole.input_ids
    assert [int(is_sampled) for is_sampled in branch.sampled_mask] == whole.mask


def _said(message: Mapping[str, Any]) -> dict[str, Any]:
    """What of a message a chat template reads."""
    names = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id")
    return {name: message[name] for name in names if message.get(name)}
