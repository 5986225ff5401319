"""The reward for slime: `--custom-rm-path training.adapters.slime.reward --label-key reward_model`.

`args.reward_preset` and `args.reward_protocol`, where they are set, hold for all questions. `sample.metadata` may have
what a custom generate function knows: `transcript` (its messages), `retrieved_titles`, `judge`.
"""

from __future__ import annotations

from typing import Any, Protocol

from training.scoring import preset_of, read_messages, read_truth, score_messages, split_text


class Sample(Protocol):
    """What is read of slime's `Sample`."""

    response: str
    response_length: int
    label: Any
    metadata: dict[str, Any]


async def reward(args: Any, sample: Sample, **_: Any) -> float:
    """What a sample is paid."""
    truth = read_truth(sample.label)
    known = sample.metadata or {}
    protocol = getattr(args, "reward_protocol", None) or truth.protocol
    transcript = known.get("transcript")
    return score_messages(
        split_text(sample.response, protocol) if transcript is None else read_messages(transcript),
        truth,
        preset_of(getattr(args, "reward_preset", None)),
        protocol,
        tokens=sample.response_length,
        retrieved_titles=known.get("retrieved_titles"),
        judge=known.get("judge"),
    ).total
