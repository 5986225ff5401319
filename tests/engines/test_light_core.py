"""The core and the extra `agent` in an engine's environment: it is imported, and an episode is led beside it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.tiny_tokenizer import tiny_tokenizer
from tests.support.truths import score_messages
from tests.training.framework_servers import FakeSampler, expected, searched
from tests.training.tiny import rl_rows
from trailforge.training.adapters.search_episodes import read_settings, search_episode
from trailforge.training.generation import Continuation
from trailforge.training.masks import prepare_tokenizer


@pytest.mark.parametrize("engine", ["verl", "trl", "verifiers"])
async def test_an_episode_is_led_beside(engine: str, tmp_path: Path) -> None:
    """With a scripted sampler: tokens, mask and reward are as everywhere."""
    pytest.importorskip(engine)
    tokenizer: Any = tiny_tokenizer()
    prepare_tokenizer(tokenizer)
    sampler = FakeSampler(tokenizer, "react")
    row = rl_rows()[-1]

    async def go_on(ids: list[int], room: int, stop: Sequence[str], end_ids: Collection[int]) -> Continuation:
        return Continuation(sampler.sample(ids))

    settings = read_settings(searched(tmp_path))
    episode = await search_episode(row.prompt, "react", settings, go_on=go_on, tokenizer=tokenizer, max_tokens=2000)
    assert (episode.ids, episode.mask) == expected(tokenizer, episode.messages)
    assert episode.run.stop == "answered" and episode.run.num_searches == 1
    paid = score_messages(episode.messages, row.reward_model.ground_truth, tokens=len(episode.ids))
    assert paid.total > 0.5
