"""Rollouts whose searches go through a search server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from tests.retrieval.service.support import answering, serving
from tests.support.timed_agents import Script, TimedGenerator, TimedServer, time_episodes
from tests.training.tiny import retriever
from trailforge.protocols.environment import Environment, EnvironmentConfig
from trailforge.retrieval.base import SearchPatience
from trailforge.retrieval.service.client import connect
from trailforge.retrieval.service.searching import ServedIndex
from trailforge.retrieval.service.server import SearchServer
from trailforge.training.search_sources import open_training_environment

TURNS = [5, *(2 + number % 3 for number in range(15))]
"""Of each episode."""


def opened(url: str, **settings: Any) -> Environment:
    return open_training_environment("react", [], search=EnvironmentConfig(kind=url, **settings), top_k=2)


def scripted(tokenizer: Any, turn_s: float) -> Script:
    """Queries that begin with the number of their episode."""
    queries = [[f"Webb {number} {turn}" for turn in range(1, turns)] for number, turns in enumerate(TURNS)]
    return Script(queries, tokenizer, turn_s)


@pytest.mark.parametrize("kind", [TimedServer, TimedGenerator])
async def test_sixteen_episodes_take_about_as_long_as_the_longest(tokenizer: Any, kind: Any) -> None:
    """Short form of `benchmarks/rollouts.py`: in less than half of what their turns alone take one after the other."""
    script = scripted(tokenizer, 0.5)
    async with serving(SearchServer([ServedIndex("sample", retriever())])) as url:
        environment = await asyncio.to_thread(opened, url)
        together, episodes = await asyncio.to_thread(time_episodes, script, kind(script), environment, range(16))
    assert [each.run.num_searches + 1 for each in episodes] == TURNS
    assert {each.run.stop for each in episodes} == {"answered"}
    assert all(len(step.observation.passages) == 2 for each in episodes for step in each.run.steps if step.observation)
    assert together < sum(TURNS) * script.turn_s / 2


async def test_a_server_that_fails_for_one_and_hangs_for_another_costs_two_episodes(tokenizer: Any) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        query = (await request.json())["queries"][0]
        if query.startswith("Webb 3 "):
            return web.json_response({"error": "the index is damaged"}, status=424)
        if query.startswith("Webb 5 "):
            await asyncio.sleep(9999)
        row = {"document": {"id": "1", "title": "Webb", "text": "A telescope."}, "score": 1.0}
        return web.Response(body=json.dumps({"result": [[row]]}), content_type="application/json")

    script = scripted(tokenizer, 0.05)
    patience = SearchPatience(timeout_s=1.0, attempts=2, backoff_s=0.05)
    async with answering(answer) as url:
        environment = Environment(documents=connect(url), top_k=1, patience=patience)
        _, episodes = await asyncio.to_thread(time_episodes, script, TimedServer(script), environment, range(16))
    assert [number for number, each in enumerate(episodes) if each.failed] == [3, 5]
    assert "the index is damaged" in episodes[3].run.error and "within 1 s" in episodes[5].run.error
