"""What a folder says about its run: empty, read, running, stopped, finished, and folders that are none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from tests.pipelines.bundles_support import FinishedBundles
from tests.pipelines.kg_support import FinishedKg
from tests.pipelines.support import FinishedRun
from trailforge.generators.document_bundles import DATASET as BUNDLES
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.work import take_in
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.pipelines.dataset import LEDGER
from trailforge.pipelines.engine.files import exclusive
from trailforge.pipelines.engine.progress import ProgressFile, begin_progress
from trailforge.pipelines.engine.shards import receipt_path
from trailforge.pipelines.engine.worker_errors import ERRORS
from trailforge.pipelines.runs import status as module
from trailforge.pipelines.runs.finish import CARD, MANIFEST
from trailforge.pipelines.runs.intake import RunInputs, write_settings
from trailforge.pipelines.runs.stages import planned_stages
from trailforge.pipelines.runs.status import describe_status, follow, read_status
from trailforge.schemas import InvalidInput


@pytest.fixture
def half_run(finished_run: FinishedRun) -> FinishedRun:
    """As a kill leaves it: the first of three shards is finished."""
    for name in (MANIFEST, CARD):
        (finished_run.folder / name).unlink()
    for shard in finished_run.settings.shards[1:]:
        receipt_path(finished_run.folder, shard).unlink()
    return finished_run


def test_a_finished_run(finished_run: FinishedRun) -> None:
    found, manifest = read_status(finished_run.folder), finished_run.manifest
    assert (found.state, found.is_held, found.pace, found.errors) == ("finished", False, None, ())
    assert (found.shards_done, found.shards, found.items_done, found.items) == (3, 3, 20, 20)
    (accepted,) = (line.accepted for line in manifest.stages if line.name == "filter")
    assert sum(found.rows.values()) == accepted and found.rows["correct"] > 0
    assert (found.calls, found.prompt_tokens, found.cost) == (manifest.calls, manifest.prompt_tokens, manifest.cost)
    assert found.put_aside["read/invalid_input"] == 1
    assert "trailforge verify" in found.next
    first = f"{finished_run.folder}: finished, {manifest.run_id} of {finished_run.source}"
    assert describe_status(found)[:2] == [first, "  stage      search"]


def test_a_stopped_run_says_what_is_done_and_how_to_go_on(half_run: FinishedRun) -> None:
    begin_progress(half_run.folder, [])
    ProgressFile(half_run.folder).write({"items": 15, "correct": 99})  # of the process that was killed
    found = read_status(half_run.folder)
    assert (found.state, found.shards_done, found.items_done, found.items) == ("stopped", 1, 8, 20)
    assert found.rows["correct"] < 99 and found.pace is None
    assert (
        f"mcts-trajectories … --questions {half_run.source} --out {half_run.folder}" in found.next
        and "the same command" in found.next
    )


def test_commands_are_quoted_as_a_shell_wants_it(half_run: FinishedRun, tmp_path: Path) -> None:
    folder = half_run.folder.rename(tmp_path / "a b")
    assert f" --out '{folder}' …" in read_status(folder).next
    (tmp_path / "c d").mkdir()
    assert f" --out '{tmp_path / 'c d'}'" in read_status(tmp_path / "c d").next


def test_errors_of_the_last_try_are_told_once(half_run: FinishedRun) -> None:
    (half_run.folder / ERRORS).mkdir(exist_ok=True)
    for name in ("0a0a0a0a", "0b0b0b0b"):
        (half_run.folder / ERRORS / f"{name}.json").write_text(json.dumps({"class": "X", "message": "the server left"}))
    (half_run.folder / ERRORS / "0c0c0c0c.json").write_text("half a fi")
    found = read_status(half_run.folder)
    assert found.errors == ("the server left",)
    assert "  error      the server left" in describe_status(found)


def test_a_run_in_progress_counts_what_is_not_in_a_finished_shard_yet(
    half_run: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, (first, *_) = half_run.folder, half_run.settings.shards
    finished_rows = read_status(folder).rows
    with exclusive(folder):
        monkeypatch.setattr("time.time", lambda: 1_000_000.0)
        begin_progress(folder, [first.name])
        ProgressFile(folder).write({"items": 6, "correct": 2, "paid_calls": 50, "in_flight": 7, "prompt_tokens": 9})
        monkeypatch.setattr("time.time", lambda: 1_000_180.0)
        found = read_status(folder)
        assert (found.state, found.is_held, found.items_done) == ("running", True, 14)
        assert found.rows["correct"] == finished_rows["correct"] + 2
        pace = found.pace
        assert pace is not None and (pace.seconds, pace.items_per_minute, pace.seconds_left) == (180, 2, 180)
        assert (pace.paid_calls, pace.in_flight, pace.tokens) == (50, 7, 9)
        assert any("2.0 a minute, about 3 min left" in line for line in describe_status(found))
    assert read_status(folder).state == "stopped"


def test_shards_that_this_process_finished_are_not_counted_twice(half_run: FinishedRun) -> None:
    with exclusive(half_run.folder):
        begin_progress(half_run.folder, [])
        ProgressFile(half_run.folder).write({"items": 8})
        found = read_status(half_run.folder)
        assert (found.shards_done, found.items_done) == (1, 8)
        assert read_status(half_run.folder).pace is not None


def test_a_process_that_has_not_begun_to_search_shows_no_pace(half_run: FinishedRun) -> None:
    with exclusive(half_run.folder):
        found = read_status(half_run.folder)
    assert (found.state, found.pace, found.items_done) == ("running", None, 8)


def test_an_empty_folder_and_one_that_is_being_filled(tmp_path: Path) -> None:
    found = read_status(tmp_path)
    assert (found.state, found.is_held, found.shards) == ("empty", False, 0)
    assert str(tmp_path) in found.next
    assert describe_status(found)[0] == f"{tmp_path}: empty"
    assert list(tmp_path.iterdir()) == []
    with exclusive(tmp_path):
        assert read_status(tmp_path).state == "reading"
    assert read_status(tmp_path).state == "empty"


def test_a_folder_that_is_none_or_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such run folder"):
        read_status(tmp_path / "none")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"not a run folder \(no run.json\)"):
        read_status(tmp_path)


def test_a_ledger_that_cannot_be_read_does_not_hide_the_rest(half_run: FinishedRun) -> None:
    (half_run.folder / LEDGER).parent.mkdir(exist_ok=True)
    (half_run.folder / LEDGER).write_bytes(b"text" * 9000)
    found = read_status(half_run.folder)
    assert (found.calls_kept, found.shards_done) == (None, 1)


def test_a_damaged_table_is_named(half_run: FinishedRun) -> None:
    table = half_run.folder / MCTS.rows / f"{half_run.settings.shards[0].name}.parquet"
    table.write_bytes(table.read_bytes()[:100])
    with pytest.raises(InvalidInput, match=f"{table.name}: not a readable Parquet file"):
        read_status(half_run.folder)


def test_following_ends_when_nobody_works_on_the_run(half_run: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([True, True, False])
    monkeypatch.setattr(module, "is_held", lambda folder: next(answers))
    assert [each.state for each in follow(half_run.folder, every_s=0)] == ["running", "running", "stopped"]


def test_looking_does_not_keep_a_run_from_starting(half_run: FinishedRun) -> None:
    with exclusive(half_run.folder):
        assert all(each.is_held for each in islice(follow(half_run.folder, every_s=0), 5))
    with exclusive(half_run.folder):
        pass


@pytest.mark.parametrize(("seconds", "text"), [(5.2, "5 s"), (89, "89 s"), (125, "2 min"), (7_260, "2 h 1 min")])
def test_durations_are_told_as_people_do(seconds: float, text: str) -> None:
    assert module._duration(seconds) == text


def test_a_copied_run_reads_the_same(finished_run: FinishedRun, tmp_path: Path) -> None:
    shutil.copytree(finished_run.folder, tmp_path / "copy")
    assert read_status(tmp_path / "copy").rows == read_status(finished_run.folder).rows


STAGES = [
    ("clean", "documents", 34),
    ("embed", "documents", 29),
    ("bundle", "documents", 29),
    ("write", "bundles", 8),
    ("select", "bundles", 8),
    ("episode", "questions", 8),
]


@pytest.fixture(scope="module")
def stopped_bundles(
    original_bundles: FinishedBundles, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], Path]:
    """A copy of the run of bundles as it stood when so many stages were finished."""

    def stopped(finished: int) -> Path:
        folder = tmp_path_factory.mktemp("stopped") / "run"
        shutil.copytree(original_bundles.folder, folder)
        for stage in planned_stages(BUNDLES, folder, original_bundles.settings)[finished:]:
            for shard in stage.shards or ():
                receipt_path(folder, shard).unlink()
        for name in (MANIFEST, CARD):
            (folder / name).unlink()
        return folder

    return stopped


@pytest.mark.parametrize("finished", range(len(STAGES)))
def test_a_run_of_bundles_that_stopped_after_a_stage_names_the_next(
    stopped_bundles: Callable[[int], Path], original_bundles: FinishedBundles, finished: int
) -> None:
    folder = stopped_bundles(finished)
    name, unit, items = STAGES[finished]
    found = read_status(folder)
    assert (found.state, found.stage, found.unit) == ("stopped", name, unit)
    assert (found.items, found.items_done, found.shards_done) == (items, 0, 0)
    assert f"trailforge document-bundles … --documents {original_bundles.source} --out {folder} …" in found.next
    lines = describe_status(found)
    assert f"  stage      {name}" in lines and f"  {unit:<10} 0 of {items}" in lines
    assert bool(found.calls) == (finished > 3) and bool(found.rows) == (finished > 4)
    assert bool(found.candidates) == (finished == 4) == any("candidates" in line for line in lines)
    assert ("near_duplicates/near_duplicate" in found.put_aside) == (finished > 0)


def test_a_finished_run_of_bundles(original_bundles: FinishedBundles) -> None:
    found, manifest = read_status(original_bundles.folder), original_bundles.manifest
    assert (found.state, found.stage, found.items_done, found.items) == ("finished", "episode", 8, 8)
    stages = {line.name: line for line in manifest.stages}
    assert sum(found.rows.values()) == stages["select"].accepted < stages["filter"].accepted
    assert set(found.rows) == {"factual", "causal", "single_choice", "multiple_choice"}
    assert (found.calls, found.cost) == (manifest.calls, manifest.cost)
    assert found.put_aside["write/malformed_reply"] == 1


def test_a_run_of_bundles_in_progress_counts_the_items_of_its_stage(
    stopped_bundles: Callable[[int], Path], original_bundles: FinishedBundles
) -> None:
    folder = stopped_bundles(3)
    before = [
        s.name for stage in planned_stages(BUNDLES, folder, original_bundles.settings)[:3] for s in stage.shards or ()
    ]
    with exclusive(folder):
        begin_progress(folder, before)
        ProgressFile(folder).write({"items": 2, "factual": 3, "paid_calls": 40})
        found = read_status(folder)
    assert (found.state, found.stage, found.items_done, found.items) == ("running", "write", 2, 8)
    assert found.rows == {} and found.candidates == 3 and found.pace is not None and found.pace.paid_calls == 40


def test_questions_of_a_graph_are_counted_once_they_are_selected(finished_kg: Callable[[str], FinishedKg]) -> None:
    run = finished_kg("written")
    (accepted,) = (line.accepted for line in run.manifest.stages if line.name == "select")
    found = read_status(run.folder)
    assert sum(found.rows.values()) == accepted and found.candidates == 0
    (run.folder / MANIFEST).unlink()
    (run.folder / "shards" / "selection.json").unlink()
    found = read_status(run.folder)
    (written,) = (line.accepted for line in run.manifest.stages if line.name == "filter")
    assert found.rows == {} and found.candidates == written > accepted
    assert f"kg-questions … --kg {run.graph} --out {run.folder} …" in found.next


def test_all_inputs_are_named_each_with_its_option(tmp_path: Path) -> None:
    texts = ("a", "b")
    sources = [tmp_path / f"{name}.jsonl" for name in texts]
    for name, source in zip(texts, sources, strict=True):
        row = {"title": name, "text": f"A text of {name}.", "source": name, "published": "2026-01-01"}
        source.write_text(json.dumps(row) + "\n")
    write_settings(
        tmp_path / "run",
        take_in(RunInputs(dataset="document_bundles", files=tuple(sources)), tmp_path / "run", BundleRunConfig()),
    )
    assert f"… --documents {sources[0]} --documents {sources[1]} --out" in read_status(tmp_path / "run").next


@pytest.mark.parametrize("text", ["{", "[]", '{"at": "noon", "finished": []}', "[" * 200_000])
def test_notes_of_progress_that_cannot_be_read_are_none(half_run: FinishedRun, text: str) -> None:
    folder = half_run.folder / "progress"
    folder.mkdir(exist_ok=True)
    (folder / "begun").write_text(text)
    (folder / "7-0a1b2c3d.json").write_text(text)
    with exclusive(half_run.folder):
        assert read_status(half_run.folder).state == "running"
