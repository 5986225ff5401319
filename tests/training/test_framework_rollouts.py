"""Episodes whose turns a framework's server samples: what verl and slime get of them, and what they are paid."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.support.truths import score_messages
from tests.training.framework_servers import ANSWER, LOGPROB, FakeSampler, expected, router, searched
from tests.training.tiny import rl_rows
from trailforge.evaluation.folder import read_trained
from trailforge.protocols import PROTOCOLS
from trailforge.schemas import InvalidInput, RequestRefused, RlRow, ServerUnavailable, to_dict
from trailforge.schemas.agent_episode import TrainingStep
from trailforge.training.adapters import search_episodes, slime, verl
from trailforge.training.adapters.search_episodes import (
    known_of,
    logprobs_of,
    read_settings,
    search_episode,
    settings_of,
)
from trailforge.training.generation import Continuation
from trailforge.training.masks import prompt_ids, render
from trailforge.training.scoring import read_messages
from trailforge.training.token_episodes import TokenEpisode

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
LAUNCHED = 3
"""The fact whose answer the script gives."""


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of a configuration: what is searched."""
    return searched(tmp_path_factory.mktemp("searched"))


def row_of(protocol: str) -> RlRow:
    """A question that the script answers rightly."""
    row = rl_rows(protocol)[LAUNCHED]
    assert row.reward_model.ground_truth.target == (ANSWER,)
    return row


async def episode_of(
    protocol: str,
    section: dict[str, Any],
    sampler: FakeSampler,
    *,
    logprob: float | None = LOGPROB,
    max_tokens: int = 2000,
) -> TokenEpisode:
    """By the core that both adapters wrap."""

    async def go_on(ids: list[int], room: int, stop: Sequence[str], end_ids: Collection[int]) -> Continuation:
        assert tuple(stop) == tuple(PROTOCOLS[protocol].stop) and sampler.tokenizer.eos_token_id in end_ids
        made = sampler.sample(ids)
        return Continuation(made, None if logprob is None else [logprob] * len(made))

    return await search_episode(
        row_of(protocol).prompt,
        protocol,
        read_settings(section),
        go_on=go_on,
        tokenizer=sampler.tokenizer,
        max_tokens=max_tokens,
    )


async def test_an_episode_without_room_is_trained_unless_the_settings_mask_it(
    section: dict[str, Any], tokenizer: Any
) -> None:
    """One that answers is trained either way."""
    trained = {}
    for masks in (False, True):
        for room in (60, 2000):
            settings = section | {"mask_truncated": masks}
            episode = await episode_of("react", settings, FakeSampler(tokenizer, "react"), max_tokens=room)
            trained[episode.run.stop, masks] = any(episode.mask)
            assert len(episode.ids) == len(episode.mask) == len(logprobs_of(episode) or ())
    assert trained == {
        ("too_long", False): True, ("answered", False): True, ("too_long", True): False, ("answered", True): True
    }  # fmt: skip


@every_protocol
async def test_the_loss_is_on_sampled_tokens_and_no_text_is_tokenised_again(
    protocol: str, section: dict[str, Any], tokenizer: Any
) -> None:
    """Turns that are spelled stay spelled; what was sampled past a stop string is gone; results have no loss."""
    sampler = FakeSampler(tokenizer, protocol)
    episode = await episode_of(protocol, section, sampler)
    assert episode.run.stop == "answered" and episode.run.num_searches == 1
    assert (episode.ids, episode.mask) == expected(tokenizer, episode.messages)
    assert episode.prompt_ids == prompt_ids(tokenizer, row_of(protocol).prompt)
    whole = [*episode.prompt_ids, *episode.ids]
    assert tokenizer.decode(whole) + "\n" == render(episode.messages)
    assert sampler.asked[1] == whole[: len(sampler.asked[1])]
    assert logprobs_of(episode) == [LOGPROB * m for m in episode.mask]


@every_protocol
async def test_verl_pays_an_episode_as_it_is_paid_directly(
    protocol: str, section: dict[str, Any], tokenizer: Any
) -> None:
    """By what the agent loop hands on, without who wrote what in the text; length and titles included."""
    episode = await episode_of(protocol, section, FakeSampler(tokenizer, protocol))
    truth = row_of(protocol).reward_model.ground_truth
    known = known_of(episode)
    direct = score_messages(episode.messages, truth, tokens=len(episode.ids))
    assert verl.compute_score("run", "", to_dict(truth), known)["score"] == pytest.approx(direct.total, abs=1e-9)
    assert direct.total > 0.5
    assert known["num_searches"] == 1 and 1 <= len(known["retrieved_titles"]) <= 2
    assert read_messages(known["transcript"])[-1].content == episode.messages[-1].content


