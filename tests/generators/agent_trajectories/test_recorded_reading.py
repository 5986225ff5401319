"""Episodes of a research agent that a person played (`tests/recorded/README.md`): some were rejected in error then, and
each reader found every claim borne out; of others a strict reader says which are to train on."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trailforge.evaluation.agents.browse import plain_messages
from trailforge.generators.agent_trajectories.filters import AgentFilterConfig, judge_episode
from trailforge.generators.agent_trajectories.long_episodes import LongEpisodeLimits
from trailforge.schemas import AgentTrajectory, from_stored

FILE = Path(__file__).parents[2] / "recorded" / "browse_rows.json.gz"
ROWS: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))["rows"]
LONG_FILE = FILE.with_name("long_rows.json.gz")
LONG: dict[str, Any] = json.loads(gzip.decompress(LONG_FILE.read_bytes()))["rows"]
LIMITS = AgentFilterConfig(
    min_right_share=0, bridges="any", max_tokens=131_072, long=LongEpisodeLimits(min_calls=15)
)  # as in the run


def recorded(name: str) -> AgentTrajectory:
    """The row with its plain turns, which follow from its native ones."""
    row = from_stored(AgentTrajectory, (ROWS | LONG)[name]["row"], source=FILE)
    assert row.episode.browse is not None
    return replace(row, episode=replace(row.episode, messages=plain_messages(row.episode.browse)))


def reasons(row: AgentTrajectory) -> list[str]:
    """What is held against a row."""
    return [verdict.reason for verdict in judge_episode(row, LIMITS) if not verdict.keep]


def test_they_were_rejected_for_two_reasons() -> None:
    """Three for an account of pages that said nothing, one for finding where it could have opened."""
    assert sorted(each["was"] for each in ROWS.values()) == ["admitted_guess"] * 3 + ["unopened_pages"]


@pytest.mark.parametrize("name", sorted(ROWS))
def test_what_a_reader_found_borne_out_is_kept(name: str) -> None:
    """But not with a guess in its last turn, or without what it opened and found words in."""
    row = recorded(name)
    assert reasons(row) == []
    record = row.episode.browse
    assert record is not None
    last = replace(record.messages[-1], content=f"I can only guess. {record.messages[-1].content}")
    guessed = replace(record, messages=(*record.messages[:-1], last))
    episode = replace(row.episode, browse=guessed, messages=plain_messages(guessed))
    assert "admitted_guess" in reasons(replace(row, episode=episode))
    unread = replace(record, calls=tuple(call for call in record.calls if call.tool == "search"))
    assert "unread_pages" in reasons(replace(row, episode=replace(row.episode, browse=unread)))


@pytest.mark.parametrize("name", [name for name, each in sorted(LONG.items()) if each["verdict"] == "yes"])
def test_what_a_reader_would_train_on_is_kept_however_little_it_opens(name: str) -> None:
    """A search shows whole passages: two of five opened, or found words in, less than a third of what they cite."""
    assert reasons(recorded(name)) == []


def test_who_opens_no_page_is_not_kept_whatever_its_finds_show() -> None:
    """In 63 calls; it found words in more than half of the pages that it cites."""
    row = recorded("ce42")
    assert reasons(row) == ["unread_pages"]
    verdict = next(each for each in judge_episode(row, LIMITS) if each.reason == "unread_pages")
    assert verdict.score > 0.5 and verdict.detail == "no page was opened"
