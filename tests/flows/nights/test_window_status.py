"""How the windows of a root stand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from trailforge.flows.nights import status, windows
from trailforge.flows.nights.makes import PlannedDataSet
from trailforge.flows.nights.replanning import begin
from trailforge.flows.nights.status import describe_windows, read_windows
from trailforge.flows.nights.windows import DataSetFigures, Window, WindowPlan
from trailforge.flows.run_log import LOG
from trailforge.pipelines.engine.files import exclusive
from trailforge.pipelines.runs.status import RunStatus
from trailforge.schemas import StageCount

PLAN = WindowPlan(
    day="2026-11-20", window_days=1, documents=("d.jsonl",),
    makes=(PlannedDataSet(folder="bundles", dataset="document_bundles", preset="r-search"),), kg="", model_name=None,
    benchmarks=(), most_documents=None, most_questions=None, distractors=16, seed=0,
)  # fmt: skip
BOOKS = StageCount(name="window", inputs=3, accepted=3)
DONE = Window(
    day=PLAN.day, first_day=PLAN.first_day, documents=BOOKS, questions=BOOKS, breaches=("mcts, rows",),
    datasets=(
        DataSetFigures(dataset="mcts_trajectories", folder="mcts", rows=12, calls=34, cost=0.5),
        DataSetFigures(dataset="kg_trajectories", folder="kg", skipped="no knowledge graph was given"),
    ),
)  # fmt: skip
FAILED = [
    {"time": "2026-11-21T03:00:00.123+00:00", "event": "run_began", "message": "begins"},
    {"time": "2026-11-21T03:00:05.123+00:00", "event": "run_failed", "message": "failed: HTTP 401: no such key"},
    {"time": "2026-11-21T03:00:05.123+00:00", "event": "run_stopped", "message": "stopped by a signal"},
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A complete window, one that was begun, and one whose plan is something else."""
    begin(tmp_path, PLAN)
    windows.finish(tmp_path / PLAN.day, DONE)
    begin(tmp_path, replace(PLAN, day="2026-11-21"))
    (tmp_path / "2026-11-21" / "bundles").mkdir()
    begin(tmp_path, replace(PLAN, day="2026-11-22"))
    (tmp_path / "2026-11-22" / windows.PLAN).write_text("{}")
    (tmp_path / "curated").mkdir()
    return tmp_path


def test_each_window_says_how_it_stands(root: Path) -> None:
    done, begun, other = read_windows(root)
    assert (done.state, done.window, done.made) == ("complete", DONE, DONE.datasets)
    assert (begun.state, begun.runs, begun.made) == ("stopped", {"bundles": "empty"}, ())
    assert "goes on; with --day 2026-11-21, " in begun.next
    assert other.state == "unreadable" and "plan.json was not written by this trailforge" in other.next


def test_windows_are_told_in_a_table_with_remarks_below(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = root / "2026-11-21" / "bundles"
    begun = RunStatus(
        folder=str(run), state="stopped", next="", is_held=False, run_id="b-1", dataset="document_bundles",
        rows={"bridge": 2, "comparison": 1}, calls=1230, cost=4.0,
    )  # fmt: skip
    monkeypatch.setattr(status, "read_status", lambda folder: begun)
    (run / LOG).parent.mkdir()
    (run / LOG).write_text("\n".join(map(json.dumps, FAILED)))
    assert describe_windows(read_windows(root)) == [
        "day         state       documents  mcts  kg  bundles  calls  calls/row  cost  outside bands",
        "2026-11-20  complete            3    12   -              34        2.8  0.50              1",
        "2026-11-21  stopped                                3  1,230      410.0  4.00",
        "2026-11-22  unreadable                                    0             0.00",
        "2026-11-20  kg skipped: no knowledge graph was given",
        "2026-11-20  outside its band: mcts, rows",
        "2026-11-21  bundles stopped",
        "2026-11-21  last error: 2026-11-21 03:00:05  bundles: failed: HTTP 401: no such key",
        *(f"{window.day}  next: {window.next}" for window in read_windows(root)[1:]),
    ]
    assert describe_windows([])[0].startswith("day ")


def test_one_that_is_held_is_running(root: Path) -> None:
    with exclusive(root / "2026-11-21"):
        assert [window.state for window in read_windows(root)] == ["complete", "running", "unreadable"]


def test_a_folder_without_windows_has_none(tmp_path: Path) -> None:
    (tmp_path / "2026-11-20").mkdir()
    assert read_windows(tmp_path) == [] == read_windows(tmp_path / "none")