async def test_log_probabilities_are_all_known_or_none(section: dict[str, Any], tokenizer: Any) -> None:
    """verl takes a list of numbers or nothing."""
    episode = await episode_of("react", section, FakeSampler(tokenizer, "react"), logprob=None)
    assert sum(episode.mask) and logprobs_of(episode) is None


async def test_a_sampled_end_of_turn_is_trained(section: dict[str, Any], tokenizer: Any) -> None:
    """Where the server stopped at the token and not at a tag; what it sampled past that is gone."""

    class Malformed(FakeSampler):
        def sample(self, ids: Sequence[int]) -> list[int]:
            return tokenizer.encode("I do not know<|im_end|>\n\n<search>", add_special_tokens=False)

    episode = await episode_of("react", section, Malformed(tokenizer, "react"))
    assert tokenizer.decode(episode.ids) == "I do not know<|im_end|>" and set(episode.mask) == {1}
    assert episode.run.stop == "malformed"


async def test_what_is_searched_is_opened_once(
    section: dict[str, Any], tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By episodes that begin together, of two protocols."""
    opened: list[str] = []
    real = search_episodes.open_training_environment

    def counted(protocol: str, *args: Any, **options: Any) -> Any:
        opened.append(protocol)
        return real(protocol, *args, **options)

    monkeypatch.setattr(search_episodes, "open_training_environment", counted)
    section = section | {"top_k": 1}
    episodes = [episode_of(p, section, FakeSampler(tokenizer, p)) for p in ("react", "react", "search_r1", "react")]
    await asyncio.gather(*episodes)
    assert sorted(opened) == ["react", "search_r1"]


def test_settings_say_what_is_wrong(tmp_path: Path) -> None:
    """By the file and the key."""
    with pytest.raises(InvalidInput, match="say what is searched"):
        read_settings({"documents": [], "kind": "bm25"})
    with pytest.raises(InvalidInput, match="topk"):
        read_settings({"documents": ["a"], "topk": 3})
    path = tmp_path / "search.yaml"
    path.write_text("documents: [a]\nkind: sparse\n")
    with pytest.raises(InvalidInput, match=r"search\.yaml.*kind"):
        settings_of(str(path))
    with pytest.raises(InvalidInput, match=r"none\.yaml"):
        settings_of(str(tmp_path / "none.yaml"))


# slime


class Sample:
    """What is used of slime's."""

    class Status(Enum):
        """Its states."""

        PENDING = "pending"
        COMPLETED = "completed"
        TRUNCATED = "truncated"
        ABORTED = "aborted"

    def __init__(self, row: RlRow, prompt: Any) -> None:
        self.prompt: Any = prompt
        self.label: Any = to_dict(row.reward_model)
        self.metadata: dict[str, Any] = {"index": 7}
        self.tokens: list[int] = []
        self.response, self.response_length = "", 0
        self.loss_mask: list[int] | None = None
        self.rollout_log_probs: list[float] | None = None
        self.rollout_top_p_token_ids: list[int] | None = None
        self.rollout_top_p_token_offsets: list[int] | None = None
        self.status: Any = Sample.Status.PENDING

    def append_response_tokens(
        self, args: Any, *, tokens: list[int], log_probs: Any = None, trainable: bool = True, meta_info: Any = None
    ) -> None:
        """As slime's, with its checks."""
        assert (log_probs is None) is not trainable and (meta_info is None) is not trainable
        assert self.loss_mask is not None
        self.tokens, self.response_length = self.tokens + tokens, self.response_length + len(tokens)
        self.loss_mask += [int(trainable)] * len(tokens)
        self.rollout_log_probs = (self.rollout_log_probs or []) + (log_probs or [0.0] * len(tokens))
        self._append_nucleus(meta_info or {}, len(tokens))
        self.status = Sample.Status.COMPLETED

    def _append_nucleus(self, meta: Any, count: int) -> None:
        kept, ends = self.rollout_top_p_token_ids, self.rollout_top_p_token_offsets
        if "top_p_token_ids" in meta:
            new, offsets = (slime._integers(meta[f"top_p_token_{each}"]) for each in ("ids", "offsets"))
            assert len(offsets) == count + 1 and offsets[-1] == len(new)
            kept, ends = kept or [], ends or [0]
            self.rollout_top_p_token_ids = kept + new
            self.rollout_top_p_token_offsets = ends + [ends[-1] + each for each in offsets[1:]]
        elif kept is not None and ends is not None:
            self.rollout_top_p_token_offsets = ends + [ends[-1]] * count


PARAMS = {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 2000, "stop": None, "skip_special_tokens": False}


@pytest.fixture
def at(tiny_model: Path, section: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes slime's arguments for a router's port; the settings are in their place."""
    (tmp_path / "search.yaml").write_text(yaml.safe_dump(section))
    monkeypatch.setenv("TRAILFORGE_SEARCH", str(tmp_path / "search.yaml"))
    monkeypatch.setattr("trailforge.training.generation._FIRST_WAIT_S", 0.001)
    return lambda port: SimpleNamespace(
        hf_checkpoint=str(tiny_model), sglang_router_ip="127.0.0.1", sglang_router_port=port
    )


@every_protocol
async def test_slime_gets_tokens_mask_and_reward(protocol: str, at: Any, tokenizer: Any) -> None:
    """In the fields of its sample, whether the prompt is messages or the text that the template makes of them."""
    row = row_of(protocol)
    samples = []
    for prompt in ([to_dict(m) for m in row.prompt], render(row.prompt, add_generation_prompt=True)):
        sample: Any = Sample(row, prompt)
        async with router(FakeSampler(tokenizer, protocol)) as fake:
            assert await slime.generate(at(fake.port), sample, PARAMS) is sample
        samples.append(sample)
    messages = read_messages(sample.metadata["transcript"])
    ids, mask = expected(tokenizer, messages)
    assert sample.tokens == [*prompt_ids(tokenizer, row.prompt), *ids] and sample.loss_mask == mask
    assert sample.response == tokenizer.decode(ids) and sample.response_length == len(ids)
    assert sample.rollout_log_probs == [LOGPROB * m for m in mask]
    assert sample.status is Sample.Status.COMPLETED and sample.metadata["index"] == 7
    direct = score_messages(messages, row.reward_model.ground_truth, tokens=len(ids)).total
    assert await slime.reward(SimpleNamespace(), sample) == pytest.approx(direct, abs=1e-9)
    assert vars(samples[0]) | {"prompt": ""} == vars(sample) | {"prompt": ""}


async def test_slime_gets_the_tokens_that_top_p_left_of_every_token_that_was_kept(at: Any, tokenizer: Any) -> None:
    """With `--rollout-top-p` below 1 it wants them, and of results none; it asks for them as slime itself does."""
    row = row_of("react")
    sample: Any = Sample(row, [to_dict(m) for m in row.prompt])
    asked = PARAMS | {"top_p": 0.95, "custom_params": {"return_top_p_token_ids": True}}
    async with router(FakeSampler(tokenizer, "react")) as fake:
        await slime.generate(at(fake.port), sample, asked)
    ends, kept = sample.rollout_top_p_token_offsets, sample.rollout_top_p_token_ids
    assert len(ends) == sample.response_length + 1 and ends[-1] == len(kept) == 2 * sum(sample.loss_mask)
    response = sample.tokens[-sample.response_length :]
    for number, (token, is_sampled) in enumerate(zip(response, sample.loss_mask, strict=True)):
        assert kept[ends[number] : ends[number + 1]] == [token, token + 1] * is_sampled


async def test_slime_asks_sglang_for_tokens_that_end_at_closing_tags(at: Any, tokenizer: Any) -> None:
    """With slime's own sampling, and the room that is left; a failing server is asked again."""
    async with router(FakeSampler(tokenizer, "react"), fails=[503, 500]) as fake:
        sample: Any = Sample(row_of("react"), [to_dict(m) for m in row_of("react").prompt])
        await slime.generate(at(fake.port), sample, PARAMS)
    first, *_, last = fake.bodies
    assert len(fake.bodies) == 4 and first == fake.bodies[2]
    assert first["return_logprob"] is True and first["sampling_params"] == PARAMS | {
        "max_new_tokens": 1999,
        "stop": ["</search>", "</answer>"],
        "stop_token_ids": [tokenizer.eos_token_id, tokenizer.pad_token_id],
        "no_stop_trim": True,
    }
    begun = len(last["input_ids"]) - len(prompt_ids(tokenizer, row_of("react").prompt))
    assert last["sampling_params"]["max_new_tokens"] == 1999 - begun


async def test_slime_learns_how_an_episode_ended(at: Any, tokenizer: Any) -> None:
    """Cut at its length; or aborted, and then untouched."""
    prompt = [to_dict(m) for m in row_of("react").prompt]
    async with router(FakeSampler(tokenizer, "react"), finish="abort") as fake:
        aborted: Any = Sample(row_of("react"), prompt)
        await slime.generate(at(fake.port), aborted, PARAMS)
    assert aborted.status is Sample.Status.ABORTED and not aborted.tokens and aborted.loss_mask is None
    async with router(FakeSampler(tokenizer, "react"), finish="length") as fake:
        cut: Any = Sample(row_of("react"), prompt)
        await slime.generate(at(fake.port), cut, PARAMS | {"max_new_tokens": 20})
    assert cut.status is Sample.Status.TRUNCATED and cut.loss_mask == [1] * 19 and cut.response_length == 19


async def test_slime_is_told_what_is_wrong(at: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A router that refuses or does not answer; a prompt of another template; no settings."""
    row = row_of("react")

    async def generate(port: int, prompt: Any) -> None:
        sample: Any = Sample(row, prompt)
        await slime.generate(at(port), sample, PARAMS)

    text = render(row.prompt, add_generation_prompt=True)
    async with router(FakeSampler(tokenizer, "react"), fails=[400]) as fake:
        with pytest.raises(RequestRefused, match="HTTP 400: busy"):
            await generate(fake.port, text)
        for other in (text.removesuffix("\n"), "Question: who?"):
            with pytest.raises(InvalidInput, match="our template"):
                await generate(fake.port, other)
    with pytest.raises(ServerUnavailable):
        await generate(fake.port, text)
    monkeypatch.delenv("TRAILFORGE_SEARCH")
    with pytest.raises(InvalidInput, match="TRAILFORGE_SEARCH"):
        await generate(fake.port, text)


async def test_an_episode_of_slime_is_kept_with_the_version_of_the_weights(
    section: dict[str, Any], at: Any, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a question that the data set names; without a folder, and without a question, none is."""
    row, kept = row_of("react"), tmp_path / "kept"
    (tmp_path / "kept.yaml").write_text(yaml.safe_dump(section | {"keep_in": str(kept)}))
    known = {"uid": row.uid, "question": row.question}
    for settings, metadata in (("search", known), ("kept", {}), ("kept", known)):
        monkeypatch.setenv("TRAILFORGE_SEARCH", str(tmp_path / f"{settings}.yaml"))
        sample: Any = Sample(row, [to_dict(m) for m in row.prompt])
        sample.metadata |= metadata
        async with router(FakeSampler(tokenizer, "react"), weight_version="4") as fake:
            await slime.generate(at(fake.port), sample, PARAMS)
    search_episodes._writer_to(str(kept)).close()
    (episode,) = read_trained(kept)
    assert episode.training == TrainingStep(step=4) and episode.scores.right == 1.0 and episode.agent == "react"
    assert (episode.question_id, episode.question, episode.golds) == (row.uid, row.question, (ANSWER,))
    assert [message.content for message in episode.messages] == [
        message.content for message in read_messages(sample.metadata["transcript"])
    ]
    assert episode.costs.completion_tokens == sum(sample.loss_mask) and len(episode.searches) == 1
    assert episode.backend and episode.index and episode.model == str(tokenizer.name_or_path)


def test_slime_leaves_a_failed_episode_out_of_its_groups_mean() -> None:
    """All else is as slime itself centers rewards: by group, with the unbiased deviation, or without."""
    rewards = [1.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.25]
    stops = ["answered", "answered", "failed", "too_long", "failed", "failed", "failed", "answered"]
    samples: list[Any] = [
        SimpleNamespace(
            metadata={"stop": stop}, group_index=number // 4, get_reward_value=lambda args, reward=reward: reward
        )
        for number, (reward, stop) in enumerate(zip(rewards, stops, strict=True))
    ]
    args = SimpleNamespace(
        advantage_estimator="grpo", rewards_normalization=True, grpo_std_normalization=False, n_samples_per_prompt=4
    )
    centered = [2 / 3, -1 / 3, 0.0, -1 / 3, 0.0, 0.0, 0.0, 0.0]
    assert slime.center_rewards(args, samples) == (rewards, pytest.approx(centered))
    args.grpo_std_normalization = True
    deviation = (2 * (1 / 3) ** 2 / 2 + (2 / 3) ** 2 / 2) ** 0.5
    scaled = pytest.approx([each / deviation for each in centered], rel=1e-4)
    assert slime.center_rewards(args, samples)[1] == scaled
    for each in samples:
        each.group_index = None
    assert slime.center_rewards(args, samples)[1] == scaled
    args.rewards_normalization = False
    assert slime.center_rewards(args, samples) == (rewards, rewards)
