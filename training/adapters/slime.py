"""The reward and the rollout with searches for slime, which this module does not import.

`--custom-rm-path trailforge.training.adapters.slime.reward --label-key reward_model`. `args.reward_preset` (a name, or
a training preset's YAML file, whose judge is then asked) and `args.reward_protocol`, where they are set, hold for all
questions. `sample.metadata` may have what the data set or a generate function knows, as ours do: `question`,
`transcript` (its messages), `retrieved_titles`, `judge`.

`--custom-generate-function-path trailforge.training.adapters.slime.generate`. What is searched is set in the YAML file
that the environment variable TRAILFORGE_SEARCH names (`SearchSettings`). Not for `--partial-rollout`: an episode that
slime breaks off is made again. Turns are appended by slime's own `Sample.append_response_tokens`, so slime has to be of
August 2026 or later (tried at its commit 624b824).

`--custom-reward-post-process-path trailforge.training.adapters.slime.center_rewards`: as slime makes advantages of the
rewards of a group, but an episode whose search failed counts in no mean.
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from statistics import fmean, stdev
from typing import Any

from trailforge.training.adapters.search_episodes import (
    asked_of,
    known_of,
    logprobs_of,
    named_settings,
    read_opening,
    search_episode,
    tokenizer_of,
)
from trailforge.training.generation import Continuation, post_json
from trailforge.training.scoring import read_episode, read_truth, scorer_of
from trailforge.training.token_episodes import TokenEpisode

_TOP_P_KEYS = (("top_p_token_ids", "top_p_token_offsets"), ("top_p_kept_token_ids", "top_p_kept_token_offsets"))
"""By which SGLang says which tokens top-p left for each token of a turn."""


async def reward(args: Any, sample: Any, **_: Any) -> float:
    """Return the reward of slime's `Sample`. Of slime's arguments `args`, `reward_preset` and `reward_protocol` are
    used."""
    protocol = getattr(args, "reward_protocol", None)
    known = sample.metadata or {}
    episode = read_episode(sample.response, sample.label, known, protocol=protocol, tokens=sample.response_length)
    scorer = scorer_of(getattr(args, "reward_preset", None), protocol)
    return (await scorer.begin(episode).wait()).total


_CENTERED = ("grpo", "gspo", "cispo", "reinforce_plus_plus_baseline")
"""Estimators for which slime takes off a group's mean; for all but the last it divides by the deviation too."""


