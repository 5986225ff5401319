"""Cells of one's own files that are not what they look like."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from trailforge.pipelines.sources import InvalidRow, read_questions
from trailforge.schemas import Question


def read_one(folder: Path, answer: str, context: str) -> Question | InvalidRow:
    path = folder / "q.csv"
    cells = ",".join('"' + cell.replace('"', '""') + '"' for cell in ("Who?", answer, context))
    path.write_text(f"question,answer,paragraphs\n{cells}\n")
    (row,) = read_questions(path)
    return row


@pytest.mark.parametrize(
    "cell",
    ['[{"title": "Bernina line", "text": "The', '["One text.", "Two', '{"title": "A", "text"', "[{'title': 'A', "],
)
def test_a_list_that_is_cut_is_the_rows_fault(tmp_path: Path, cell: str) -> None:
    row = read_one(tmp_path, "Ann", cell)
    assert isinstance(row, InvalidRow) and row.field == "paragraphs" and "cut short" in row.problem


@pytest.mark.parametrize(
    "cell", ["[1] Smith says so.", "[[Vienna]] is a city.", "{{Infobox}} Vienna", "[Ann] left [1]"]
)
def test_a_text_in_brackets_is_a_text(tmp_path: Path, cell: str) -> None:
    row = read_one(tmp_path, "Ann", cell)
    assert isinstance(row, Question) and [paragraph.text for paragraph in row.paragraphs] == [cell]


def test_an_answer_with_a_bar_is_one_answer_and_that_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    row = read_one(tmp_path, "Graubünden|Grisons", "A text.")
    assert isinstance(row, Question) and row.answer == "Graubünden|Grisons"
    assert "other spellings are `aliases`" in caplog.text
