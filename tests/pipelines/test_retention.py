"""Which windows go, and that a removal leaves nothing half."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from pipelines.files import exclusive, sha256_of
from pipelines.retention import LOG, fates, retain
from pipelines.windows import DONE
from schemas import InvalidInput
from tests.support.files import contents

DAYS = [f"2026-11-{day}" for day in range(10, 16)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Six complete windows but for the second, and something else."""
    for day in DAYS:
        for run in ("bundles", "mcts"):
            (tmp_path / day / run).mkdir(parents=True)
            (tmp_path / day / run / "rows.parquet").write_text(day)
        (tmp_path / day / DONE).write_text("{}")
    (tmp_path / DAYS[1] / DONE).unlink()
    (tmp_path / "2026-notes").mkdir()
    return tmp_path


def left(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def decide(root: Path, day: str) -> Path:
    log = root / day / "mcts" / LOG
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
    monkeypatch.setattr("pipelines.retention.is_held", lambda _: False)
    with exclusive(root / DAYS[0] / "bundles"):
        kept, gone = retain(root, 3)
    assert "another run is writing here" in kept.kept_for and not gone.kept_for
    assert (root / DAYS[0] / "mcts/rows.parquet").exists() and DAYS[2] not in left(root)


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


def test_what_is_curated_inside_of_a_window_keeps_it(root: Path) -> None:
    curated(root / DAYS[0] / "mcts-curated", decide(root, DAYS[0]))
    assert fates(root, 4)[0].kept_for == "holds mcts-curated, which is no part of a window"


def test_a_removal_that_is_killed_leaves_no_half_window(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def die(path: Path, **_: object) -> None:
        os.unlink(path / "mcts/rows.parquet")
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", die)
        with pytest.raises(Killed):
            retain(root, 3)
    aside = [name for name in left(root) if name.startswith(".removed-")]
    assert len(aside) == 1 and DAYS[0] not in left(root)
    retain(root, 3)
    assert left(root) == [*sorted([DAYS[1], *DAYS[3:]]), "2026-notes"]


def test_none_to_keep_and_no_root_are_refused(root: Path) -> None:
    with pytest.raises(InvalidInput, match="keep"):
        fates(root, 0)
    with pytest.raises(InvalidInput, match="no such folder"):
        fates(root / "nowhere", 1)
