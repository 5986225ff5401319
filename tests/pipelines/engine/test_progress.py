"""Work that is shown in parts, and steps that are counted before anything is finished."""

from __future__ import annotations

import io
import pickle
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from trailforge.flows.execute import print_note
from trailforge.pipelines.engine import progress
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
    assert [said for _, said in told(capsys.readouterr().err)] == ["read documents 0/1,200", "embed 0/7"]


def told(text: str) -> list[tuple[datetime, str]]:
    """The lines of a file, each with its time."""
    lines = [line.split("  ", 1) for line in text.splitlines()]
    return [(datetime.fromisoformat(time), said.strip()) for time, said in lines]


def test_lines_in_a_file_say_when_and_none_is_said_twice_in_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of a night is read in the morning: when did what happen, and not that for hours nothing did."""
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 0.0)
    monkeypatch.setattr(progress, "_EVERY_S", 0.01)
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    steps, began = Steps(tmp_path), datetime.now().replace(microsecond=0)
    shards = [Shard(name="part-00000", input="inputs/0.parquet", first=0, rows=5)]
    with show_progress(tmp_path, "documents", shards, counts_items=False):
        wait_for(file, "documents 0/5")
        steps.count("read", 3, at_once=True)
        wait_for(file, "read 3")
        time.sleep(0.2)
    lines = told(file.getvalue())
    assert [said for _, said in lines] == ["documents 0/5", "documents 0/5  read 3"]
    assert all(began <= at <= datetime.now() for at, _ in lines)


def wait_for(file: io.StringIO, text: str) -> None:
    until = time.monotonic() + 60
    while text not in file.getvalue() and time.monotonic() < until:
        time.sleep(0.02)


def test_notes_of_a_run_say_when_too(capsys: pytest.CaptureFixture[str]) -> None:
    print_note("no server; trying again in 10 s")
    ((at, said),) = told(capsys.readouterr().err)
    assert said == "no server; trying again in 10 s" and abs((datetime.now() - at).total_seconds()) < 600


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
