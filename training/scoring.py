"""The one way by which filters, trainers and evaluation score a transcript.

A framework's own types are unpacked in `training/adapters`; what they hold is scored here. Whatever the way, the same
transcript is paid the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rewards.dag import TOOLS
from rewards.episode import Reward, score
from rewards.presets import RewardPreset, reward_preset
from schemas import ChatMessage, GroundTruth, InvalidInput, from_dict
from training.config import load_train_preset
from training.transcripts import Spoken, read_transcript, split_text

__all__ = [
    "preset_of",
    "read_messages",
    "read_transcript",
    "read_truth",
    "reward_preset_of",
    "score_messages",
    "score_text",
    "split_text",
]


def score_messages(
    messages: Sequence[Spoken],
    truth: GroundTruth,
    preset: RewardPreset | None = None,
    protocol: str | None = None,
    *,
    tokens: int | None = None,
    retrieved_titles: Sequence[str] | None = None,
    judge: float | None = None,
) -> Reward:
    """What an episode is paid; see `read_transcript` and `rewards.episode.score`.

    Preset and protocol are the truth's own where none is given. Raises as those two do.
    """
    episode = read_transcript(
        messages,
        protocol or truth.protocol,
        tokens=tokens,
        retrieved_titles=retrieved_titles,
        tools=truth.allowed_tools or TOOLS,
    )
    return score(episode, truth, preset or reward_preset(truth.reward_preset), judge=judge)


def score_text(
    text: str,
    truth: GroundTruth,
    preset: RewardPreset | None = None,
    protocol: str | None = None,
    *,
    tokens: int | None = None,
    retrieved_titles: Sequence[str] | None = None,
    judge: float | None = None,
) -> Reward:
    """The same for an episode as one text; see `split_text`."""
    return score_messages(
        split_text(text, protocol or truth.protocol),
        truth,
        preset,
        protocol,
        tokens=tokens,
        retrieved_titles=retrieved_titles,
        judge=judge,
    )


def preset_of(name: str | None) -> RewardPreset | None:
    """A preset by its name; None, which means each question's own, for None."""
    return None if name is None else reward_preset(name)


def reward_preset_of(name_or_path: str) -> RewardPreset:
    """A reward preset by its name, or that of a training preset's YAML file. Raises `InvalidInput`."""
    if Path(name_or_path).suffix in {".yaml", ".yml"}:
        return load_train_preset(name_or_path).reward
    return reward_preset(name_or_path)


def read_truth(value: Any) -> GroundTruth:
    """A ground truth from a framework's column: a `GroundTruth`, an object, or JSON; whole or inside `reward_model`.

    Raises `InvalidInput` for anything else.
    """
    if isinstance(value, GroundTruth):
        return value
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise InvalidInput(f"not valid JSON ({error})", field="ground_truth") from error
    value = _plain(value)
    if isinstance(value, dict) and "ground_truth" in value:
        return read_truth(value["ground_truth"])
    return from_dict(GroundTruth, value)


def read_messages(value: Any) -> tuple[ChatMessage, ...]:
    """A conversation from a framework's column. Raises `InvalidInput` unless it is a list of messages with text."""
    value = _plain(value)
    if not isinstance(value, list):
        raise InvalidInput(f"expected a list of messages, got {type(value).__name__}", field="messages")
    return tuple(_message(item) for item in value)


def _message(item: Any) -> ChatMessage:
    if not isinstance(item, Mapping):
        raise InvalidInput(f"expected a message, got {type(item).__name__}", field="messages")
    # Frameworks add keys of their own (tool_calls, name), and leave out the text of a turn that is a tool call.
    return from_dict(ChatMessage, {"role": item.get("role"), "content": item.get("content") or ""})


def _plain(value: Any) -> Any:
    """Arrays as lists, at any depth: data frames make arrays of the lists of a Parquet file."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
