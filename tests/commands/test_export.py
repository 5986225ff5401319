"""`trailforge training-set` and `trailforge export`."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import typer
from typer.testing import CliRunner

from tests.support import finished_runs as made
from trailforge.commands import export
from trailforge.schemas import InvalidInput, RlRow, TrailforgeError
from trailforge.training.sets.files import rows_of

ASKED = [made.question(number) for number in range(4)]


def run(*arguments: object) -> str:
    """What the command prints."""
    app = typer.Typer()
    export.register(app)
    result = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})
    if isinstance(result.exception, TrailforgeError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def mcts(tmp_path: Path) -> Path:
    """A finished run."""
    return made.mcts_run(tmp_path / "run", ASKED, [row for asked in ASKED[:3] for row in made.mcts_rows(asked)])


def test_from_runs_to_a_trainer(tmp_path: Path, mcts: Path) -> None:
    """What a person types; the counts are shown."""
    bundles = made.bundles_run(tmp_path / "bundles")
    options = (
        "--validation",
        0.4,
        "--mix",
        "mcts_trajectories=1",
        "--mix",
        "document_bundles=1",
        "--order",
        "shuffled",
    )
    shown = run("training-set", mcts, bundles, "--out", tmp_path / "set", *options)
    assert "rl: 8 rows, 8 accepted; none rejected" in shown and "mixture" in shown and "Tokens are estimated" in shown
    shown = run("export", tmp_path / "set", "--to", "slime", "--out", tmp_path / "slime")
    assert "rl/train.parquet" in shown and (tmp_path / "slime" / "README.md").is_file()


@pytest.mark.parametrize("weight", ["mcts_trajectories", "mcts_trajectories=", "mcts_trajectories=much"])
def test_a_weight_that_is_none_is_refused(tmp_path: Path, mcts: Path, weight: str) -> None:
    """By the option."""
    app = typer.Typer()
    export.register(app)
    arguments = ["training-set", str(mcts), "--out", str(tmp_path / "set"), "--mix", weight]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2 and "DATASET=WEIGHT" in result.output and not (tmp_path / "set").exists()


def test_wrong_folders_are_one_line(tmp_path: Path, mcts: Path) -> None:
    """The folder, and what is wrong with it."""
    with pytest.raises(InvalidInput, match="a run, and no training set"):
        run("export", mcts, "--to", "trl", "--out", tmp_path / "out")
    (mcts / "manifest.json").unlink()
    with pytest.raises(InvalidInput, match="no finished run") as caught:
        run("training-set", mcts, "--out", tmp_path / "out")
    assert caught.value.file == mcts and "\n" not in str(caught.value)


def test_the_trainers_are_those_that_are_written() -> None:
    """The option's values and the writers."""
    from trailforge.training.exports import TRAINERS

    assert set(get_args(export.Trainer)) == {*TRAINERS, "openai"}  # which evaluations alone are exported to


def test_a_run_that_gave_nothing_is_named(tmp_path: Path, mcts: Path) -> None:
    """And questions are paid by the reward that is asked for."""
    empty = made.mcts_run(tmp_path / "empty", ASKED[:1], [])
    shown = run("training-set", mcts, empty, "--out", tmp_path / "set", "--validation", 0, "--reward", "abstention")
    assert "mcts_trajectories-empty (mcts_trajectories) gave no row to sft and rl." in shown
    rows = rows_of(tmp_path / "set", "rl", "train", RlRow)
    assert {row.reward_model.ground_truth.reward_preset for row in rows} == {"abstention"}
    with pytest.raises(InvalidInput, match="no reward preset 'mine'; there are msearcher"):
        run("training-set", mcts, "--out", tmp_path / "other", "--reward", "mine")
