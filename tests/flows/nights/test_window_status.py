"""How the windows of a root stand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trailforge.flows.nights import windows
from trailforge.flows.nights.makes import Make
from trailforge.flows.nights.replanning import begin
from trailforge.flows.nights.status import read_windows
from trailforge.flows.nights.windows import Made, Window, WindowPlan
from trailforge.pipelines.engine.files import exclusive
from trailforge.schemas import StageCount

PLAN = WindowPlan(
    day="2026-11-20", window_days=1, documents=("d.jsonl",),
    makes=(Make(folder="bundles", dataset="document_bundles", preset="r-search"),), kg="", model_name=None,
    benchmarks=(), most_documents=None, most_questions=None, distractors=16, seed=0,
)  # fmt: skip
BOOKS = StageCount(name="window", inputs=3, accepted=3)
DONE = Window(
    day=PLAN.day, first_day=PLAN.first_day, documents=BOOKS, questions=BOOKS, breaches=(),
    datasets=(Made(dataset="mcts_trajectories", folder="mcts", rows=12, calls=34),),
)  # fmt: skip


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
    assert (done.state, done.window) == ("complete", DONE) and "12 rows, 34 calls" in "\n".join(done.lines)
    assert (begun.state, begun.runs) == ("stopped", {"bundles": "empty"})
    assert begun.lines[0] == "2026-11-21: stopped" and "goes on; with --day 2026-11-21, " in begun.lines[-1]
    assert other.state == "unreadable" and "plan.json was not written by this trailforge" in other.next


def test_one_that_is_held_is_running(root: Path) -> None:
    with exclusive(root / "2026-11-21"):
        assert [window.state for window in read_windows(root)] == ["complete", "running", "unreadable"]


def test_a_folder_without_windows_has_none(tmp_path: Path) -> None:
    (tmp_path / "2026-11-20").mkdir()
    assert read_windows(tmp_path) == [] == read_windows(tmp_path / "none")
