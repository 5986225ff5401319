"""`trailforge retain`, `check-bands`, and `status` of a root of windows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.finished_runs import mcts_rows, mcts_run, question
from trailforge.cli import app
from trailforge.flows.nights import status
from trailforge.flows.nights.status import State, WindowStatus
from trailforge.schemas import InvalidInput, OutOfBand, TrailforgeError


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if isinstance(result.exception, TrailforgeError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_a_dry_run_says_what_would_go(tmp_path: Path) -> None:
    for day in ("2026-11-19", "2026-11-20", "2026-11-21"):
        (tmp_path / day).mkdir()
        (tmp_path / day / "window.json").write_text("{}")
    (tmp_path / "2026-11-19" / "notes.txt").write_text("")
    said = run("retain", tmp_path, "--keep", 1, "--dry-run").splitlines()
    assert said[0].endswith("2026-11-19: stays: holds notes.txt, which is no part of a window")
    assert said[1].endswith("2026-11-20: would go") and len(list(tmp_path.iterdir())) == 3
    assert run("retain", tmp_path, "--keep", 1).splitlines()[1].endswith("2026-11-20: removed")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2026-11-19", "2026-11-21"]


@pytest.mark.parametrize("option", [["--dry-run"], []])
def test_that_nothing_is_to_be_removed_is_said(tmp_path: Path, option: list[str]) -> None:
    (tmp_path / "2026-11-21").mkdir()
    (tmp_path / "2026-11-21" / "window.json").write_text("{}")
    assert "nothing to remove" in run("retain", tmp_path, "--keep", 3, *option)


def test_a_root_is_watched_until_no_window_is_worked_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window is held for two rounds; printed once each, and once more when it is free."""
    (tmp_path / "2026-11-20").mkdir()
    (tmp_path / "2026-11-20" / "plan.json").write_text("{}")
    held: list[State] = ["running", "running", "running", "stopped"]  # the first: is it a root?
    states = iter(held)
    monkeypatch.setattr(
        status, "_status", lambda folder: WindowStatus(day=folder.name, state=next(states), next="", runs={})
    )
    monkeypatch.setattr(status.time, "sleep", lambda seconds: None)
    said = [json.loads(line) for line in run("status", tmp_path, "--watch", "--json").splitlines()]
    assert [each["state"] for each in said] == ["running", "running", "stopped"] and next(states, None) is None


def test_status_tells_of_every_window_of_a_root(tmp_path: Path) -> None:
    for day in ("2026-11-20", "2026-11-21"):
        (tmp_path / day).mkdir()
        (tmp_path / day / "plan.json").write_text("{}")
    assert [line.split()[:2] for line in run("status", tmp_path).splitlines()[:3]] == [
        ["day", "state"],
        ["2026-11-20", "unreadable"],
        ["2026-11-21", "unreadable"],
    ]
    said = [json.loads(line) for line in run("status", tmp_path, "--json").splitlines()]
    assert [(each["day"], each["state"]) for each in said] == [
        ("2026-11-20", "unreadable"),
        ("2026-11-21", "unreadable"),
    ]


def test_a_finished_run_is_held_against_bands(tmp_path: Path) -> None:
    asked = question(1)
    folder = mcts_run(tmp_path / "run", [asked], mcts_rows(asked))
    manifest = json.loads((folder / "manifest.json").read_text()) | {"calls_per_accepted_row": 12.5}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    bands = tmp_path / "bands.yaml"
    bands.write_text("mcts_trajectories: {calls_per_accepted_row: {most: 20}}\n")
    assert "1 figures, all within" in run("check-bands", folder, "--bands", bands)
    bands.write_text("mcts_trajectories: {calls_per_accepted_row: {most: 12}}\n")
    with pytest.raises(OutOfBand, match=r"is 12\.5, should be at most 12") as caught:
        run("check-bands", folder, "--bands", bands)
    assert caught.value.exit_code == 12
    with pytest.raises(InvalidInput, match="holds no finished run"):
        run("check-bands", tmp_path)
