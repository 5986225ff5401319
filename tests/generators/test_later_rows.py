"""Rows that strict readers did not train on, beside rows alike that they did (`tests/recorded/README.md`)."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trailforge.filters import FilterConfig, judge_trajectory
from trailforge.filters.base import first_rejection
from trailforge.filters.kg.episodes import KgEpisodeFilterConfig, judge_kg_episode
from trailforge.filters.thoughts import unfounded_thoughts
from trailforge.generators.agent_trajectories import evidence
from trailforge.generators.agent_trajectories.filters import AgentFilterConfig, judge_episode
from trailforge.generators.answer_reading import read_facts
from trailforge.generators.mcts_trajectories.telling.spans import span_problem
from trailforge.generators.mcts_trajectories.telling.story import mismatch, narrate, read_on, story_of
from trailforge.schemas import KgTrajectory, Question, Trajectory, from_dict, from_stored
from trailforge.schemas.agent_episode import AgentTrajectory

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
        ("0f76", "answer_before_read"),  # "a 1932 Buster Keaton comedy … from the 1970s"
        ("6f54", "answer_before_read"),  # "in American Samoa, I think … would be in Iran"
        ("5068", "answer_before_read"),  # "She was of the Byzantine imperial family, but I should check"
        ("8c08", ""),
        ("9327", ""),
        ("eae3", ""),
        ("4e67", ""),  # "I recall Dan Ireland directed it": a bridge, which it looks up
    ],
)
def test_who_remembers_the_answer_or_what_is_compared_has_answered(uid: str, reason: str) -> None:
    verdict = first_rejection(judge_kg_episode(episode(uid), KgEpisodeFilterConfig()))
    assert (verdict.reason if verdict else "") == reason


def chain(uid: str) -> tuple[Trajectory, Question]:
    row = from_stored(Trajectory, RECORDED["chains"][uid]["row"], source=FILE)
    return row, from_dict(Question, RECORDED["questions"][row.question_id])


def reasons(row: Trajectory, question: Question) -> list[str]:
    return [v.reason for v in judge_trajectory(row, question, [], FilterConfig()) if not v.keep]


@pytest.mark.parametrize("uid", ["2519", "8876"])
def test_a_straight_chain_reads_on_where_the_next_answer_was_shown(uid: str) -> None:
    row, question = chain(uid)
    steps = read_on(row.steps)
    story = replace(story_of(row, "reread"), steps=steps)
    assert story_of(row, "reread").searches() == [0, 1] and story.searches() == [0]
    assert steps[1].passages == row.steps[0].passages and steps[1].answer == row.steps[1].answer
    messages, spans = narrate(story, seed=uid)
    told = replace(row, steps=steps, messages=messages, spans=spans, thoughts="templates", num_tool_calls=1)
    assert (mismatch(told), span_problem(told), reasons(told, question)) == ("", "", [])
    assert unfounded_thoughts(told, max_words=150).keep


@pytest.mark.parametrize("uid", ["c0ac", "4343", "e185", "a2f7", "9c34", "62bf", "8aeb"])
def test_a_chain_searches_for_what_was_not_shown(uid: str) -> None:
    row, question = chain(uid)
    assert read_on(row.steps) == row.steps and "redundant_search" not in reasons(row, question)


def test_a_detour_whose_answer_stood_in_the_first_of_its_passages_is_rejected() -> None:
    """ "What does SEAL stand for?", when the passage on the SEALs was shown; another one says it once more."""
    assert reasons(*chain("888b")) == ["redundant_search"]
