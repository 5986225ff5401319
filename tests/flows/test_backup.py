"""Backups: what is copied in which order, and what is refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.files import contents
from trailforge.flows.backup import LIST, back_up, restore
from trailforge.schemas import InvalidInput, OutputError


def silent(paths: Iterable[Path], what: str, total: int) -> Iterable[Path]:
    return paths


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with what is kept, and with what is not."""
    folder = tmp_path / "run"
    for name in (
        "run.json", "manifest.json", "shards/part-00000.json", "sft/part-00000.parquet", "notes.txt",
        "curation/decisions.jsonl", "progress/log.jsonl",
    ):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "ledger").mkdir()
    with closing(sqlite3.connect(folder / "ledger/calls.sqlite")) as ledger:
        ledger.execute("CREATE TABLE calls (key TEXT)")
    return folder


PASSING = (".lock", "sft/.part-00001.parquet.tmp-0123abcd", "progress/12-0123abcd.json", "ledger/calls.sqlite-wal")


def test_a_backup_holds_all_but_what_passes_and_comes_back(run: Path, tmp_path: Path) -> None:
    before = contents(run)
    for name in PASSING:
        (run / name).write_text("")
    made = back_up(run, tmp_path / "kept", shown=silent)
    assert {entry.path for entry in made.files} == before.keys()
    assert restore(tmp_path / "kept", tmp_path / "back", shown=silent) == made
    after = contents(tmp_path / "back")
    assert after.keys() == before.keys()
    assert {name for name in before if before[name] != after[name]} <= {"ledger/calls.sqlite"}
    with closing(sqlite3.connect(tmp_path / "back/ledger/calls.sqlite")) as ledger:
        assert ledger.execute("SELECT count(*) FROM calls").fetchone() == (0,)


def test_claims_are_copied_before_files_and_the_ledger_last(run: Path, tmp_path: Path) -> None:
    order: list[str] = []

    def note(paths: Iterable[Path], what: str, total: int) -> Iterable[Path]:
        for path in paths:
            order.append(path.relative_to(run).as_posix())
            yield path

    back_up(run, tmp_path / "kept", shown=note)
    assert set(order[:3]) == {"run.json", "manifest.json", "shards/part-00000.json"}
    assert order[-1] == "ledger/calls.sqlite" and len(order) == 8


def test_a_file_that_goes_meanwhile_is_left_out(run: Path, tmp_path: Path) -> None:
    def lose(paths: Iterable[Path], what: str, total: int) -> Iterable[Path]:
        for path in paths:
            if path.name == "notes.txt":
                path.unlink()
            yield path

    made = back_up(run, tmp_path / "kept", shown=lose)
    assert "notes.txt" not in {entry.path for entry in made.files}
    restore(tmp_path / "kept", tmp_path / "back", shown=silent)


def test_what_cannot_be_backed_up_is_said(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="holds no run"):
        back_up(tmp_path / "empty", tmp_path / "kept", shown=silent)
    with pytest.raises(InvalidInput, match="would lie in what it is of"):
        back_up(run, run / "kept", shown=silent)
    with pytest.raises(InvalidInput, match="no database of SQLite's that can be read"):
        back_up(run, tmp_path / "kept", prefect=tmp_path / "none.db", shown=silent)
    with pytest.raises(OutputError, match="is there already"):
        back_up(run, run.parent, shown=silent)
    assert not (tmp_path / "kept").exists() and not list(tmp_path.glob(".*"))


def test_a_damaged_backup_is_refused_and_leaves_nothing(run: Path, tmp_path: Path) -> None:
    kept, back = tmp_path / "kept", tmp_path / "back"
    back_up(run, kept, shown=silent)
    with pytest.raises(InvalidInput, match="holds no database of Prefect's"):
        restore(kept, back, prefect=tmp_path / "p.db", shown=silent)
    (kept / "notes.txt").write_text("changed")
    with pytest.raises(InvalidInput, match=r"notes\.txt.*its sha256 differs"):
        restore(kept, back, shown=silent)
    (kept / "notes.txt").unlink()
    with pytest.raises(InvalidInput, match="missing in the backup"):
        restore(kept, back, shown=silent)
    listed = json.loads((kept / LIST).read_text())
    for name in ("../run/notes.txt", "/etc/hostname"):
        (kept / LIST).write_text(json.dumps(listed | {"files": [{"path": name, "sha256": ""}]}))
        with pytest.raises(InvalidInput, match="which is not in the backup"):
            restore(kept, back, shown=silent)
    (kept / LIST).write_text("{}")
    with pytest.raises(InvalidInput, match="no backup of ours"):
        restore(kept, back, shown=silent)
    assert not back.exists()
