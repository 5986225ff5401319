"""What a run wrote, told by names: strangers' files are never among it, and the run's own are all found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.pipelines.bundles_support import FinishedBundles
from tests.pipelines.kg_support import FinishedKg
from tests.pipelines.support import FinishedRun
from tests.support.files import contents
from trailforge.generators.kg_questions import DATASET as KG_QUESTIONS
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.pipelines.datasets import dataset_of
from trailforge.pipelines.runs.finish import CARD
from trailforge.pipelines.runs.finish import finished_run as read_finished
from trailforge.pipelines.runs.own_files import drop_rows, own_files, refuse_strangers, remove_leftovers
from trailforge.schemas import OutputError

SHARD = "part-00000-0a1b2c3d4e5f.parquet"


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in own_files(folder, MCTS)}


def test_all_that_a_run_wrote_is_its_own(original_run: FinishedRun) -> None:
    assert names(original_run.folder) == set(contents(original_run.folder)) - {".lock"}


def test_all_that_runs_of_other_data_sets_wrote_is_their_own(
    original_bundles: FinishedBundles, original_kg: Mapping[str, FinishedKg]
) -> None:
    for folder in (original_bundles.folder, original_kg["free"].folder, original_kg["written"].folder):
        _, settings = read_finished(folder)
        own = {path.relative_to(folder).as_posix() for path in own_files(folder, dataset_of(settings))}
        assert own == set(contents(folder)) - {".lock"}


def test_dropped_rows_leave_ledger_inputs_and_settings(finished_run: FinishedRun) -> None:
    folder = finished_run.folder
    for name in ("ledger/calls.sqlite", "curation/decisions.jsonl", "notes/part-00000-0123456789ab.parquet"):
        (folder / name).parent.mkdir()
        (folder / name).write_text("dear")
    before = set(contents(folder))
    drop_rows(folder, MCTS, print)
    left = set(contents(folder))
    assert left == {n for n in before if n.startswith(("ledger", "curation", "notes", "inputs", "run.json"))} | {
        "rejected/part-inputs.parquet",
        "manifest.json",
    }
    assert not (folder / "trees").exists() and not (folder / "shards").exists()


def test_rows_of_a_curated_data_set_are_dropped_too(finished_run: FinishedRun) -> None:
    curated = [finished_run.folder / name for name in ("rejected/part-curation.parquet", "shards/curation.json")]
    for path in curated:
        path.write_text("{}")
    drop_rows(finished_run.folder, MCTS, print)
    assert [path for path in curated if path.exists()] == []


def test_a_card_that_somebody_changed_is_set_aside_before_rows_are_dropped(finished_run: FinishedRun) -> None:
    folder, told = finished_run.folder, list[str]()
    (folder / CARD).write_text("ours is better")
    drop_rows(folder, MCTS, told.append)
    (kept,) = folder.glob(f"{CARD}.yours-*")
    assert kept.read_text() == "ours is better" and not (folder / CARD).exists()
    assert told == [f"{folder / CARD}: not as it was written; it is kept as {kept.name}"]


@pytest.mark.parametrize("name", [".run.json.tmp-0a1b2c3d", "trees/.part-00001-0a1b2c3d4e5f.parquet.tmp-0a1b2c3d"])
def test_what_a_kill_left_is_removed(finished_run: FinishedRun, name: str) -> None:
    before = contents(finished_run.folder)
    (finished_run.folder / name).write_text("half")
    remove_leftovers(finished_run.folder, MCTS)
    assert contents(finished_run.folder) == before


@pytest.mark.parametrize("killed", ["run.json", "inputs only", "staged"])
def test_what_a_kill_before_the_run_leaves_is_no_stranger(tmp_path: Path, killed: str) -> None:
    name = {
        "run.json": ".run.json.tmp-0a1b2c3d",
        "staged": ".intake/inputs/.part-00000-0a1b2c3d4e5f.parquet.tmp-0a1b2c3d",
    }
    path = tmp_path / name.get(killed, "inputs/part-00000-0a1b2c3d4e5f.parquet")
    for each in (path, tmp_path / ".lock", tmp_path / "ledger/calls.sqlite"):
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_text("")
    refuse_strangers(tmp_path, MCTS)
    assert path.exists(), "nothing is removed before the folder is held"


@pytest.mark.parametrize(
    "name",
    ["a.txt", "inputs/part-1.parquet", "trees/deep/part-00000-0a1b2c3d4e5f.parquet", "README.md", "manifest.json",
     "plots/funnel.png", "trees/part-00000-0a1b2c3d4e5f.parquet", "shards/selection.json", ".README.md.tmp-0a1b2c3d"],
)  # fmt: skip
def test_anything_else_is_a_stranger(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("")
    with pytest.raises(OutputError, match=f"such as {name}; give another --out"):
        refuse_strangers(tmp_path, MCTS)


def test_a_file_of_questions_of_a_person_is_a_stranger(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text("dear")
    with pytest.raises(OutputError, match=r"such as questions\.jsonl; give another --out"):
        refuse_strangers(tmp_path, KG_QUESTIONS)


def test_a_link_is_a_stranger(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "photos").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="such as photos; give another --out"):
        refuse_strangers(tmp_path / "run", MCTS)
