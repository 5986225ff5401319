"""Rows, columns, samples and searches of a table are those that reading all of it gives."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.graph_questions import question as kg_question
from tests.support.rows import trajectory
from trailforge.pipelines.runs.table_index import TableIndex, tables_of
from trailforge.schemas import (
    FilterScore,
    InvalidInput,
    KgQuestion,
    Question,
    RejectedRow,
    Trajectory,
    to_dict,
    write_parquet,
)


def question(number: int, **changes: object) -> Question:
    return Question(**{"id": f"q{number}", "question": f"Who is {number}?", "answer": "A", **changes})  # type: ignore[arg-type]


def write(folder: Path, table: str, record: type, *files: Sequence[object]) -> None:
    for number, rows in enumerate(files):
        (folder / table).mkdir(parents=True, exist_ok=True)
        write_parquet(folder / table / f"part-{number:05d}.parquet", record, rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,310 questions in three files of one to three row groups."""
    made = tmp_path_factory.mktemp("run")
    rows = [question(n, answer_aliases=("Ünïque",) if n in (7, 1207) else ()) for n in range(1310)]
    write(made, "inputs", Question, rows[:1200], rows[1200:1210], rows[1210:])
    return made


def test_each_row_has_its_number(folder: Path) -> None:
    index = TableIndex(folder, "inputs")
    assert len(index) == 1310
    for number in (0, 499, 500, 1199, 1200, 1209, 1210, 1309, 3):
        assert index.row(number) == to_dict(question(number, answer_aliases=("Ünïque",) if number == 1207 else ()))
        assert index.find(f"q{number}", "id") == number
    assert index.find("q1310", "id") is None
    for number in (-1, 1310):
        with pytest.raises(IndexError):
            index.row(number)


def test_columns_are_selected_of_all_rows_or_of_some(folder: Path) -> None:
    index = TableIndex(folder, "inputs")
    assert index.select(["id"])["id"].to_pylist() == [f"q{number}" for number in range(1310)]
    some = index.select(["question"], ("id", ["q1209", "q3", "none"]))
    assert some.to_pylist() == [{"question": "Who is 3?"}, {"question": "Who is 1209?"}]
    assert index.select(["id"], ("id", [])).num_rows == 0
    with pytest.raises(InvalidInput, match="no such column"):
        index.select(["nothing"])


def test_opening_reads_no_file_that_the_manifest_counts(folder: Path, tmp_path: Path) -> None:
    write(tmp_path, "inputs", Question, [question(0)])
    for number in range(1, 4):
        (tmp_path / "inputs" / f"part-{number:05d}.parquet").write_text("never read")
    files = [{"path": f"inputs/part-{number:05d}.parquet", "rows": 1} for number in range(4)]
    (tmp_path / "manifest.json").write_text(json.dumps({"files": files}))
    index = TableIndex(tmp_path, "inputs")
    assert len(index) == 4 and index.row(0)["id"] == "q0"
    with pytest.raises(InvalidInput, match="not a readable Parquet file"):
        index.row(2)


def test_a_search_finds_text_at_any_depth_and_goes_on_where_it_stopped(folder: Path) -> None:
    index = TableIndex(folder, "inputs")
    assert index.search("üNÏQUE").rows == (7, 1207)
    assert index.search('"who is 12"').rows == (12, *range(120, 130), *range(1200, 1300))[:100]
    assert not index.search("nowhere").rows
    found, first = [], 0
    while True:
        part = index.search('"who is 13"', first=first, count=7)
        found += part.rows
        assert len(part.rows) <= 7
        if part.is_complete:
            break
        first = part.searched
    assert found == [13, *range(130, 140), *range(1300, 1310)]


def test_a_search_without_time_reads_one_row_group(folder: Path) -> None:
    part = TableIndex(folder, "inputs").search("Ünïque", seconds=0.0)
    assert (part.rows, part.searched, part.is_complete) == ((7,), 500, False)
    rest = TableIndex(folder, "inputs").search("Ünïque", first=part.searched)
    assert (rest.rows, rest.is_complete) == ((1207,), True)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_a_random_order_has_each_row_once_and_follows_its_seed(folder: Path, seed: int) -> None:
    index = TableIndex(folder, "inputs")
    rows = index.shuffled(seed).tolist()
    assert sorted(rows) == list(range(1310)) != rows
    assert rows == index.shuffled(seed).tolist() != index.shuffled(seed + 1).tolist()


def scored(**passed_and_score: tuple[bool, float]) -> KgQuestion:
    scores = tuple(FilterScore(name=name, score=s, passed=p) for name, (p, s) in passed_and_score.items())
    return kg_question(filters=scores)


def test_lowest_scores_of_columns_parts_and_filters(tmp_path: Path) -> None:
    rows = [scored(a=(True, 0.5), b=(True, 1.0)), scored(a=(True, 0.25)), scored(b=(True, 0.0)), scored()]
    write(tmp_path, "kg_questions", KgQuestion, rows[:2], rows[2:])
    index = TableIndex(tmp_path, "kg_questions")
    assert index.ascending("filters.a").tolist() == [1, 0] and index.ascending("filters.b").tolist() == [2, 0]
    values = index.values("filters.a")
    assert values[:2].tolist() == [0.5, 0.25] and all(math.isnan(value) for value in values[2:])
    assert index.values("hops").tolist() == [row.hops for row in rows]
    assert index.values("provenance.seed").tolist() == [row.provenance.seed for row in rows]
    for path in ("question", "nothing", "provenance.nothing", "filters"):
        with pytest.raises(InvalidInput):
            index.values(path)


