"""`trailforge kg-questions` on the packaged model and the sample graph, as a person runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.support import Made, trailforge
from tests.support.files import contents
from trailforge.pipelines.sources import read_questions
from trailforge.schemas import KgQuestion, Question, read_rows


@pytest.mark.slow
def test_questions_of_the_sample_graph(demo_kg_questions: Made) -> None:
    out, command = demo_kg_questions.out, demo_kg_questions.command
    rows = list(read_rows(sorted((out / "kg_questions").glob("*.parquet")), KgQuestion))
    assert rows and str(out / "questions.jsonl") in demo_kg_questions.printed
    for row in rows:
        assert (row.num_answers, row.as_of, row.writer) == (1, "2026", "templates") and row.fewest_left > 1
        assert all(score.passed for score in row.filters)
    read = list(read_questions(out / "questions.jsonl"))
    assert [(q.id, q.answer) for q in read if isinstance(q, Question)] == [(row.uid, row.answer) for row in rows]
    before = contents(out)
    assert trailforge(*command, timeout_s=60).code == 0 and contents(out) == before
    assert trailforge("verify", out, timeout_s=60).code == 0
    assert rows[0].uid in trailforge("show", out, timeout_s=60).out


def test_a_graph_and_a_date_that_are_none_are_refused(sample_graph: Path, tmp_path: Path) -> None:
    command = ("kg-questions", "--preset", "demo", "--out", tmp_path / "run")
    ended = trailforge(*command, timeout_s=60)
    assert ended.code == 2 and "give --kg, a folder that `trailforge kg build` made" in ended.error_line
    ended = trailforge(*command, "--kg", sample_graph, "--as-of", "last year", timeout_s=60)
    assert ended.code == 2 and "'last year' is no date" in ended.error_line
    assert not (tmp_path / "run").exists()
