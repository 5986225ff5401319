"""The agent for OpenRLHF 0.11: `--train.agent_func_path …/training/adapters/openrlhf.py`.

It makes an episode in the protocol of its question, and pays it. What is searched is given in the YAML file that the
environment variable TRAILFORGE_SEARCH names (`SearchSettings`). TRAILFORGE_REWARD_PRESET, where it is set, names a
reward preset, or a training preset's YAML file, in place of each question's own.

OpenRLHF reckons with groups of one size: of an episode whose search failed no token is trained, but what it is paid
counts in its group's mean, and the KL that is logged of it is not a number.
"""

# OpenRLHF is installed in an environment of its own.
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

from openrlhf.utils.agent import AgentExecutorBase

from trailforge.protocols import grammar_of
from trailforge.training.adapters.search_episodes import (
    PROCESS,
    GoOn,
    asked_of,
    environment_of,
    keep_episode,
    named_settings,
    read_opening,
    search_episode,
)
from trailforge.training.generation import Continuation
from trailforge.training.kept_episodes import make_place
from trailforge.training.masks import prompt_ids
from trailforge.training.scoring import ToScore, read_truth, scorer_of
from trailforge.training.token_episodes import TokenEpisode


class AgentExecutor(AgentExecutorBase):
    """The agent for OpenRLHF, under the name by which OpenRLHF looks for it in a file."""

    async def execute(
        self,
        prompt: Any,
        label: str,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
    ) -> dict[str, Any]:
        """Run an episode of at most `max_length` tokens, prompt included. `label` is its ground truth as JSON. Raises
        what `search_episode` and the judge raise, and `InvalidInput` for a prompt in another chat template.
        """
        opening, truth, settings = read_opening(prompt), read_truth(label), named_settings()
        question = grammar_of(truth.protocol).question_of(opening[-1].content)

        episode = await search_episode(
            opening,
            truth.protocol,
            settings,
            go_on=_sampler(llm_engine, sampling_params),
            tokenizer=hf_tokenizer,
            max_tokens=max_length - len(prompt_ids(hf_tokenizer, opening)),
        )
        scored = scorer_of(os.environ.get("TRAILFORGE_REWARD_PRESET"), truth.protocol).begin(
            ToScore(
                messages=episode.messages,
                truth=truth,
                question=question,
                tokens=len(episode.ids),
                retrieved_titles=[passage.title for passage in episode.run.passages],
            )
        )
        reward = await scored.wait()
        asked = asked_of(truth, {"question": question})
        if settings.keep_in and asked is not None:
            environment = await asyncio.to_thread(environment_of, truth.protocol, settings)
            place = make_place(truth.protocol, environment, str(hf_tokenizer.name_or_path), PROCESS)
            keep_episode(settings.keep_in, asked, episode.run, place, reward)
        return {
            "prompt": prompt,
            "label": label,
            "images": images,
            "mm_train_inputs": None,
            "reward": reward.total,
            "scores": reward.total,
            "observation_tokens": [*episode.prompt_ids, *episode.ids],
            "action_ranges": _sampled_ranges(episode),
            "rollout_log_probs": None if sampling_params.logprobs is None else _logprobs(episode),
            "truncated": episode.run.stop == "too_long",
            "extra_logs": {"searches": float(episode.run.num_searches), "failed": float(episode.failed)},
        }


def _sampler(engine: Any, asked: Any) -> GoOn:
    """Turns by OpenRLHF's vLLM. `asked`: its sampling parameters, which all episodes on a question share."""

    async def go_on(ids: list[int], room: int, stop: Sequence[str], end_ids: Collection[int]) -> Continuation:
        sampling = deepcopy(asked)
        sampling.max_tokens, sampling.stop, sampling.include_stop_str_in_output = room, list(stop), True
        made = (await engine.generate(ids, sampling)).outputs[0]
        sampled = list(made.token_ids)
        if asked.logprobs is None:
            return Continuation(sampled, None)
        known = [each[token].logprob for each, token in zip(made.logprobs, sampled, strict=True)]
        return Continuation(sampled, known)

    return go_on


def _sampled_ranges(episode: TokenEpisode) -> list[tuple[int, int]]:
    """Where the agent's tokens stand in prompt and episode: from, up to."""
    turns = [0, *episode.mask, 0]
    changes = [at for at, (before, after) in enumerate(pairwise(turns)) if before != after]
    start = len(episode.prompt_ids)
    return [(start + first, start + end) for first, end in zip(changes[::2], changes[1::2], strict=True)]


def _logprobs(episode: TokenEpisode) -> list[float]:
    """Of each token of prompt and episode; 0 where none was sampled."""
    return [0.0] * len(episode.prompt_ids) + [logprob or 0.0 for logprob in episode.logprobs]
