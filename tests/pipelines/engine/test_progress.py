"""Work that is shown in parts, and steps that are counted before anything is finished."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from trailforge.pipelines.engine.progress import (
    Steps,
    describe_steps,
    read_progress,
    row_kinds,
    show_parts,
    show_progress,
)
from trailforge.pipelines.engine.shards import Shard


def test_where_no_terminal_is_a_part_says_when_it_begins_and_then_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with show_parts() as report:
        for done in range(1000):
            report("read_documents", done, 1200)
        report("embed", 0, 7)
    assert capsys.readouterr().err.splitlines() == ["read documents 0/1,200", "embed 0/7"]


def test_a_stage_without_finished_shards_shows_the_steps_of_its_items(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counted on whatever workers, and no rows."""
    steps = Steps(tmp_path)
    shards = [Shard(name="part-00000", input="inputs/0.parquet", first=0, rows=5000)]
    with show_progress(tmp_path, "documents", shards, counts_items=False):
        for _ in range(3000):
            steps.count("read")  # of which the last may wait for the next step
        pickle.loads(pickle.dumps(steps)).count("judged", 1200)
    assert "documents 0/5000  read 3,000, judged 1,200" in capsys.readouterr().err
    assert describe_steps(read_progress(tmp_path)) == "read 3,000, judged 1,200"
    assert not row_kinds(read_progress(tmp_path))


def test_steps_of_another_run_of_the_stage_begin_anew(tmp_path: Path) -> None:
    Steps(tmp_path / "first").count("read", 2)
    Steps(tmp_path / "second").count("read", 3)
    assert [describe_steps(read_progress(tmp_path / name)) for name in ("first", "second")] == ["read 2", "read 3"]
