"""Which windows go, and that a removal leaves nothing half."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.bundles_support import FinishedBundles
from tests.pipelines.kg_support import FinishedKg
from tests.pipelines.support import FinishedRun
from tests.support.files import contents
from trailforge.flows.nights import retention
from trailforge.flows.nights.windows import DONE, PLAN
from trailforge.pipelines.engine.files import exclusive, sha256_of
from trailforge.schemas import DECISIONS_LOG, PATTERNS_LOG, InvalidInput

fates = retention.decide_retention
DAYS = [f"2026-11-{day}" for day in range(10, 16)]
ROWS = "sft/part-0.parquet"


def retain(root: Path, keep: int, **options: Any) -> list[retention.RetentionDecision]:
    return retention.retain(root, fates(root, keep, **options))


@pytest.fixture(autouse=True)
def every_log_awaits_curation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "awaits_curation", lambda _: True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Six complete windows but for the second, and something else."""
    for day in DAYS:
        for run in ("bundles", "mcts"):
            (tmp_path / day / run / "sft").mkdir(parents=True)
            (tmp_path / day / run / ROWS).write_text(day)
        (tmp_path / day / DONE).write_text("{}")
        (tmp_path / day / PLAN).write_text('{"makes": [{"folder": "bundles"}, {"folder": "mcts"}, {"folder": "kg"}]}')
    (tmp_path / DAYS[1] / DONE).unlink()
    (tmp_path / "2026-notes").mkdir()
    return tmp_path


