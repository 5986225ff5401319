"""What a run wrote, told by names: strangers' files are never among it, and the run's own are all found.

A receipt counts while its files are as it says, and while what it was made of is what is there now.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.pipelines.bundles_support import FinishedBundles
from tests.pipelines.kg_support import FinishedKg
from tests.pipelines.support import FinishedRun, edit_manifest
from tests.support.files import contents
from trailforge.generators.document_bundles import DATASET as BUNDLES
from trailforge.generators.kg_questions import DATASET as KG_QUESTIONS
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.pipelines.dataset import DataSet
from trailforge.pipelines.datasets import dataset_of
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.engine.shards import missing_shards, receipt_path
from trailforge.pipelines.runs.finish import CARD, MANIFEST
from trailforge.pipelines.runs.finish import finished_run as read_finished
from trailforge.pipelines.runs.intake import Settings
from trailforge.pipelines.runs.own_files import OwnFiles
from trailforge.pipelines.runs.stages import PlannedStage, planned_stages
from trailforge.schemas import InvalidInput, OutputError

SHARD = "part-00000-0a1b2c3d4e5f.parquet"


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in OwnFiles(folder, MCTS).files()}


def test_all_that_a_run_wrote_is_its_own(original_run: FinishedRun) -> None:
    assert names(original_run.folder) == set(contents(original_run.folder)) - {".lock"}


def test_all_that_runs_of_other_data_sets_wrote_is_their_own(
    original_bundles: FinishedBundles, original_kg: Mapping[str, FinishedKg]
) -> None:
    for folder in (original_bundles.folder, original_kg["free"].folder, original_kg["written"].folder):
        _, settings = read_finished(folder)
        own = {path.relative_to(folder).as_posix() for path in OwnFiles(folder, dataset_of(settings)).files()}
        assert own == set(contents(folder)) - {".lock"}


def test_dropped_rows_leave_ledger_inputs_and_settings(finished_run: FinishedRun) -> None:
    folder = finished_run.folder
    for name in ("ledger/calls.sqlite", "curation/decisions.jsonl", "notes/part-00000-0123456789ab.parquet"):
        (folder / name).parent.mkdir()
        (folder / name).write_text("dear")
    before = set(contents(folder))
    OwnFiles(folder, MCTS).drop_rows(print)
    left = set(contents(folder))
    assert left == {n for n in before if n.startswith(("ledger", "curation", "notes", "inputs", "run.json"))} | {
        "rejected/part-inputs.parquet",
        "manifest.json",
    }
    assert not (folder / "trees").exists() and not (folder / "shards").exists()


@pytest.mark.parametrize("paid", ["", "ledger", "curation", "trees", "shards", "sft"])
def test_a_run_has_nothing_before_it_has_a_receipt_a_row_or_a_call(finished_run: FinishedRun, paid: str) -> None:
    """Then another run may begin in its folder; what was paid for, or made, is nobody else's."""
    folder, made = finished_run.folder, finished_run.folder.with_name("made")
    shutil.copytree(folder, made)
    assert not OwnFiles(folder, MCTS).has_nothing()
    OwnFiles(folder, MCTS).drop_rows(print)
    (folder / MANIFEST).unlink()
    assert OwnFiles(folder, MCTS).has_nothing()
    if (made / paid).is_dir() and paid:
        shutil.copytree(made / paid, folder / paid)
    elif paid:
        (folder / paid).mkdir()
    assert OwnFiles(folder, MCTS).has_nothing() is not bool(paid)


def test_rows_of_a_curated_data_set_are_dropped_too(finished_run: FinishedRun) -> None:
    curated = [finished_run.folder / name for name in ("rejected/part-curation.parquet", "shards/curation.json")]
    for path in curated:
        path.write_text("{}")
    OwnFiles(finished_run.folder, MCTS).drop_rows(print)
    assert [path for path in curated if path.exists()] == []


def test_a_card_that_somebody_changed_is_set_aside_before_rows_are_dropped(finished_run: FinishedRun) -> None:
    folder, told = finished_run.folder, list[str]()
    (folder / CARD).write_text("ours is better")
    OwnFiles(folder, MCTS).drop_rows(told.append)
    (kept,) = folder.glob(f"{CARD}.yours-*")
    assert kept.read_text() == "ours is better" and not (folder / CARD).exists()
    assert told == [f"{folder / CARD}: not as it was written; it is kept as {kept.name}"]