def test_rows_over_which_filters_are_divided(tmp_path: Path) -> None:
    yes, no = (True, 1.0), (False, 0.0)
    even, most, agreed = scored(a=yes, b=no), scored(a=yes, b=yes, c=no), scored(a=no, b=no)
    write(tmp_path, "kg_questions", KgQuestion, [agreed, most, scored(), even, scored(a=yes)])
    assert TableIndex(tmp_path, "kg_questions").disputed().tolist() == [3, 1]
    payloads = [json.dumps(to_dict(row)) for row in (most, agreed, even)] + ["{", '{"filters": 3}', "{}"]
    rejected = [RejectedRow(uid="u", stage="s", reason="r", score=0.0, detail="", payload=text) for text in payloads]
    write(tmp_path, "rejected", RejectedRow, rejected)
    index = TableIndex(tmp_path, "rejected")
    assert index.disputed().tolist() == [2, 0]
    assert index.matching("reason", "r") == list(range(6)) and index.matching("reason", "s") == []
    assert tables_of(tmp_path) == ["kg_questions", "rejected"]


def test_what_cannot_be_read_is_said(folder: Path) -> None:
    index = TableIndex(folder, "inputs")
    with pytest.raises(InvalidInput, match="no table 'trees'; it has inputs"):
        TableIndex(folder, "trees")
    with pytest.raises(InvalidInput, match="no such column"):
        index.matching("kind", "x")
    assert not len(index.disputed())
    with pytest.raises(InvalidInput, match="nothing to search for"):
        index.search(" ")


def test_only_a_few_row_groups_stay_in_memory(folder: Path) -> None:
    index = TableIndex(folder, "inputs")
    for number in (0, 500, 1000, 1200, 1210, 0):
        index.row(number)
    assert len(index._groups) == 4
    assert pq.ParquetFile(folder / "inputs" / "part-00000.parquet").num_row_groups == 3


def test_many_uids_are_found_in_one_reading(folder: Path) -> None:
    index = TableIndex(folder, "inputs")
    assert index.find_all({"q0", "q1199", "q1309", "nobody"}, "id") == {"q0": 0, "q1199": 1199, "q1309": 1309}
    assert index.find_all(set(), "id") == {}


def test_values_are_counted(tmp_path: Path) -> None:
    rows = [
        RejectedRow(uid=str(n), stage="s", reason="ab"[n % 2], score=0.0, detail="", payload=payload)
        for n, payload in enumerate(['{"kind": "x"}', '{"kind": "x", "y": "z"}', '{"kind": null}', "[1]", "no JSON"])
    ]
    write(tmp_path, "rejected", RejectedRow, rows[:2], rows[2:])
    index = TableIndex(tmp_path, "rejected")
    assert index.counts(["stage", "reason"])["reason"] == {"a": 3, "b": 2}
    assert index.json_texts("payload", ["kind"], among={"kind", "y"}) == [("x",), ("x",)]
    assert index.json_texts("payload", ["kind", "y"], among={"kind", "y"}) == [("x", "z")]
    assert index.json_texts("payload", ["kind"], among={"kind"}) == [("x",)]
    assert index.numbers() == ["score"]


def test_numbers_and_counts_are_read_ahead_in_one_reading_of_their_own_parts(tmp_path: Path) -> None:
    rows = [trajectory(uid=f"u{n}", reward=replace(trajectory().reward, total=n / 4)) for n in range(3)]
    write(tmp_path, "mcts_trajectories", Trajectory, rows)
    index = TableIndex(tmp_path, "mcts_trajectories")
    index.read_ahead(["reward.total", "num_hops"], ["kind", "origin"])
    for path in (tmp_path / "mcts_trajectories").iterdir():
        path.unlink()  # nothing is read again
    assert index.values("reward.total").tolist() == [0.0, 0.25, 0.5] and index.values("num_hops").tolist() == [2] * 3
    assert index.counts(["kind", "origin"]) == {"kind": {"correct": 3}, "origin": {rows[0].origin: 3}}
    some = index.search("reward.total>0.2 hops=2", count=1)
    assert (some.rows, some.searched, some.is_complete) == ((1,), 2, False)
    assert index.search("reward.total>0.2", first=some.searched).rows == (2,)
    with pytest.raises(InvalidInput, match="not a readable"):
        index.values("reward.f1")


def test_who_wants_what_another_reads_waits_for_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, begun, may_end = TableIndex(folder, "inputs"), threading.Event(), threading.Event()
    readings, read = [], index._batches

    def read_slowly(columns: Sequence[str], first: int = 0) -> Iterator[tuple[int, pa.RecordBatch]]:
        readings.append(columns)
        begun.set()
        assert may_end.wait(timeout=60)
        yield from read(columns, first)

    monkeypatch.setattr(index, "_batches", read_slowly)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(index.counts, ["question"])
        assert begun.wait(timeout=60)
        second = threads.submit(index.counts, ["question"])
        may_end.set()
        assert first.result() == second.result() and readings.count(["question"]) == 1


def test_what_filters_measured_is_a_number_of_a_row(tmp_path: Path) -> None:
    row = kg_question()
    write(tmp_path, "kg_questions", KgQuestion, [row])
    numbers = TableIndex(tmp_path, "kg_questions").numbers()
    assert {"hops", "num_answers", "provenance.seed"} <= set(numbers)
    assert {name for name in numbers if name.startswith("filters.")} == {f"filters.{each.name}" for each in row.filters}
