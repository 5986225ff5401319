"""Training sets of research agents: windows are taken, writings and names of tools drawn by lot for each episode."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.protocols.browse.test_rewriting import rows_of
from tests.support import finished_runs as made
from tests.training.views.test_build import ALL, build
from trailforge.schemas import InvalidInput, Question, SftRow
from trailforge.schemas.agent_episode import AgentTrajectory
from trailforge.training.sets.config import WritingShare, read_writings
from trailforge.training.sets.files import TrainingSet

EPISODES = 40


async def agents_run(folder: Path, episodes: int) -> Path:
    """A run of so many episodes with native calls, in several windows each."""
    _, windows = await rows_of("native", "newest:2", stops=2)
    rows = [
        replace(each, uid=f"e{n}-{number}", trajectory_uid=f"e{n}", question_id=f"q{n}", question=f"{n}: Where?")
        for n in range(episodes)
        for number, each in enumerate(windows)
    ]
    asked = [Question(id=f"q{n}", question=f"{n}: Where?", answer="Oslo", dataset="d") for n in range(episodes)]
    tables = {"inputs": (Question, asked), "agent_trajectories": (AgentTrajectory, []), "sft": (SftRow, rows)}
    return made.write_run(folder, "agent_trajectories", tables)


@pytest.fixture
async def agents(tmp_path: Path) -> Path:
    """A run of forty episodes."""
    return await agents_run(tmp_path / "run", EPISODES)


def sft(built: TrainingSet) -> list[SftRow]:
    return list(built.rows("sft", "train", SftRow))


async def test_windows_are_rows_and_stay_as_they_are(agents: Path, tmp_path: Path) -> None:
    rows = sft(build([agents], tmp_path / "out"))
    assert len(rows) > EPISODES and all(row.native is not None and row.segment_count > 1 for row in rows)


async def test_the_lot_is_one_for_an_episode_and_the_same_for_the_same_seed(agents: Path, tmp_path: Path) -> None:
    mixed = replace(ALL, writings=read_writings("tags,native:0.25,renamed:0.25"))
    rows = sft(build([agents], tmp_path / "out", mixed))
    writings = {row.trajectory_uid: row.native is None for row in rows}
    assert all(writings[row.trajectory_uid] is (row.native is None) for row in rows)
    shares = Counter(writings.values())
    assert 10 <= shares[True] <= 30 and len(writings) == EPISODES
    tools = Counter(row.native.tools for row in rows if row.native is not None)
    assert len(tools) >= 3
    assert sft(build([agents], tmp_path / "again", mixed)) == rows
    other = sft(build([agents], tmp_path / "other", replace(mixed, seed=1)))
    assert {row.trajectory_uid: row.native is None for row in other} != writings


@pytest.mark.parametrize("text", ["tags:0.4,native:0.5", "xml", "tags:2", "tags:x,native"])
def test_shares_have_to_add_up_and_writings_to_be_there(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_writings(text)


def test_a_share_without_a_number_is_what_the_others_leave() -> None:
    assert read_writings("tags,native:0.75") == (
        WritingShare(writing="tags", share=0.25),
        WritingShare(writing="native", share=0.75),
    )