@pytest.mark.parametrize("name", [".run.json.tmp-0a1b2c3d", "trees/.part-00001-0a1b2c3d4e5f.parquet.tmp-0a1b2c3d"])
def test_what_a_kill_left_is_removed(finished_run: FinishedRun, name: str) -> None:
    before = contents(finished_run.folder)
    (finished_run.folder / name).write_text("half")
    OwnFiles(finished_run.folder, MCTS).remove_leftovers()
    assert contents(finished_run.folder) == before
    (finished_run.folder / name).write_text("half")  # by a worker that was killed while the command went on
    OwnFiles(finished_run.folder, MCTS).remove_orphans(finished_run.settings)
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
    OwnFiles(tmp_path, MCTS).refuse_strangers()
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
        OwnFiles(tmp_path, MCTS).refuse_strangers()


def test_a_file_of_questions_of_a_person_is_a_stranger(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text("dear")
    with pytest.raises(OutputError, match=r"such as questions\.jsonl; give another --out"):
        OwnFiles(tmp_path, KG_QUESTIONS).refuse_strangers()


def test_a_link_is_a_stranger(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "photos").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="such as photos; give another --out"):
        OwnFiles(tmp_path / "run", MCTS).refuse_strangers()


def missing(folder: Path, dataset: DataSet, settings: Settings) -> dict[str, int | None]:
    """By stage, how many of its shards have to run; None while that is not known."""

    def of(stage: PlannedStage) -> int | None:
        return None if stage.shards is None else len(missing_shards(folder, stage.shards))

    return {stage.name: of(stage) for stage in planned_stages(dataset, folder, settings)}


def made_otherwise(folder: Path, stage: PlannedStage, table: str) -> None:
    """Make the first shard of a stage one that was run again and gave other rows of a table."""
    path = receipt_path(folder, next(iter(stage.shards or ())))
    receipt = json.loads(path.read_text())
    next(e for e in receipt["files"] if e["path"].startswith(f"{table}/"))["sha256"] = "0" * 64
    path.write_text(json.dumps(receipt))


def lines_of(folder: Path, dataset: DataSet, settings: Settings) -> list[str]:
    told: list[str] = []
    is_damaged = OwnFiles(folder, dataset).drop_damaged(settings, told.append)
    assert is_damaged is any("is made again" in line for line in told)
    return told


def test_a_whole_run_is_left_alone(original_run: FinishedRun, original_bundles: FinishedBundles) -> None:
    for run, dataset in ((original_run, MCTS), (original_bundles, BUNDLES)):
        before = contents(run.folder)
        assert lines_of(run.folder, dataset, run.settings) == [] and contents(run.folder) == before
    assert set(missing(original_bundles.folder, BUNDLES, original_bundles.settings).values()) == {0}


@pytest.mark.parametrize("table", ["mcts_trajectories", "trees", "sft"])
def test_a_shard_with_a_damaged_file_is_not_finished(finished_run: FinishedRun, table: str) -> None:
    folder, shard = finished_run.folder, finished_run.settings.shards[1]
    path = folder / table / f"{shard.name}.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    others = {name for name in contents(folder) if shard.name not in name and name != "manifest.json"}
    assert lines_of(folder, MCTS, finished_run.settings) == [
        f"{path}: not as it was written (its sha256 differs); it is made again"
    ]
    assert missing_shards(folder, finished_run.settings.shards) == [shard]
    assert set(contents(folder)) == others | {shard.input}


def test_a_changed_card_is_kept_aside_when_a_shard_is_damaged(finished_run: FinishedRun) -> None:
    folder = finished_run.folder
    (folder / CARD).write_text("ours is better")
    next(folder.glob("trees/*.parquet")).unlink()
    told = lines_of(folder, MCTS, finished_run.settings)
    (kept,) = folder.glob(f"{CARD}.yours-*")
    assert told[1:] == [f"{folder / CARD}: not as it was written; it is kept as {kept.name}"]
    assert kept.read_text() == "ours is better" and not (folder / CARD).exists()


def test_a_card_is_kept_aside_when_the_manifest_cannot_tell_whose_it_is(finished_run: FinishedRun) -> None:
    folder = finished_run.folder
    (folder / MANIFEST).write_text("{")
    before = (folder / CARD).read_text()
    lines_of(folder, MCTS, finished_run.settings)
    (kept,) = folder.glob(f"{CARD}.yours-*")
    assert kept.read_text() == before


def test_a_missing_figure_leaves_manifest_and_receipts(finished_run: FinishedRun) -> None:
    folder, figure = finished_run.folder, finished_run.folder / "plots/funnel.png"
    figure.unlink()
    before = contents(folder)
    assert lines_of(folder, MCTS, finished_run.settings) == [f"{figure}: missing; it is made again"]
    assert contents(folder) == before


