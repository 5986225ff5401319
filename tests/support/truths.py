"""What answers are held against, in tests of rewards and training."""

from __future__ import annotations

from typing import Any

from trailforge.schemas import GroundTruth


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
