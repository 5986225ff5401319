"""Research agents in verl's agent loop: native calls of a model's own chat template, up to the reward in verl's queue.
verl is installed in an environment of its own: `make test-engine ENGINE=verl`."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl")
pytest.importorskip("transfer_queue")

from tests.protocols.browse.test_loop import Agent
from tests.support.browse_agent import ANSWER, QUESTION, Road, opening_turn
from tests.support.native_models import THINKING, native_tokenizer, served, speak
from tests.training.framework_servers import FakeServerManager, spelled
from tests.training.test_verl_agent_loop import Worker, changed, columns_of
from tests.training.test_verl_agent_loop import config as config
from tests.training.test_verl_agent_loop import entry as entry
from tests.training.test_verl_agent_loop import queue as queue
from tests.training.tiny import rl_rows
from trailforge.inference import Sampling
from trailforge.protocols.browse import BROWSE, BROWSE_QUESTIONS, BrowseConfig, run_browse_episode
from trailforge.protocols.browse.actions import BrowseTurn
from trailforge.training.adapters.search_episodes import environment_of, read_settings

pytestmark = pytest.mark.slow
CALLS = 6


class RoadSampler:
    """Samples what the agent of a road says, letter by letter or as its tokenizer writes it."""

    def __init__(self, tokenizer: Any, *, spells: bool) -> None:
        self.tokenizer, self.spells = tokenizer, spells
        self.asked: list[list[int]] = []

    def sample(self, ids: Sequence[int]) -> list[int]:
        self.asked.append(list(ids))
        turn = opening_turn(self.tokenizer.decode(list(ids), skip_special_tokens=False))
        assert isinstance(turn, BrowseTurn)
        text = speak(self.tokenizer, turn)
        if not self.spells:
            return self.tokenizer.encode(text, add_special_tokens=False)
        end = self.tokenizer.eos_token
        return [*spelled(self.tokenizer, text.removesuffix(end)), self.tokenizer.eos_token_id]


@pytest.mark.parametrize("spells", [False, True])
async def test_verl_trains_a_research_agent_on_what_was_served(
    config: Any, entry: Path, tmp_path: Path, spells: bool
) -> None:
    """Each sampled turn stands behind what a server reads, and the reward is the question's own."""
    Road(3).write(tmp_path / "road.jsonl")
    search = {
        "documents": [str(tmp_path / "road.jsonl")],
        "kind": "bm25",
        "kg": None,
        "top_k": 2,
        "max_observation_tokens": 1000,
        "max_searches": CALLS,
    }
    tokenizer = native_tokenizer(THINKING)
    sampler = RoadSampler(tokenizer, spells=spells)
    its = Worker(config, changed(entry, tmp_path, **search), tokenizer, FakeServerManager(sampler))  # type: ignore[arg-type]
    its.rollout_config.prompt_length, its.rollout_config.response_length = 4000, 8000
    (first, *_) = rl_rows(BROWSE)
    truth = replace(first.reward_model.ground_truth, target=(ANSWER,), reward_preset=BROWSE_QUESTIONS.reward)
    row = replace(
        first,
        question=QUESTION,
        prompt=BROWSE_QUESTIONS.opening(QUESTION),
        reward_model=replace(first.reward_model, ground_truth=truth),
    )
    names = ("prompts", "responses", "response_mask", "rm_scores", "extra_fields")
    found = columns_of(await its.batch([row]), *names)
    (prompt,), (ids,), (mask,) = found["prompts"], found["responses"], found["response_mask"]
    begins = [at for at, own in enumerate(mask) if own and not (at and mask[at - 1])]
    assert [[*prompt, *ids[:at]] for at in begins] == sampler.asked and len(begins) >= 3
    text = tokenizer.decode([token for token, own in zip(ids, mask, strict=True) if own])
    assert text.count("<|im_end|>") == len(begins) and f"<answer>{ANSWER}</answer>" in text
    (known,) = found["extra_fields"]
    assert known["stop"] == "answered" and sum(found["rm_scores"][0]) == pytest.approx(1.0)
    if spells:
        return
    agent = Agent(opening_turn)
    section = {name: value for name, value in search.items() if name != "kg"}
    pages = environment_of(BROWSE, read_settings(section)).pages
    assert pages is not None
    asked = BrowseConfig(writing="native", sampling=Sampling(max_tokens=500), max_calls=CALLS, top_k=2)
    await run_browse_episode(QUESTION, pages, client=agent, model="m", config=asked, clock=None)
    assert sampler.asked == served(tokenizer, agent.requests)
