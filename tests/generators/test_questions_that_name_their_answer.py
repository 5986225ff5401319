"""A question that names its answer is left out before anything is paid, by whoever draws episodes on questions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.rows import QUESTION
from trailforge.filters.questions import answer_in_question
from trailforge.generators.agent_trajectories.config import AgentRunConfig
from trailforge.generators.agent_trajectories.work import LIFE as AGENTS
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.generators.kg_trajectories.work import LIFE as GRAPHS
from trailforge.pipelines.engine.model_stage import rejected_row
from trailforge.schemas import to_dict

NAMED = replace(
    QUESTION, question="Which shopping centre in Osk has the buses of Tarvik?", answer="Osk Shopping Centre",
    answer_aliases=(), decomposition=(),
)  # fmt: skip
NOBODY: Any = None
"""Whoever asked it would fail."""


@pytest.mark.parametrize(
    ("question", "answer", "is_named"),
    [
        (NAMED.question, "Osk Shopping Centre", True),
        (NAMED.question, "Osk", True),
        (NAMED.question, "Osk Shopping Mall", False),
        (NAMED.question, "Ost", False),
        ("Who was first, Ida Marr or Otto Fenn?", "Ida Marr", False),
    ],
)
def test_all_words_of_an_answer_name_it(question: str, answer: str, is_named: bool) -> None:
    verdict = answer_in_question(replace(NAMED, question=question, answer=answer))
    assert verdict.keep is not is_named


@pytest.mark.parametrize(("life", "config"), [(AGENTS, AgentRunConfig()), (GRAPHS, KgRunConfig())])
async def test_nobody_is_asked_and_verify_knows_why(life: Any, config: Any) -> None:
    drawn = await life.draw(NAMED, NOBODY, config)
    assert drawn.against == answer_in_question(NAMED) and not drawn.rows and drawn.meter.calls == 0
    row = rejected_row(life.name, NAMED.id, drawn.against, to_dict(NAMED))
    assert life.refusal(row, NAMED, config) == ""
    assert "does not name" in life.refusal(row, QUESTION, config)