def test_a_file_that_the_disk_does_not_give_back_is_damaged(
    finished_run: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, shard = finished_run.folder, finished_run.settings.shards[0]
    path, sound = folder / f"trees/{shard.name}.parquet", sha256_of

    def hashed(file: Path) -> str:
        if file == path:
            raise OSError(errno.EIO, "Input/output error")
        return sound(file)

    monkeypatch.setattr("trailforge.pipelines.engine.files.sha256_of", hashed)
    (line,) = lines_of(folder, MCTS, finished_run.settings)
    assert line == f"{path}: cannot be read (Input/output error); it is made again"
    assert missing_shards(folder, finished_run.settings.shards) == [shard]


def test_a_receipt_that_names_files_elsewhere_removes_none_there(finished_run: FinishedRun) -> None:
    folder = finished_run.folder
    (folder.parent / "mine.txt").write_text("a person's")
    (folder / "mine.txt").write_text("a person's")
    path = receipt_path(folder, finished_run.settings.shards[0])
    receipt = json.loads(path.read_text())
    receipt["files"] += [{"path": name, "rows": 1, "sha256": "0"} for name in ("../mine.txt", "mine.txt")]
    path.write_text(json.dumps(receipt))
    assert len(lines_of(folder, MCTS, finished_run.settings)) == 2 and not path.exists()
    assert (folder / "mine.txt").exists() and (folder.parent / "mine.txt").exists()


def test_a_manifest_of_another_version_is_no_damage(finished_run: FinishedRun) -> None:
    edit_manifest(finished_run.folder, lambda content: content.update(schema_version="9.0"))
    before = contents(finished_run.folder)
    with pytest.raises(InvalidInput, match=r"Manifest of schema version 9\.0"):
        lines_of(finished_run.folder, MCTS, finished_run.settings)
    assert contents(finished_run.folder) == before


@pytest.mark.parametrize(
    ("made", "table", "follows"), [(0, "documents", "embed"), (1, "embeddings", "bundle"), (3, "candidates", "select")]
)
def test_what_was_made_of_another_shard_is_made_again(
    finished_bundles: FinishedBundles, made: int, table: str, follows: str
) -> None:
    folder, settings = finished_bundles.folder, finished_bundles.settings
    made_otherwise(folder, planned_stages(BUNDLES, folder, settings)[made], table)
    found = missing(folder, BUNDLES, settings)
    names = list(found)
    assert found[follows] == 1
    assert [found[name] for name in names[: names.index(follows)]] == [0] * names.index(follows)
    assert all(found[name] is None for name in names[names.index(follows) + 1 :])


def test_questions_of_a_graph_are_selected_again_when_others_were_written(
    finished_kg: Callable[[str], FinishedKg],
) -> None:
    run = finished_kg("written")
    assert missing(run.folder, KG_QUESTIONS, run.settings) == {"write": 0, "select": 0}
    made_otherwise(run.folder, planned_stages(KG_QUESTIONS, run.folder, run.settings)[0], "candidates")
    assert missing(run.folder, KG_QUESTIONS, run.settings) == {"write": 0, "select": 1}


def test_receipts_that_do_not_say_what_they_were_made_of_still_count(finished_bundles: FinishedBundles) -> None:
    """As those of the versions before."""
    folder = finished_bundles.folder
    for path in (folder / "shards").iterdir():
        receipt = json.loads(path.read_text())
        del receipt["made_of"]
        for shard in receipt["shards"]:
            del shard["made_of"]
        path.write_text(json.dumps(receipt))
    assert set(missing(folder, BUNDLES, finished_bundles.settings).values()) == {0}


def test_later_receipts_that_do_not_say_what_they_were_made_of_go_with_those_before_them(
    finished_bundles: FinishedBundles,
) -> None:
    folder, settings = finished_bundles.folder, finished_bundles.settings
    stages = {stage.name: stage.shards or () for stage in planned_stages(BUNDLES, folder, settings)}
    for path in (folder / "shards").iterdir():
        receipt = json.loads(path.read_text())
        del receipt["made_of"]
        path.write_text(json.dumps(receipt))
    path = next(folder.glob("embeddings/*.parquet"))
    path.write_bytes(path.read_bytes()[:-1])
    lines_of(folder, BUNDLES, settings)
    left = {name: sum(receipt_path(folder, s).exists() for s in shards) for name, shards in stages.items()}
    assert left == {name: 0 for name in stages} | {
        "clean": len(stages["clean"]),
        "embed": len(stages["embed"]) - 1,
    }


def test_rows_of_shards_that_the_run_no_longer_has_go(finished_run: FinishedRun) -> None:
    folder, before = finished_run.folder, contents(finished_run.folder)
    for name in ("sft/part-00009-0a1b2c3d4e5f.parquet", "shards/part-00009-0a1b2c3d4e5f.json", "sft/mine.parquet"):
        (folder / name).write_text("{}")
    OwnFiles(folder, MCTS).remove_orphans(finished_run.settings)
    assert set(contents(folder)) == set(before) | {"sft/mine.parquet"}
