"""What a model is worth as an agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.training.tiny import FACTS, Scripted, preset, retriever, rl_rows, searching
from trailforge.protocols.environment import Environment
from trailforge.schemas import InvalidInput
from trailforge.training.evaluate import evaluate_agent, write_score


def test_figures_of_a_scripted_agent(tokenizer: Any, tmp_path: Path) -> None:
    """Of four questions two are answered rightly, one wrongly, and one turn cannot be read."""

    def script(text: str, number: int) -> str:
        if FACTS[3][0] in text:
            return "I give up.<|im_end|>"
        return searching(text, 0 if FACTS[0][0] in text else 1)

    generator = Scripted(tokenizer, script)
    environment = Environment(documents=retriever(), top_k=2)
    score = evaluate_agent(generator, tokenizer, rl_rows(), preset(), environment, model="scripted")
    assert (score.questions, score.well_formed, score.answered, score.searches) == (4, 0.75, 0.75, 0.75)
    assert (score.exact_match, score.cover_exact_match) == (0.5, 0.5)
    assert score.reward == pytest.approx((1 + 1 + 0 - 1) / 4)
    assert score.stops == {"answered": 3, "malformed": 1}
    write_score(score, tmp_path / "figures" / "score.json")
    assert json.loads((tmp_path / "figures" / "score.json").read_text())["searches"] == 0.75


def test_a_mended_turn_is_searched_for_and_not_well_formed(tokenizer: Any) -> None:
    """An episode is not lost for a tag, and earns nothing for it."""

    def script(text: str, number: int) -> str:
        turn = searching(text, 1)
        return turn.replace("</think>", "") if "</search>" in turn else turn

    environment = Environment(documents=retriever(), top_k=2)
    score = evaluate_agent(Scripted(tokenizer, script), tokenizer, rl_rows(), preset(), environment, model="scripted")
    assert score.answered == score.searches == score.exact_match == 1.0
    assert score.well_formed == 0.0 and score.reward == -1.0


def test_no_questions(tokenizer: Any) -> None:
    """Nothing to take a mean of."""
    with pytest.raises(InvalidInput, match="no questions"):
        evaluate_agent(
            Scripted(tokenizer, searching), tokenizer, [], preset(), Environment(documents=retriever()), model="m"
        )
