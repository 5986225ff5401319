"""What a model is worth as an agent."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.training.tiny import FACTS, Scripted, preset, retriever, rl_rows, searching
from trailforge.protocols.environment import Environment
from trailforge.schemas import InvalidInput, RlRow
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
    assert score.supporting_recall is None, "no question names its documents"
    write_score(score, tmp_path / "figures" / "score.json")
    assert json.loads((tmp_path / "figures" / "score.json").read_text())["searches"] == 0.75


def test_recall_is_over_the_questions_whose_documents_are_known(tokenizer: Any) -> None:
    """One finds one of two documents, one finds its only one, of two questions nothing is known."""
    (first, second), others = rl_rows()[:2], rl_rows()[2:]
    found = asyncio.run(retriever().retrieve(FACTS[0][2], 2))[0]
    other = asyncio.run(retriever().retrieve(FACTS[1][2], 2))[0]
    rows = [
        supported(first, found.title, "Nowhere"),
        supported(second, other.title),
        *others,
    ]
    environment = Environment(documents=retriever(), top_k=2)
    score = evaluate_agent(Scripted(tokenizer, searching_first), tokenizer, rows, preset(), environment, model="m")
    assert score.supporting_recall == 0.75


def supported(row: RlRow, *titles: str) -> RlRow:
    truth = replace(row.reward_model.ground_truth, support_titles=titles)
    return replace(row, reward_model=replace(row.reward_model, ground_truth=truth))


def searching_first(text: str, number: int) -> str:
    return searching(text, 1)


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
