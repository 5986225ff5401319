"""Rows that strict readers did not train on, beside rows alike that they did (`tests/recorded/README.md`)."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trailforge.filters.base import first_rejection
from trailforge.generators.agent_trajectories import evidence
from trailforge.generators.agent_trajectories.filters import AgentFilterConfig, judge_episode
from trailforge.generators.agent_trajectories.record import AgentTrajectory
from trailforge.generators.answer_reading import read_facts
from trailforge.generators.kg_trajectories.filters import KgEpisodeFilterConfig, judge_kg_episode
from trailforge.schemas import KgTrajectory, from_stored

FILE = Path(__file__).parents[1] / "recorded" / "later_rows.json.gz"
RECORDED: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
READINGS = {
    "Who developed The Bacchanal of the Andrians?": "Titian",
    "Where did Titian die?": "not stated",
    "Why did Roncalli leave Venice?": "for the conclave in Rome",
    "Who is the father of Rune Ottosen?": "Kristian Ottosen",
    "Where was Kristian Ottosen educated?": "University of Bergen",
    "What is the employer of Roberto Andorno?": "University of Zurich",
    "How many students attend University of Zurich?": "nearly 25,000",
}
"""What an honest model reads in what the agents had read."""


def episode(uid: str) -> Any:
    given = RECORDED["episodes"][uid]
    return from_stored(AgentTrajectory if given["record"] == "agent" else KgTrajectory, given["row"], source=FILE)


async def read_again(row: AgentTrajectory) -> AgentTrajectory:
    async def say(question: str) -> str:
        return READINGS[question]

    return replace(row, readings=await read_facts(evidence.facts_to_read(row), say))


@pytest.mark.parametrize(("uid", "reason"), [("b5fe", "unstated_answer"), ("355c", ""), ("e21a", "")])
async def test_a_link_that_was_remembered_rejects_though_the_last_one_was_read(uid: str, reason: str) -> None:
    """ "I recall he died there": what the agent read shows where his paintings hang."""
    verdict = first_rejection(judge_episode(await read_again(episode(uid)), AgentFilterConfig()))
    assert (verdict.reason if verdict else "") == reason
    assert verdict is None or "'Where did Titian die?' is not stated" in verdict.detail


@pytest.mark.parametrize(
    ("uid", "reason"),
    [
        ("0f76", "answer_leaked"),  # "a 1932 Buster Keaton comedy … from the 1970s"
        ("6f54", "answer_leaked"),  # "in American Samoa, I think … would be in Iran"
        ("9327", ""),
        ("eae3", ""),
        ("4e67", ""),  # "I recall Dan Ireland directed it": a bridge, which it looks up
    ],
)
def test_who_remembers_what_is_compared_has_answered(uid: str, reason: str) -> None:
    verdict = first_rejection(judge_kg_episode(episode(uid), [], KgEpisodeFilterConfig()))
    assert (verdict.reason if verdict else "") == reason