def center_rewards(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Return the rewards as they were computed, and as they are trained: 0 for a failed episode, and where it leaves
    one alone in its group.
    """
    paid = [float(sample.get_reward_value(args)) for sample in samples]
    if args.advantage_estimator not in _CENTERED or not args.rewards_normalization:
        return paid, paid
    groups: dict[int, list[int]] = {}
    for at, sample in enumerate(samples):
        if (sample.metadata or {}).get("stop") != "failed":
            number = at // args.n_samples_per_prompt if sample.group_index is None else sample.group_index
            groups.setdefault(number, []).append(at)
    trained = [0.0] * len(samples)
    for places in groups.values():
        rewards = [paid[at] for at in places]
        mean, scale = fmean(rewards), 1.0
        if args.advantage_estimator in _CENTERED[:-1] and args.grpo_std_normalization and len(rewards) > 1:
            scale = stdev(rewards) + 1e-6  # as slime has it
        for at, reward in zip(places, rewards, strict=True):
            trained[at] = (reward - mean) / scale
    return paid, trained


async def generate(args: Any, sample: Any, sampling_params: Mapping[str, Any]) -> Any:
    """Run an episode on the sample's question, and write it into the sample; an aborted one leaves the sample as it
    was.

    The sample is slime's own: its prompt messages, or a text in ChatML with `--apply-chat-template`.
    `sampling_params["max_new_tokens"]` is its longest response, results included. Raises what `search_episode` raises,
    and `ServerUnavailable` or `RequestRefused` where the router does not answer.
    """
    tokenizer = tokenizer_of(args.hf_checkpoint)
    server = _Server(f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate", sampling_params)
    try:
        episode = await search_episode(
            read_opening(sample.prompt),
            read_truth(sample.label).protocol,
            named_settings(),
            go_on=server.go_on,
            tokenizer=tokenizer,
            max_tokens=sampling_params["max_new_tokens"],
            asked=asked_of(sample.label, sample.metadata),
            step=server.step,
        )
    except _Aborted:
        sample.status = sample.Status.ABORTED
        return sample
    _write(args, sample, episode, server.turns)
    sample.response = tokenizer.decode(episode.ids, skip_special_tokens=False)
    sample.metadata = {**(sample.metadata or {}), **known_of(episode)}
    is_cut = episode.run.stop == "too_long"
    sample.status = sample.Status.TRUNCATED if is_cut else sample.Status.COMPLETED
    return sample


def _write(args: Any, sample: Any, episode: TokenEpisode, turns: Sequence[Mapping[str, Any]]) -> None:
    """Prompt and turns. `turns`: what the server said of each that has tokens."""
    sample.tokens, sample.response_length, sample.loss_mask = list(episode.prompt_ids), 0, []
    sample.rollout_log_probs = sample.rollout_top_p_token_ids = sample.rollout_top_p_token_offsets = None
    if not any(episode.mask):  # one whose search failed: slime wants them all the same
        sample.rollout_top_p_token_ids, sample.rollout_top_p_token_offsets = [], [0]
    said = iter(turns)
    for is_sampled, run in groupby(zip(episode.mask, episode.ids, logprobs_of(episode) or (), strict=True), _mask_of):
        parts = list(run)
        tokens = [token for _, token, _ in parts]
        if not is_sampled:
            sample.append_response_tokens(args, tokens=tokens, trainable=False)
            continue
        logprobs = [logprob for _, _, logprob in parts]
        sample.append_response_tokens(
            args, tokens=tokens, log_probs=logprobs, trainable=True, meta_info=_cut_meta(next(said), len(tokens))
        )


def _mask_of(part: tuple[int, int, float]) -> int:
    return part[0]


def _cut_meta(meta: Mapping[str, Any], kept: int) -> dict[str, Any]:
    """What was said of a turn's first `kept` tokens: what was sampled behind its closing tag is not kept.

    Routing that is to be replayed is of the whole sequence, and cannot be cut.
    """
    if kept == len(meta["output_token_logprobs"]):
        return dict(meta)
    cut = {key: value for key, value in meta.items() if key != "routed_experts"}
    for ids, offsets in _TOP_P_KEYS:
        if ids in meta:
            ends = _integers(meta[offsets])[: kept + 1]
            cut |= {ids: _integers(meta[ids])[: ends[-1]], offsets: ends}
    return cut


def _integers(value: Any) -> list[int]:
    """SGLang sends 32-bit numbers as bytes in base64, or as they are."""
    if isinstance(value, str):
        return list(array("i", base64.b64decode(value)))
    return [int(each) for each in value]


class _Aborted(Exception):
    """slime has enough episodes and broke the others off."""


class _Server:
    """The SGLang router."""

    def __init__(self, url: str, sampling: Mapping[str, Any]) -> None:
        self._url, self._sampling = url, sampling
        self.turns: list[dict[str, Any]] = []
        """What it said of each turn that has tokens."""

    def step(self) -> int:
        """That trains what was sampled last, by the version of SGLang's weights; 0 where that is no number."""
        version = str(self.turns[-1].get("weight_version", "")) if self.turns else ""
        return int(version) if version.isdecimal() else 0

    async def go_on(self, ids: list[int], room: int, stop: Sequence[str], end_ids: Collection[int]) -> Continuation:
        """As `search_episodes.GoOn`."""
        sampling = {
            **self._sampling, "max_new_tokens": room, "stop": list(stop), "stop_token_ids": list(end_ids),
            "no_stop_trim": True,
        }  # fmt: skip
        asked = {"input_ids": ids, "sampling_params": sampling, "return_logprob": True}
        meta = (await post_json(self._url, asked))["meta_info"]
        if meta["finish_reason"]["type"] == "abort":
            raise _Aborted
        sampled = meta.get("output_token_logprobs") or ()  # (log-probability, token, text)
        if sampled:
            self.turns.append(meta)
        return Continuation([token for _, token, *_ in sampled], [float(logprob) for logprob, *_ in sampled])
