"""What a training will take, as it is said before the first step; that its time is a lower bound is seen by those in
`test_sft`, `test_dpo` and `test_rl`.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.training.tiny import preset, rl_rows
from trailforge.training.trl.work import describe_rl, describe_sft

OF_EXPERTS = SimpleNamespace(config=SimpleNamespace(get_text_config=SimpleNamespace))
"""A model of whose time and memory nothing is said."""


def test_packed_rows_are_what_steps_are_made_of() -> None:
    """Ten conversations of 300 tokens in rows of 1,000: three rows, so two steps of two."""
    config = preset(sft={"packing": True, "max_tokens": 1000, "batch_size": 2}).sft
    said = describe_sft(OF_EXPERTS, config, [300] * 10, trained=1200)
    assert said == "10 conversations, 3,000 tokens, 1,200 of them trained; 2 steps of 2 packed rows"


@pytest.mark.parametrize(
    ("measured", "changes", "searches"),
    [
        (None, {}, "searches: 16 at one a hop, 48 at most"),
        (None, {"max_searches": None}, "searches: 16 at one a hop"),
        (2.5, {}, "searches: about 40 by what right attempts took when measured, 48 at most"),
    ],
    ids=["hops", "no_limit", "measured"],
)
def test_the_calls_of_a_step_of_rl(measured: float | None, changes: dict[str, Any], searches: str) -> None:
    rows = [replace(row, calls_needed=measured) for row in rl_rows(copies=2)]
    config = preset(rl={"prompts_per_step": 4, "samples": 4, "mini_batch": 8, "epochs": 3, **changes}).rl
    said = describe_rl(OF_EXPERTS, config, rows, [20] * 8, has_judge=True)
    assert said == (
        f"8 questions; 6 steps of 4, each with 16 episodes of up to 1,500 tokens after a prompt of 20, {searches}, "
        "up to 16 verdicts of the judge, 2 updates on 8 episodes each"
    )
