"""Files of other versions are found without reading a row."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipelines.support import FinishedRun
from trailforge.pipelines.runs import doctor
from trailforge.pipelines.runs.verify import verify_run
from trailforge.pipelines.runs.versions import other_versions, run_folders
from trailforge.schemas import SearchTree, version_of


def as_version(path: Path, version: str) -> None:
    """Rewrite a file as if an earlier trailforge had made it."""
    table = pq.read_table(path)
    metadata = {**(table.schema.metadata or {}), b"trailforge.version": version.encode()}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def test_a_run_as_it_was_made_is_of_our_versions(original_run: FinishedRun) -> None:
    assert list(other_versions(original_run.folder)) == []
    found = doctor.schema_versions(original_run.folder)
    assert found.level == "ok" and " of 1 runs, all of" in found.detail


def test_each_file_of_another_version_is_named_with_both(finished_run: FinishedRun) -> None:
    tree = sorted((finished_run.folder / "trees").glob("*.parquet"))[0]
    as_version(tree, "0.9")
    (line,) = other_versions(finished_run.folder)
    assert line.startswith(f"{tree} holds SearchTree 0.9, expected SearchTree ")
    (finished_run.folder / "sft" / "part-odd.parquet").write_text("no table")
    manifest = finished_run.folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema_version": "0.1"}))
    found = doctor.schema_versions(finished_run.folder)
    assert found.level == "fault" and "Manifest of schema version 0.1" in found.detail and "2 more" in found.detail
    assert "--replace" in found.mend


def test_runs_are_found_below_a_root(finished_run: FinishedRun, tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert doctor.schema_versions(root).detail == f"no run yet in {root}"
    shutil.copytree(finished_run.folder, root / "2026-11-20" / "mcts")
    shutil.copytree(finished_run.folder, root / "demo")
    assert run_folders(root) == [root / "2026-11-20" / "mcts", root / "demo"]
    as_version(next((root / "demo/inputs").glob("*.parquet")), "9.0")
    assert "holds Question 9.0, expected Question " in doctor.schema_versions(root).detail


@pytest.mark.parametrize(("version", "is_clean"), [("1.0", True), ("0.9", False)])
def test_the_manifest_of_a_run_of_the_version_before_verifies(
    finished_run: FinishedRun, version: str, is_clean: bool
) -> None:
    manifest = finished_run.folder / "manifest.json"
    content = json.loads(manifest.read_text())
    (trees,) = (each for each in content["schema_versions"] if each["table"] == "trees")
    assert trees["version"] == version_of(SearchTree)
    trees["version"] = version
    manifest.write_text(json.dumps(content, indent=1))
    problems = verify_run(finished_run.folder).problems
    assert problems == [] if is_clean else "schema_versions is not what" in problems[0]
