"""`trailforge show`: which rows of which run."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest
from typer.testing import CliRunner

from tests.filters.kg.test_episodes import FIRST, SECOND, episode
from tests.support.rows import trajectory
from trailforge.cli import app
from trailforge.schemas import InvalidInput, KgTrajectory, Trajectory, to_dict, write_parquet
from trailforge.training.sets.files import SetManifest

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
    with pytest.raises(InvalidInput, match="no row of kind policy in kg_trajectories"):
        shown(folder, "--kind", "policy")
    with pytest.raises(InvalidInput, match="no kind 'bad'; there are policy, rule, oracle"):
        shown(folder, "--kind", "bad")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"dataset": "tables"}', "no data set 'tables' is installed; this trailforge knows"),
        ('{"dataset": 1}', "names no data set"),
        ("[]", "names no data set"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_show_of_a_run_of_something_else_says_so(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InvalidInput, match=problem):
        shown(tmp_path)


def test_an_id_that_is_nowhere_is_said_in_a_line(tmp_path: Path) -> None:
    folder = kg_run(tmp_path / "run")
    with pytest.raises(InvalidInput, match="no row u9 in kg_trajectories") as caught:
        shown(folder, "--id", "u9")
    assert "\n" not in str(caught.value)
    with pytest.raises(InvalidInput, match="no table 'trees'; there are kg_trajectories, pairs, sft, inputs, rejected"):
        shown(folder, "--tree")


@pytest.mark.parametrize("command", ["show", "inspect", "status", "verify", "curate stats", "check-bands"])
def test_of_a_training_set_it_is_said_what_reads_it(tmp_path: Path, command: str) -> None:
    manifest = SetManifest(inputs=(), config="{}", measured_by="estimate", stages=(), counts=(), files=())
    (tmp_path / "manifest.json").write_text(json.dumps(to_dict(manifest)))
    (tmp_path / "sft").mkdir()
    result = CliRunner().invoke(app, [*command.split(), str(tmp_path)])
    assert isinstance(result.exception, InvalidInput)
    said = "a training set, and no run; `trailforge train`, `export` and `evaluate` read it"
    assert str(result.exception) == f"{tmp_path}: {said}"


def shown(folder: Path, *options: str) -> str:
    """What `trailforge show` prints."""
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["show", str(folder), *options])
    if isinstance(result.exception, InvalidInput):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_a_row_s_plan_is_written_as_graphml(tmp_path: Path) -> None:
    folder, row = tmp_path / "run", trajectory()
    (folder / "mcts_trajectories").mkdir(parents=True)
    (folder / "run.json").write_text('{"dataset": "mcts_trajectories"}')
    write_parquet(folder / "mcts_trajectories" / "part-00000.parquet", Trajectory, [row])
    file = tmp_path / "plan.graphml"
    assert str(file) in shown(folder, "--id", row.uid, "--graphml", str(file))
    graph = nx.read_graphml(file, node_type=int)
    assert graph.nodes[len(row.plan)]["answer"] == row.final_answer
    with pytest.raises(InvalidInput, match="of one row of a run"):
        shown(folder, "--count", "2", "--graphml", str(file))
