"""What episodes of a training are paid."""

from __future__ import annotations

from typing import Any

from tests.training.tiny import Scripted, preset, retriever, rl_rows, searching
from tests.training.worth import worth_of_generator
from trailforge.protocols.environment import Environment


def test_a_mended_turn_is_searched_for_and_not_well_formed(tokenizer: Any) -> None:
    """An episode is not lost for a tag, and earns nothing for it."""

    def script(text: str, number: int) -> str:
        turn = searching(text, 1)
        return turn.replace("</think>", "") if "</search>" in turn else turn

    environment = Environment(documents=retriever(), top_k=2)
    worth = worth_of_generator(Scripted(tokenizer, script), tokenizer, rl_rows(), preset(), environment)
    assert worth.answered == worth.searches == worth.right == 1.0
    assert worth.well_formed == 0.0 and worth.reward == -1.0
