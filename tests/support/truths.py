"""What answers are held against, in tests of rewards and training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trailforge.protocols.transcripts import Spoken
from trailforge.rewards.episode import Reward, RewardPreset
from trailforge.schemas import GroundTruth
from trailforge.training.scoring import Scorer, ToScore


def truth(**changes: Any) -> GroundTruth:
    """Of a question with two hops, whose answer is Vienna."""
    fields: dict[str, Any] = {
        "target": ("Vienna", "Wien"),
        "answer_kind": "text",
        "options": (),
        "correct_options": (),
        "num_hops": 2,
        "hops": (),
        "support_titles": ("Metropolis", "Fritz Lang (director)"),
        "dag_text": "",
        "allowed_tools": (),
        "reward_preset": "msearcher",
        "protocol": "react",
    }
    return GroundTruth(**fields | changes)


def choice(**changes: Any) -> GroundTruth:
    """Of a question with options, of which A and C are correct."""
    of_options = {
        "target": ("A, C",),
        "answer_kind": "options",
        "options": ("Vienna", "Oslo", "Berlin", "Rome"),
        "correct_options": ("A", "C"),
    }
    return truth(**of_options | changes)


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
    """What one episode is paid, by no judge but a score that is given."""
    given = ToScore(messages=messages, truth=truth, tokens=tokens, retrieved_titles=retrieved_titles, judge=judge)
    return Scorer(preset=preset, protocol=protocol).begin(given).reward()