def left(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def decide(root: Path, day: str) -> Path:
    log = root / day / "mcts" / DECISIONS_LOG
    log.parent.mkdir()
    log.write_text(json.dumps({"run_id": f"run of {day}", "action": "reject"}) + "\n")
    return log


def curated(folder: Path, log: Path) -> Path:
    """What `trailforge curate apply` leaves."""
    folder.mkdir(parents=True)
    inputs = [{"path": "questions.jsonl", "sha256": "q"}, {"path": str(log), "sha256": sha256_of(log)}]
    (folder / "manifest.json").write_text(json.dumps({"inputs": inputs}))
    return folder


def test_the_oldest_complete_windows_go(root: Path) -> None:
    before = contents(root)
    assert [fate.folder.name for fate in fates(root, 3)] == [DAYS[0], DAYS[2]]
    assert contents(root) == before
    assert [fate.kept_for for fate in retain(root, 3)] == ["", ""]
    assert left(root) == [*sorted([DAYS[1], *DAYS[3:]]), "2026-notes"]
    assert retain(root, 3) == [] and fates(root, 99) == []


def test_a_window_in_use_stays(root: Path) -> None:
    with exclusive(root / DAYS[0] / "mcts"), exclusive(root / DAYS[2]):
        assert [fate.kept_for for fate in retain(root, 3)] == ["a process works in it"] * 2
    assert {DAYS[0], DAYS[2]} <= set(left(root))


def test_one_that_is_taken_into_use_at_the_last_moment_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trailforge.flows.nights.retention.is_held", lambda _: False)
    with exclusive(root / DAYS[0] / "bundles"):
        kept, gone = retain(root, 3)
    assert "another run is writing here" in kept.kept_for and not gone.kept_for
    assert (root / DAYS[0] / "mcts" / ROWS).exists() and DAYS[2] not in left(root)


def test_a_log_of_which_nothing_can_be_made_keeps_no_window(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [decide(root, DAYS[0]), decide(root, DAYS[2])]
    monkeypatch.setattr(retention, "awaits_curation", lambda log: log == logs[1])
    assert [fate.kept_for == "" for fate in fates(root, 3)] == [True, False]


def test_decisions_keep_a_window_until_they_are_applied(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    logs = [decide(root, DAYS[0]), decide(root, DAYS[2])]
    assert [fate.kept_for for fate in retain(root, 3)] == [
        "people's decisions in mcts were not applied (trailforge curate apply)"
    ] * 2
    elsewhere = curated(tmp_path_factory.mktemp("curated") / "mcts", logs[0]).parent
    curated(root / "curated" / "mcts", logs[1])
    assert [fate.kept_for == "" for fate in fates(root, 3)] == [False, True]
    assert [fate.kept_for == "" for fate in fates(root, 3, curated=[elsewhere])] == [True, True]
    logs[0].write_text(logs[0].read_text() * 2)  # somebody has decided on more since
    retain(root, 3, curated=[elsewhere])
    assert DAYS[0] in left(root) and DAYS[2] not in left(root)


@pytest.mark.parametrize("name", ["mcts-curated", "mcts/curated"])
def test_what_is_curated_inside_of_a_window_keeps_it(root: Path, name: str) -> None:
    curated(root / DAYS[0] / name, decide(root, DAYS[0]))
    assert fates(root, 4)[0].kept_for == f"holds {name}, which is no part of a window"


def test_files_of_people_right_below_a_run_keep_its_window(root: Path) -> None:
    (root / DAYS[0] / "mcts/notes.md").write_text("Look at row 7.")
    assert [fate.kept_for for fate in retain(root, 3)] == ["holds mcts/notes.md, which is no part of a window", ""]
    assert (root / DAYS[0] / "mcts/notes.md").exists()


def test_patterns_of_people_keep_a_window(root: Path) -> None:
    log = root / DAYS[0] / "mcts" / PATTERNS_LOG
    log.parent.mkdir()
    log.write_text("{}\n")
    assert [fate.kept_for for fate in retain(root, 3)] == ["people's patterns are in mcts (--verdicts)", ""]
    assert log.exists()


def test_a_day_that_is_spared_stays_and_no_newer_one_goes_in_its_place(root: Path) -> None:
    assert [fate.folder.name for fate in fates(root, 3, spare=[DAYS[0]])] == [DAYS[2]]
    assert [fate.folder.name for fate in fates(root, 3, spare=[DAYS[5]])] == [DAYS[0], DAYS[2]]


def test_a_window_of_whole_runs_goes(
    root: Path, original_run: FinishedRun, original_bundles: FinishedBundles, original_kg: Mapping[str, FinishedKg]
) -> None:
    runs = {"bundles": original_bundles.folder, "mcts": original_run.folder, "kg": original_kg["free"].folder}
    for name, folder in runs.items():
        shutil.copytree(folder, root / DAYS[0] / name, dirs_exist_ok=True)
    (root / DAYS[0] / "kg/errors").mkdir()
    assert fates(root, 3)[0].kept_for == ""


def test_a_removal_that_is_killed_leaves_no_half_window(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def die(path: Path, **_: object) -> None:
        os.unlink(path / "mcts" / ROWS)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", die)
        with pytest.raises(Killed):
            retain(root, 3)
    aside = [name for name in left(root) if name.startswith(".removed-")]
    assert len(aside) == 1 and DAYS[0] not in left(root)
    retain(root, 3)
    assert left(root) == [*sorted([DAYS[1], *DAYS[3:]]), "2026-notes"]


def test_only_what_a_removal_left_is_cleared_away(root: Path) -> None:
    names = {".removed-notes", ".removed-2026-01-01-old", ".removed-2026-01-01-0a1b2c3d"}
    for name in names:
        (root / name).mkdir()
        (root / name / "text").write_text("x")
    (root / ".removed-2026-01-02-0a1b2c3d").symlink_to(root / ".removed-notes")
    retain(root, 99)
    here = {path.name for path in root.glob(".removed-*")}
    assert here == names - {".removed-2026-01-01-0a1b2c3d"} | {".removed-2026-01-02-0a1b2c3d"}
    assert (root / ".removed-notes" / "text").exists()


def test_none_to_keep_and_no_root_are_refused(root: Path) -> None:
    with pytest.raises(InvalidInput, match="keep"):
        fates(root, 0)
    with pytest.raises(InvalidInput, match="no such folder"):
        fates(root / "nowhere", 1)
