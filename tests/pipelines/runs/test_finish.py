"""The end of a run: the manifest comes last and says what is there."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipelines.support import CONFIG, FinishedRun, edit_manifest
from tests.support.files import contents
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.pipelines.engine.shards import receipt_path
from trailforge.pipelines.runs import finish
from trailforge.pipelines.runs.finish import MANIFEST, finish_run, read_manifest
from trailforge.pipelines.runs.intake import run_configuration
from trailforge.schemas import CountMismatch, InvalidInput, OutputError


def again(run: FinishedRun) -> None:
    finish_run(run.folder, run.settings, MCTS, seconds=2.0)


def test_the_manifest_is_written_last(finished_run: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    real = finish.write_text

    def noting(path: Path, text: str) -> None:
        written.append(path.name)
        real(path, text)

    monkeypatch.setattr(finish, "write_text", noting)
    again(finished_run)
    assert written == ["README.md", "manifest.json"]


def test_a_run_whose_card_cannot_be_written_is_not_finished(
    finished_run: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finished_run.folder / MANIFEST).unlink()

    def full(path: Path, text: str) -> None:
        raise OutputError(f"cannot write {path}: the disk is full")

    monkeypatch.setattr(finish, "write_text", full)
    with pytest.raises(OutputError, match=r"README\.md"):
        again(finished_run)
    assert read_manifest(finished_run.folder) is None


def test_every_data_file_stands_in_the_manifest_with_its_rows_and_sha256(original_run: FinishedRun) -> None:
    folder, manifest = original_run.folder, original_run.manifest
    assert [f.path for f in manifest.files] == sorted(p for p in contents(folder) if p.endswith(".parquet"))
    for entry in manifest.files:
        data = (folder / entry.path).read_bytes()
        assert entry.sha256 == hashlib.sha256(data).hexdigest()
        assert entry.rows == pq.read_metadata(folder / entry.path).num_rows > 0
    (source,) = manifest.inputs
    assert source.path == str(original_run.source) and source.rows == 21
    assert source.sha256 == hashlib.sha256(original_run.source.read_bytes()).hexdigest()


def test_the_books_of_the_manifest_are_those_of_intake_and_shards(original_run: FinishedRun) -> None:
    stages = {line.name: line for line in original_run.manifest.stages}
    assert list(stages) == ["read", "search", "solve", "filter"]
    assert all(line.balance == 0 for line in stages.values())
    assert (stages["read"].inputs, stages["read"].accepted) == (21, 20)
    assert stages["search"].inputs == stages["solve"].inputs == 20
    rows = sum(f.rows for f in original_run.manifest.files if f.path.startswith("mcts_trajectories/"))
    assert stages["filter"].accepted == rows
    assert original_run.manifest.calls_per_accepted_row == round(original_run.manifest.calls / rows, 2)


def test_a_manifest_is_read_as_it_was_written(original_run: FinishedRun) -> None:
    assert read_manifest(original_run.folder) == original_run.manifest
    assert original_run.manifest.cost == pytest.approx(
        (original_run.manifest.prompt_tokens + 2 * original_run.manifest.completion_tokens) / 1e6
    )
    assert run_configuration(MCTS, original_run.settings) == CONFIG


def test_a_folder_without_a_manifest_is_not_finished(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None


@pytest.mark.parametrize("content", ["{", "[]", "5", '{"schema_version": "0.1"}'])
def test_a_manifest_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(InvalidInput, match=r"manifest\.json: "):
        read_manifest(tmp_path)


def test_a_shard_without_a_receipt_keeps_the_run_open(finished_run: FinishedRun) -> None:
    (finished_run.folder / MANIFEST).unlink()
    missing = finished_run.settings.shards[1]
    receipt_path(finished_run.folder, missing).unlink()
    with pytest.raises(CountMismatch, match=rf"1 of 3 shards have no receipt, first {missing.name}"):
        again(finished_run)
    assert read_manifest(finished_run.folder) is None


def test_books_that_do_not_balance_keep_the_run_open(finished_run: FinishedRun) -> None:
    (finished_run.folder / MANIFEST).unlink()
    path = receipt_path(finished_run.folder, finished_run.settings.shards[0])
    receipt = json.loads(path.read_text())
    receipt["stages"][-1]["accepted"] -= 1
    path.write_text(json.dumps(receipt))
    into = next(line.inputs for line in finished_run.manifest.stages if line.name == "filter")
    with pytest.raises(CountMismatch, match=f"stage filter: {into} in, {into - 1} accounted for"):
        again(finished_run)
    assert read_manifest(finished_run.folder) is None


def test_an_edited_manifest_is_no_longer_what_was_written(finished_run: FinishedRun) -> None:
    edit_manifest(finished_run.folder, lambda content: content.update(unknown=1))
    with pytest.raises(InvalidInput, match="unknown field of Manifest"):
        read_manifest(finished_run.folder)
