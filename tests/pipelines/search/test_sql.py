"""SQL over a run's tables: what is asked is answered, what is wrong is one line, and nothing else can be read or
written."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("duckdb")

from tests.support.finished_runs import mcts_rows, mcts_run, question
from trailforge.pipelines.search.sql import answer_sql, write_answer
from trailforge.schemas import InvalidInput


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    asked = [question(number) for number in range(6)]
    return mcts_run(tmp_path_factory.mktemp("sql") / "it's a run", asked, [row for q in asked for row in mcts_rows(q)])


def rows(run: Path, query: str) -> list[dict]:
    return answer_sql(run, query).read_all().to_pylist()


def test_each_table_is_a_view_over_all_its_files(run: Path) -> None:
    assert len(list((run / "inputs").glob("*.parquet"))) == 2
    assert rows(run, "SELECT count(*) AS n FROM inputs") == [{"n": 6}]
    assert {"name": "sft"} in rows(run, "SHOW TABLES")
    joined = (
        "SELECT count(DISTINCT i.id) AS n FROM inputs i JOIN sft s ON s.question_id = i.id WHERE s.reward.total >= 0"
    )
    assert rows(run, joined) == [{"n": 6}]


@pytest.mark.parametrize(
    "query",
    [
        "SELEC 1",
        "SELECT nothing FROM inputs",
        "SELECT * FROM nowhere",
        "",
        "SELECT 1; SELECT 2",
        "DROP VIEW inputs",
        "CREATE TABLE t (a INT)",
        "COPY inputs TO '{run}/stolen.csv'",
        "SET enable_external_access = true",
        "ATTACH '{run}/new.db'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('{run}/../other.txt')",
        "SELECT * FROM 'https://example.com/a.parquet'",
        "SELECT CAST(id AS INT) FROM inputs",
    ],
)
def test_what_is_no_query_of_these_tables_is_refused_in_one_line(run: Path, query: str) -> None:
    (run.parent / "other.txt").write_text("secret")
    before = sorted(run.rglob("*"))
    with pytest.raises(InvalidInput) as caught:
        write_answer(answer_sql(run, query.format(run=str(run).replace("'", "''"))), "jsonl", run.parent / "out")
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)
    assert sorted(run.rglob("*")) == before and not (run.parent / "out").exists()


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no tables"):
        answer_sql(tmp_path, "SELECT 1")


def test_rows_are_written_in_each_format(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT id, answer_aliases FROM inputs ORDER BY id"
    expected = rows(run, query)
    paths = {form: tmp_path / f"rows.{form}" for form in ("csv", "jsonl", "parquet")}
    for form, path in paths.items():
        assert write_answer(answer_sql(run, query), form, path) == 6
    assert [json.loads(line) for line in paths["jsonl"].read_text().splitlines()] == expected
    assert pq.read_table(paths["parquet"]).to_pylist() == expected
    with paths["csv"].open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [{**row, "answer_aliases": json.loads(row["answer_aliases"])} for row in found] == expected
    assert write_answer(answer_sql(run, "FROM range(150)"), "table", None) == 150
    assert "the first 100 of 150 rows" in capsys.readouterr().out
    with pytest.raises(InvalidInput, match="--out"):
        write_answer(answer_sql(run, query), "parquet", None)
