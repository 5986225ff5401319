"""Episodes of a training as rows of an evaluation, and their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agent_episodes import COSTS, run_of, setting
from trailforge.evaluation.folder import read_trained
from trailforge.evaluation.results.metrics import make_episode
from trailforge.schemas import Question
from trailforge.schemas.agent_episode import AgentEpisode
from trailforge.training.kept_episodes import EpisodeWriter


def row(number: int) -> AgentEpisode:
    question = Question(id=f"q{number}", question="Who?", answer="Ada", dataset="set")
    return make_episode(question, run_of([], "Ada"), setting(seed=number), costs=COSTS)


def names(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "episodes").iterdir())


def test_a_file_of_a_step_and_process_is_whole_when_the_writer_is_closed(tmp_path: Path) -> None:
    writer = EpisodeWriter(tmp_path, "3")
    for step in (1, 2):
        writer.keep(step, lambda step=step: [row(step), row(step + 10)])
    writer.close()
    assert names(tmp_path) == ["step-000001-rank-3.parquet", "step-000002-rank-3.parquet"]
    assert [each.question_id for each in read_trained(tmp_path)] == ["q1", "q11", "q2", "q12"]


def test_episodes_that_come_one_by_one_are_gathered_in_a_file_for_each_step(tmp_path: Path) -> None:
    writer = EpisodeWriter(tmp_path, "host.7", gather_s=60.0)
    for number, step in enumerate((1, 2, 1, 1)):
        writer.keep(step, lambda number=number: [row(number)])
    writer.close()
    assert names(tmp_path) == [
        "step-000001-rank-host.7-part-00000.parquet",
        "step-000002-rank-host.7-part-00001.parquet",
    ]
    assert [each.question_id for each in read_trained(tmp_path)] == ["q0", "q2", "q3", "q1"]


def test_a_step_that_cannot_be_written_is_told_once_and_ends_no_training(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "episodes").write_text("in the way")
    writer = EpisodeWriter(tmp_path, "0")
    for step in range(3):
        writer.keep(step, lambda: [row(0)])
    writer.close()
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("episodes are no longer kept, and the training goes on: cannot write ")


def test_what_a_killed_training_wrote_behind_its_checkpoint_is_removed(tmp_path: Path) -> None:
    writer = EpisodeWriter(tmp_path, "0")
    for step in (1, 9, 10):
        writer.keep(step, lambda: [row(0)])
    writer.close()
    writer.drop_after(9)
    assert names(tmp_path) == ["step-000001-rank-0.parquet", "step-000009-rank-0.parquet"]
