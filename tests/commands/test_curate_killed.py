"""kill -9 during `trailforge curate apply`: nothing stands at --out, or all of it; again gives the same bytes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from tests.commands.test_curate import run
from tests.pipelines.conftest import finished_run, original_run  # noqa: F401 - fixtures
from tests.pipelines.support import FinishedRun
from tests.support.files import contents
from tests.support.warm import Running
from trailforge.curation.decisions import append
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import Decision, OutputError, Trajectory, read_rows


def killed(number: int, moment: str, folder: Path, out: Path) -> int:
    """The exit code of a command that dies at that rename."""
    command = [str(number), moment, "curate", "apply", str(folder), "--out", str(out)]
    return Running(command, os.environ, out.parent / "log", out.parent / "log", module="tests.commands.dying").wait(120)


def decide(folder: Path, run_id: str) -> None:
    """One row goes, one is fixed."""
    rows = list(read_rows(sorted((folder / "mcts_trajectories").glob("*.parquet")), Trajectory))
    said = {"run_id": run_id, "table": "mcts_trajectories", "who": "ann", "when": "2026-01-01T00:00:00.000000Z"}
    append(
        folder,
        [
            Decision(**said, uid=rows[0].uid, action="reject", reason="dull"),
            Decision(**said, uid=rows[1].uid, action="fix", field="answer_aliases", value='["x"]'),
        ],
    )


def renames_of(made: Callable[[], object]) -> int:
    """How many files and folders get their names in this."""
    with mock.patch("os.replace", side_effect=os.replace) as counted:
        made()
    return counted.call_count


@pytest.mark.slow
def test_what_stands_at_out_is_all_of_it_or_nothing(
    finished_run: FinishedRun,  # noqa: F811
    tmp_path: Path,
) -> None:
    folder, calm = finished_run.folder, tmp_path / "calm"
    decide(folder, finished_run.settings.run_id)
    renames = renames_of(lambda: run("apply", folder, "--out", calm))
    whole = contents(calm)
    assert renames > 10 and verify_run(calm).is_clean
    for number, moment in ((1, "before"), (renames // 2, "after"), (renames, "before"), (renames, "after")):
        out = tmp_path / f"{moment}-{number}"
        assert killed(number, moment, folder, out) == -signal.SIGKILL
        if (number, moment) == (renames, "after"):
            assert contents(out) == whole
            with pytest.raises(OutputError, match="is not empty"):
                run("apply", folder, "--out", out)
        else:
            assert not out.exists()
            run("apply", folder, "--out", out)
        assert contents(out) == whole
    assert not list(tmp_path.glob(".*")), "something of a killed run was left beside the data sets"
