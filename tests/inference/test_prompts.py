"""Prompts are found in the folder of their user first, then where plug-ins keep theirs."""

from __future__ import annotations

import pytest

from trailforge.inference.prompts import Prompts
from trailforge.schemas import InvalidInput

MCTS, SHARED = "trailforge.generators.mcts_trajectories", "trailforge.generators"


def test_a_prompt_is_the_first_of_its_name() -> None:
    prompts = Prompts(MCTS, SHARED)
    assert "{{question}}" in prompts.text("split") and "{{context}}" in prompts.text("answer")
    assert prompts.text("embedded_answer") == Prompts("trailforge.small_model").text("embedded_answer")


def test_no_data_set_finds_the_prompts_of_another() -> None:
    with pytest.raises(InvalidInput, match=r"no prompt of this name; there are answer, .+"):
        Prompts("trailforge.generators.kg_trajectories", SHARED).text("split")


def test_the_version_follows_texts_and_pools() -> None:
    prompts = Prompts(MCTS, SHARED)
    versions = {prompts.version(names) for names in ((), ("split",), ("answer",), ("split", "answer"))}
    other = Prompts("trailforge.small_model", SHARED)
    versions |= {other.version((), pools="kg_thoughts")}
    assert len(versions) == 5 and all(len(version) == 12 for version in versions)
    assert prompts.version(()) == other.version(())
