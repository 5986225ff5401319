"""A run written in few large files has the same rows in the same order, is verified as before, and is never resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.bundles_support import FinishedBundles
from tests.pipelines.kg_support import FinishedKg
from tests.pipelines.support import CONFIG, FinishedRun
from trailforge.flows.execute import prepare
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.pipelines.runs.compacting import compact_run
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.pipelines.runs.status import read_status
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import InvalidInput, Manifest, OutputError


def tables(folder: Path) -> dict[str, pa.Table]:
    """All rows by table, in the order of the files."""
    names = sorted({path.parent.name for path in folder.glob("*/*.parquet")})
    return {
        name: pa.concat_tables([pq.read_table(path) for path in sorted((folder / name).glob("*.parquet"))])
        for name in names
    }


def check_compact(folder: Path, out: Path) -> None:
    made = compact_run(folder, out)
    assert verify_run(out).problems == []
    then, now = read_manifest(folder), read_manifest(out)
    assert isinstance(then, Manifest) and isinstance(now, Manifest) and now == made.manifest
    assert replace(now, files=then.files) == then  # books, calls, cost, card
    before, after = tables(folder), tables(out)
    assert before.keys() == after.keys() and all(before[name].equals(after[name]) for name in before)
    assert made.before == len(then.files) and made.after == len(now.files) <= made.before
    assert read_status(out).state == "finished" and read_status(out).rows == read_status(folder).rows
    assert not (out / "ledger").exists()


def test_a_run_of_many_shards_becomes_few_files(original_run: FinishedRun, tmp_path: Path) -> None:
    check_compact(original_run.folder, tmp_path / "new")
    assert len(list((original_run.folder / "inputs").iterdir())) > 1
    assert all(len(list((tmp_path / "new" / table).glob("*.parquet"))) <= 2 for table in tables(tmp_path / "new"))


def test_files_end_where_they_are_large_enough(original_run: FinishedRun, tmp_path: Path) -> None:
    made = compact_run(original_run.folder, tmp_path / "new", large=1)
    assert made.after == made.before and verify_run(tmp_path / "new").is_clean


def test_runs_whose_stages_make_shards_are_compacted_too(
    original_bundles: FinishedBundles, original_kg: Mapping[str, FinishedKg], tmp_path: Path
) -> None:
    check_compact(original_bundles.folder, tmp_path / "bundles")
    for name in ("free", "written"):
        check_compact(original_kg[name].folder, tmp_path / name)


def test_no_run_goes_on_in_a_compact_one_and_nothing_is_written_over(original_run: FinishedRun, tmp_path: Path) -> None:
    compact_run(original_run.folder, tmp_path / "new")
    inputs = RunInputs(dataset="mcts_trajectories", files=(original_run.source,))
    for replaces in (False, True):
        with pytest.raises(OutputError, match="no run goes on in it") as caught:
            prepare(tmp_path / "new", MCTS, CONFIG, inputs, replace_run=replaces)
        assert "\n" not in str(caught.value) and verify_run(tmp_path / "new").is_clean
    with pytest.raises(OutputError, match="not empty"):
        compact_run(original_run.folder, tmp_path / "new")
    with pytest.raises(InvalidInput, match="no finished run"):
        compact_run(tmp_path, tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]
