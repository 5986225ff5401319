"""The real command with what people get wrong: one line with file, row, field and mend, and nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.support import PRESET, ROOT, Ended, leftovers, trailforge
from tests.support import world
from tests.support.model_server import running, stats
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.pipelines.dataset import LEDGER
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import Manifest, RejectedRow, Trajectory, from_dict, read_parquet, read_rows, to_dict

NOBODY = "http://127.0.0.1:9/v1"
"""The discard port: nothing answers."""


@dataclass(frozen=True)
class Lab:
    """A folder with a preset, and a model server."""

    folder: Path
    model: str

    @property
    def preset(self) -> Path:
        return self.folder / "preset.yaml"

    def make(self, questions: Path, out: Path, *more: object, model: str | None = None) -> Ended:
        """`trailforge mcts-trajectories`; `more` comes last and so wins."""
        return trailforge(
            *("mcts-trajectories", "--questions", questions, "--out", out, "--preset", self.preset),
            *("--model", model or self.model, *more),
        )


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "preset.yaml").write_text(PRESET)
    with running() as model:
        yield Lab(folder, model)


def question(number: int, **changes: Any) -> dict[str, Any]:
    return to_dict(world.question(number, 2)) | changes


def rows_file(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def manifest_of(folder: Path) -> Manifest:
    return from_dict(Manifest, json.loads((folder / "manifest.json").read_text()))


def uids(folder: Path) -> list[str]:
    return [row.uid for row in read_rows(sorted((folder / "mcts_trajectories").glob("*.parquet")), Trajectory)]


def kept_calls(folder: Path) -> int:
    ledger = SqliteLedger(folder / LEDGER)
    try:
        return ledger.entries()
    finally:
        ledger.close()


@dataclass(frozen=True)
class Made:
    """The run that the other tests look at: 40 questions, of which the seventh is no JSON."""

    source: Path
    out: Path
    ended: Ended
    calls: float
    """That the model server got."""


@pytest.fixture(scope="module")
def made(lab: Lab) -> Made:
    rows: list[Any] = [question(n) for n in range(40)]
    rows[6] = json.dumps(rows[6])[:50]
    source = rows_file(lab.folder / "forty.jsonl", rows)
    before = stats(lab.model)["calls"]
    ended = lab.make(source, lab.folder / "made")
    return Made(source, lab.folder / "made", ended, stats(lab.model)["calls"] - before)


def test_one_broken_line_in_forty_is_put_aside_and_the_run_goes_on(made: Made) -> None:
    assert made.ended.code == 0, made.ended.err
    assert made.ended.err.count("error") == 0 and "Traceback" not in made.ended.err
    (row,) = read_parquet(made.out / "rejected" / "part-inputs.parquet", RejectedRow)
    assert (row.uid, row.stage, row.reason) == (f"{made.source}:7", "read", "invalid_input")
    assert row.payload == made.source.read_text().splitlines()[6]
    read = manifest_of(made.out).stages[0]
    assert (read.inputs, read.accepted, [(c.reason, c.count) for c in read.rejected]) == (
        40,
        39,
        [("invalid_input", 1)],
    )
    assert uids(made.out) and verify_run(made.out).problems == []
    assert not [path for path in made.out.rglob("*") if ".tmp-" in path.name or path.name == ".intake"]


def test_a_folder_of_another_run_is_refused_and_stays_as_it_is(lab: Lab, made: Made, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in made.out.rglob("*") if path.is_file()}
    ended = lab.make(made.source, made.out, "--seed", 5)
    assert ended.code == 9
    assert ended.error_line.startswith(
        f"error: {made.out} holds a run with other settings (seed: 0 -> 5); give another"
    )
    assert "--replace" in ended.error_line
    other = rows_file(tmp_path / "other.jsonl", ["broken", *(question(n) for n in range(100, 130))])
    ended = lab.make(other, made.out)
    assert ended.code == 9
    assert ended.error_line.startswith(f"error: {made.out} holds a run with other input; give another --out")
    assert {path: path.read_bytes() for path in made.out.rglob("*") if path.is_file()} == before
    assert verify_run(made.out).problems == []


def test_the_same_command_on_a_finished_run_does_nothing_again(lab: Lab, made: Made) -> None:
    """Also when it spells the path in another way, which rejected rows hold."""
    before = {path: path.read_bytes() for path in made.out.rglob("*") if path.is_file()}
    ended = lab.make(Path(os.path.relpath(made.source, ROOT)), made.out, model=NOBODY)
    assert (ended.code, ended.err) == (0, "")
    assert {path: path.read_bytes() for path in made.out.rglob("*") if path.is_file()} == before


def test_an_unusable_file_with_replace_does_not_cost_the_run_that_is_there(
    lab: Lab, made: Made, tmp_path: Path
) -> None:
    shutil.copytree(made.out, tmp_path / "run")
    bad = rows_file(tmp_path / "bad.jsonl", ["broken"])
    ended = lab.make(bad, tmp_path / "run", "--seed", 5, "--replace")
    assert ended.code == 2 and ended.error_line.startswith(f"error: {bad}, row 1: not JSON")
    assert verify_run(tmp_path / "run").problems == []
    assert uids(tmp_path / "run") == uids(made.out)


def test_replace_drops_the_rows_of_the_other_run_and_keeps_what_was_paid(lab: Lab, made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.out, tmp_path / "run")
    few = rows_file(tmp_path / "few.jsonl", [question(n) for n in range(6)])
    before = stats(lab.model)["calls"]
    ended = lab.make(few, tmp_path / "run", "--replace")
    assert ended.code == 0, ended.err
    assert verify_run(tmp_path / "run").problems == []
    assert {f.rows for f in manifest_of(tmp_path / "run").files if f.path.startswith("inputs/")} == {6}
    new = stats(lab.model)["calls"] - before
    assert kept_calls(tmp_path / "run") == made.calls + new and new < 6 * made.calls / 39


def _without_answer() -> Any:
    row = question(0)
    del row["answer"]
    return row


def _forward_reference() -> Any:
    row = question(0)
    row["decomposition"][0]["question"] = "What is the patron of #2?"
    return row


def _musique(*paragraphs: Any) -> Any:
    hop = {"question": "Who?", "answer": "a", "paragraph_support_idx": None}
    row = {"id": "m", "question": "Who?", "answer": "a", "question_decomposition": [hop]}
    return row | {"paragraphs": list(paragraphs)}


@pytest.mark.parametrize(
    ("first", "row", "field", "problem"),
    [
        (question(7), '{"id": "x", "question": ', None, "not JSON (Expecting value"),
        (question(7), _without_answer(), "answer", "no answer"),
        (question(7), question(0, answer=" "), "answer", "empty"),
        (
            question(7),
            _forward_reference(),
            "decomposition[0].question",
            "hop 1 refers to #2, which is not an earlier hop",
        ),
        (_musique({"idx": 0, "title": "t", "paragraph_text": "x"}), _musique(), "paragraphs", "empty list"),
        (
            question(7),
            question(0, paragraphs=[], decomposition=[]),
            "paragraphs",
            "or give one corpus for all questions (--documents)",
        ),
    ],
    ids=[
        "broken line",
        "no answer",
        "empty answer",
        "forward reference",
        "no paragraphs in MuSiQue",
        "no paragraphs in our form",
    ],
)
def test_a_row_that_cannot_be_used_is_named_with_file_row_and_field(
    lab: Lab, tmp_path: Path, first: Any, row: Any, field: str | None, problem: str
) -> None:
    """The first row shows the format, the second is an empty line."""
    source, out = rows_file(tmp_path / "q.jsonl", [first, "", row]), tmp_path / "run"
    ended = lab.make(source, out)
    assert ended.code == 2
    where = f"{source}, row 3, field {field!r}: " if field else f"{source}, row 3: "
    assert ended.error_line.startswith(f"error: {where}") and problem in ended.error_line
    assert "1 of 2 rows are invalid" in ended.error_line
    assert leftovers(out) == [] and ended.out == ""


def test_a_column_that_is_not_read_is_said_once_where_the_user_looks(lab: Lab, tmp_path: Path) -> None:
    rows = rows_file(tmp_path / "q.jsonl", [question(8) | {"level": "easy"}, question(9) | {"level": "hard"}])
    ended = lab.make(rows, tmp_path / "out")
    assert ended.code == 0 and ended.err.count(f"{rows}, field 'level': not used\n") == 1


def test_a_missing_questions_file_is_named(lab: Lab, tmp_path: Path) -> None:
    ended = lab.make(tmp_path / "none.jsonl", tmp_path / "run")
    assert (ended.code, ended.error_line) == (2, f"error: {tmp_path}/none.jsonl: no such file")
    assert leftovers(tmp_path) == []


def test_an_unknown_preset_gets_the_list_of_presets_and_no_process_stays_behind(tmp_path: Path) -> None:
    """Without the shared Prefect server: the one that the command starts would hold its output open."""
    source = rows_file(tmp_path / "q.jsonl", [question(0)])
    ended = trailforge(
        *("mcts-trajectories", "--questions", source, "--out", tmp_path / "run", "--preset", "nope"), timeout_s=60
    )
    assert ended.code == 2
    assert (
        ended.error_line
        == "error: no preset 'nope'; there are demo, gold-first, msearcher, tree-search, or give a .yaml file"
    )
    assert not (tmp_path / "run").exists()


def test_a_model_server_that_is_not_there_is_named_and_the_run_can_go_on(lab: Lab, tmp_path: Path) -> None:
    source, out = rows_file(tmp_path / "q.jsonl", [question(n) for n in range(3)]), tmp_path / "run"
    ended = lab.make(source, out, model=NOBODY)
    assert ended.code == 4
    assert ended.error_line == (
        f"error: model server {NOBODY}: nothing answers; start it (or use --model embedded), "
        "then run the same command again"
    )
    assert leftovers(out) == []
    ended = lab.make(source, out)
    assert ended.code == 0, ended.err
    assert verify_run(out).problems == []


def test_a_file_where_the_folder_should_be_is_named(lab: Lab, made: Made, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    ended = lab.make(made.source, tmp_path / "run")
    assert ended.code == 9
    mend = "a file of that name is in the way; give another --out"
    assert ended.error_line == f"error: cannot write {tmp_path}/run: {mend}"
    assert (tmp_path / "run").read_text() == "a file"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system in memory with these options; again, to change them. Skips where that is not allowed."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    mounts = 0

    def mount(options: str) -> Path:
        nonlocal mounts
        remount = f"remount,{options}" if mounts else options
        if os.geteuid() != 0 or shutil.which("mount") is None:
            pytest.skip("only root can mount a file system")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", remount, "tmpfs", str(folder)], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"cannot mount a file system here: {done.stderr.strip()}")
        mounts += 1
        return folder

    yield mount
    if mounts:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_read_only_folder_is_named(lab: Lab, made: Made, mounted: Callable[[str], Path]) -> None:
    folder = mounted("ro,size=1m")
    ended = lab.make(made.source, folder / "run")
    assert ended.code == 9
    assert ended.error_line == f"error: cannot write {folder}/run: the file system is read-only; give another --out"


def test_a_read_only_folder_of_a_finished_run_can_still_be_verified_and_shown(
    lab: Lab, made: Made, mounted: Callable[[str], Path]
) -> None:
    folder = mounted("size=8m")
    shutil.copytree(made.out, folder / "run")
    mounted("ro")
    verified = trailforge("verify", folder / "run")
    assert (verified.code, verified.err) == (0, "") and "all as the manifest says" in verified.out
    shown = trailforge("show", folder / "run", "--tree")
    assert (shown.code, shown.err) == (0, "") and "stopped:" in shown.out


def test_a_run_on_a_full_disk_stops_and_goes_on_when_there_is_room(
    lab: Lab, made: Made, mounted: Callable[[str], Path]
) -> None:
    folder = mounted("size=4m")
    before = stats(lab.model)["calls"]
    ended = lab.make(made.source, folder / "run")
    paid = stats(lab.model)["calls"] - before
    assert 0 < paid < made.calls
    assert ended.code == 9
    assert ended.error_line.startswith("error: cannot ")
    assert str(folder / "run") in ended.error_line
    assert "free some space and run the same command again" in ended.error_line
    assert leftovers(folder) == []
    mounted("size=64m")
    kept = kept_calls(folder / "run")
    assert 0 < kept <= paid
    ended = lab.make(made.source, folder / "run")
    assert ended.code == 0, ended.err
    assert stats(lab.model)["calls"] - before - paid == made.calls - kept, "a call that was kept is paid once"
    assert verify_run(folder / "run").problems == []
    assert uids(folder / "run") == uids(made.out)
    assert manifest_of(folder / "run").stages == manifest_of(made.out).stages
