"""Score transcripts: the one way for filters, trainers and evaluation.

A framework's own types are unpacked in `training/adapters`; what they hold is scored here. Whatever the way, the same
transcript is paid the same.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from trailforge.inference.judge import JudgeConfig, Judged, open_thread_safe_judge
from trailforge.protocols import Spoken, ToScore, read_transcript, split_text
from trailforge.protocols.browse import asking_of
from trailforge.protocols.environment import EnvironmentConfig
from trailforge.retrieval.backends import BACKENDS
from trailforge.retrieval.encoders import Encoder
from trailforge.rewards.dynasearcher import DynaSearcherConstants, Similarity
from trailforge.rewards.episode import Episode, Reward, RewardPreset, measure_nearest, reward_preset, score
from trailforge.rewards.r_search import TOOLS
from trailforge.schemas import ChatMessage, GroundTruth, InvalidInput, from_dict
from trailforge.training.config import TrainPreset, load_train_preset


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An episode that is being scored, whose judge may not have answered yet."""

    episode: Episode
    truth: GroundTruth
    preset: RewardPreset
    judge: Future[float] | float | None
    nearest: Sequence[float | None] | None = None
    """How near the passages come to each supporting document, as in `ToScore`; None: it is measured."""
    search: EnvironmentConfig | None = None
    """The encoder's configuration, as in `Scorer`."""

    def reward(self) -> Reward:
        """Return the reward of the episode, after waiting for the judge. Raises what the judge and
        `rewards.episode.score` raise.
        """
        return self._paid(self.judge.result() if isinstance(self.judge, Future) else self.judge)

    async def wait(self) -> Reward:
        """Return the reward of the episode, waiting on an event loop."""
        judge = await asyncio.wrap_future(self.judge) if isinstance(self.judge, Future) else self.judge
        return await asyncio.to_thread(self._paid, judge)  # which may encode passages

    def _paid(self, judge: float | None) -> Reward:
        return score(self.episode, self.truth, self.preset, judge=judge, nearest=self._nearest())

    @property
    def _threshold(self) -> float:
        constants = self.preset.constants
        return constants.recall_similarity if isinstance(constants, DynaSearcherConstants) else 1.0

    def _nearest(self) -> Sequence[float | None]:
        if self.nearest is not None:
            return self.nearest
        similarity = _similarity(self.search) if self.search is not None and self._threshold < 1.0 else None
        return measure_nearest(self.episode, self.truth, similarity)


def _similarity(search: EnvironmentConfig) -> Similarity | None:
    """Of the encoder that documents are searched with, as far as the preset alone tells."""
    name = search.encoder_of(search.kind) if search.kind in BACKENDS else search.encoder if not search.kind else None
    return _open_encoder(name, search.query_prefix, search.passage_prefix, search.device).similarity if name else None


