"""`trailforge show`: which rows of which run."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.generators.kg_trajectories.test_filters import FIRST, SECOND, episode
from trailforge.cli import app
from trailforge.schemas import InvalidInput, KgTrajectory, write_parquet

EPISODE = episode(FIRST, SECOND)


def kg_run(folder: Path) -> Path:
    """A run of one episode that was led along the gold decomposition."""
    folder.mkdir()
    (folder / "run.json").write_text('{"dataset": "kg_trajectories"}')
    (folder / "kg_trajectories").mkdir()
    write_parquet(folder / "kg_trajectories" / "part-00000.parquet", KgTrajectory, [EPISODE])
    return folder


def test_show_filters_episodes_by_kind_and_names_the_kinds_there_are(tmp_path: Path) -> None:
    folder = kg_run(tmp_path / "run")
    assert EPISODE.origin == "oracle"
    assert EPISODE.uid in shown(folder, "--kind", "oracle")
    with pytest.raises(InvalidInput, match="no episode policy in this run"):
        shown(folder, "--kind", "policy")
    with pytest.raises(InvalidInput, match="no origin 'bad'; there are policy, rule, oracle"):
        shown(folder, "--kind", "bad")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"dataset": "tables"}', "a run of 'tables', which this trailforge cannot show"),
        ('{"dataset": 1}', "names no data set"),
        ("[]", "names no data set"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_show_of_a_run_of_something_else_says_so(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InvalidInput, match=problem):
        shown(tmp_path)


def test_show_refuses_a_kind_of_what_has_none(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"dataset": "mcts_trajectories"}')
    with pytest.raises(InvalidInput, match="of rows, not of trees"):
        shown(tmp_path, "--tree", "--kind", "correct")


def shown(folder: Path, *options: str) -> str:
    """What `trailforge show` prints."""
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["show", str(folder), *options])
    if isinstance(result.exception, InvalidInput):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output
