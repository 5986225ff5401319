"""Notes of workers' errors: the first in time is the one that is raised, whatever else lies there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.pipelines.engine import worker_errors
from trailforge.pipelines.engine.worker_errors import ERRORS, clear_errors, note_error, noted_error, read_notes
from trailforge.schemas import BudgetExceeded, ClusterError, InvalidInput, OutputError, TrailforgeError


def note(folder: Path, name: str, content: str) -> None:
    (folder / ERRORS).mkdir(exist_ok=True)
    (folder / ERRORS / f"{name}.json").write_text(content)


def of(kind: str, message: str, at: int) -> str:
    return json.dumps({"class": kind, "message": message, "at": at})


def test_the_first_error_of_this_process_is_raised_and_not_the_last(tmp_path: Path) -> None:
    for error in (OutputError("the disk is full"), ClusterError("the rest fell over")):
        note_error(tmp_path, error)
    assert str(noted_error(tmp_path)) == "the disk is full"
    found = noted_error(tmp_path)  # that of memory is told; what is left are the notes
    assert isinstance(found, OutputError) and str(found) == "the disk is full"


@given(st.permutations(["0a0a0a0a", "1b1b1b1b", "2c2c2c2c", "ffffffff"]))
def test_of_notes_of_other_processes_the_earliest_is_first(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    for at, name in enumerate(names):
        note(folder, name, of("BudgetExceeded", f"number {at}", 10**18 + at))
    found = noted_error(folder)
    assert isinstance(found, BudgetExceeded) and str(found) == "number 0"


@pytest.mark.parametrize("text", ["", '{"class": "Output', "[]", "5", '{"message": "x"}', "[" * 200_000])
def test_a_note_that_is_half_there_hides_no_other(tmp_path: Path, text: str) -> None:
    note(tmp_path, "00000000", text)
    assert noted_error(tmp_path) is None
    note(tmp_path, "11111111", of("InvalidInput", "row 5: wrong", 7))
    found = noted_error(tmp_path)
    assert isinstance(found, InvalidInput) and str(found) == "row 5: wrong"


@pytest.mark.parametrize("kind", ["ITEM_ERRORS", "Exception", "annotations", "NoSuchError"])
def test_a_class_that_is_no_error_of_ours_becomes_the_base_of_them(tmp_path: Path, kind: str) -> None:
    note(tmp_path, "00000000", of(kind, "x", 1))
    assert [type(error) for error in read_notes(tmp_path)] == [TrailforgeError]


def test_only_notes_are_cleared(tmp_path: Path) -> None:
    note_error(tmp_path, OutputError("x"))
    note(tmp_path, "mine", "{}")
    clear_errors(tmp_path)
    assert [path.name for path in (tmp_path / ERRORS).iterdir()] == ["mine.json"]
    assert noted_error(tmp_path) is None and tmp_path not in worker_errors._errors_here
