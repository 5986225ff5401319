"""The recorded episodes over documents and a graph, and over documents alone (`tests/recorded/README.md`)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, TypeVar

from trailforge.schemas import KgTrajectory, Question, from_dict, from_stored
from trailforge.schemas.agent_episode import AgentTrajectory

FILE = Path(__file__).parents[1] / "recorded" / "episode_rows.json.gz"
RECORDED: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
_STORED: dict[type[Any], str] = {KgTrajectory: "kg", AgentTrajectory: "agent"}
Row = TypeVar("Row", bound=KgTrajectory | AgentTrajectory)


def recorded_episodes(record: type[Row]) -> tuple[list[Row], list[Row]]:
    """Of one data set those that were kept then, and those that were not, as they were stored."""
    given = [each for each in RECORDED["rows"].values() if each["record"] == _STORED[record]]
    kept = [from_stored(record, each["row"], source=FILE) for each in given if not each["was"]]
    return kept, [from_stored(record, each["row"], source=FILE) for each in given if each["was"]]


def recorded_question(question_id: str) -> Question:
    """What an episode was asked."""
    return from_dict(Question, RECORDED["questions"][question_id])