@cache
def _open_encoder(name: str, query_prefix: str, passage_prefix: str, device: str) -> Encoder:
    return Encoder(name, query_prefix=query_prefix, passage_prefix=passage_prefix, device=device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """Scores episodes by a reward preset, and by what its judge says of the answers, if it has one."""

    preset: RewardPreset | None = None
    """The reward preset; None: the one that each question names."""
    protocol: str | None = None
    """The protocol; None: the one that each question names."""
    judge: JudgeConfig | None = None
    search: EnvironmentConfig | None = None
    """The configuration whose encoder tells how near two passages are, where the preset asks for one; None: words alone
    are compared.
    """

    def begin(self, given: ToScore) -> Pending:
        """Read an episode and ask the judge.

        Episodes that are begun before the first reward is asked for are judged at the same time. Raises what
        `read_transcript` raises, and `InvalidInput` when a judge is needed and the question is not known. Choices need
        no judge, since their letters are compared.
        """
        truth = given.truth
        protocol = self.protocol or truth.protocol
        episode = given.read or read_transcript(
            given.messages,
            protocol,
            tokens=given.tokens,
            retrieved_titles=given.retrieved_titles,
            tools=truth.allowed_tools or TOOLS,
        )
        preset = self.preset or reward_preset(truth.reward_preset)
        judge: Future[float] | float | None = given.judge
        if judge is None and self.judge is not None and not truth.correct_options:
            question = given.question or _asked(given.messages, protocol)
            judge = open_thread_safe_judge(self.judge).score(
                Judged(question=question, answer=episode.answer, golds=truth.golds)
            )
        return Pending(
            episode=episode, truth=truth, preset=preset, judge=judge, nearest=given.nearest, search=self.search
        )

    def score(self, episodes: Sequence[ToScore]) -> list[Reward]:
        """Return the rewards of episodes, all of which are judged at the same time."""
        return [pending.reward() for pending in [self.begin(each) for each in episodes]]


@cache
def scorer_of(preset: str | None, protocol: str | None = None) -> Scorer:
    """Return the scorer of a reward preset, by name, or of a training preset's YAML file, with its judge and its
    encoder. With None each question's own preset is used. Raises `InvalidInput`.
    """
    if preset is None:
        return Scorer(protocol=protocol)
    if Path(preset).suffix in {".yaml", ".yml"}:
        recipe = load_train_preset(preset)
        return replace(scorer_of_training(recipe), protocol=protocol)
    return Scorer(preset=reward_preset(preset), protocol=protocol)


def scorer_of_training(preset: TrainPreset) -> Scorer:
    """Return the scorer for a training, and for the evaluation of the trained model."""
    return Scorer(preset=preset.reward, protocol=preset.protocol, judge=preset.judge, search=preset.retrieval)


def _asked(messages: Sequence[Spoken], protocol: str) -> str:
    """The question of a conversation's opening."""
    opening: list[str] = []
    for message in messages:
        if message.role in ("assistant", "tool"):
            break
        if message.role == "user":
            opening.append(message.content)
    if not opening:
        raise InvalidInput("a judge has to know it; give it, or the turns before the agent's first", field="question")
    return asking_of(protocol).question_of(opening[-1])


def read_truth(value: Any) -> GroundTruth:
    """Read a ground truth from a framework's column: a `GroundTruth`, an object, or JSON; whole or inside
    `reward_model`.

    Raises `InvalidInput` for anything else.
    """
    if isinstance(value, GroundTruth):
        return value
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise InvalidInput(f"not valid JSON ({error})", field="ground_truth") from error
    value = plain(value)
    if isinstance(value, dict) and "ground_truth" in value:
        return read_truth(value["ground_truth"])
    return from_dict(GroundTruth, value)


def read_episode(
    text: str, truth: Any, known: Mapping[str, Any], *, protocol: str | None, tokens: int | None
) -> ToScore:
    """Read an episode from a framework's columns: `text` is what followed the prompt. `truth` is in any form that
    `read_truth` takes. `known` may have `transcript` (the episode's messages, which then count instead of the text),
    `question`, `retrieved_titles`, `judge` and `read` (an `Episode`). `protocol`: None: that of the truth. `tokens`:
    the length of what followed the prompt; None: not known.
    """
    gold, transcript, seen = read_truth(truth), known.get("transcript"), known.get("read")
    return ToScore(
        messages=split_text(text, protocol or gold.protocol) if transcript is None else read_messages(transcript),
        truth=gold,
        question=known.get("question"),
        tokens=tokens,
        retrieved_titles=known.get("retrieved_titles"),
        judge=known.get("judge"),
        read=None if seen is None else from_dict(Episode, plain(seen)),
    )


def read_messages(value: Any) -> tuple[ChatMessage, ...]:
    """Read a conversation from a framework's column.

    Raises `InvalidInput` unless it is a list of messages with text.
    """
    value = plain(value)
    if not isinstance(value, list):
        raise InvalidInput(f"expected a list of messages, got {type(value).__name__}", field="messages")
    return tuple(_message(item) for item in value)


def _message(item: Any) -> ChatMessage:
    if not isinstance(item, Mapping):
        raise InvalidInput(f"expected a message, got {type(item).__name__}", field="messages")
    # Frameworks add keys of their own (tool_calls, name), and leave out the text of a turn that is a tool call.
    return from_dict(ChatMessage, {"role": item.get("role"), "content": item.get("content") or ""})


def plain(value: Any) -> Any:
    """Return a value with plain dictionaries and lists in place of a framework's own kinds of them, and of arrays, at
    any depth.

    Data frames make arrays of the lists of a Parquet file.
    """
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [plain(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
