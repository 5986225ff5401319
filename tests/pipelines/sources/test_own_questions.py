"""Questions of people's own: any file of rows, any names of columns, and what costs a field and not the row.

Forms of files as they were seen in public: pandas (`to_json(orient="table")`, `to_csv` with lists as Python), the Hub's
exports (null for what is missing), SQuAD's and NewsAPI's wrappers, DPR's and NQ-open's list `answer`.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trailforge.pipelines.sources import InvalidRow, holds_questions, read_benchmark, read_questions
from trailforge.pipelines.sources.jsonl import parse_columns
from trailforge.rows.fields import is_missing
from trailforge.rows.html_text import plain_text
from trailforge.schemas import Document, Hop, InvalidInput, Question, to_dict

Row = dict[str, Any]
MUSIQUE = {
    "id": "2hop__1",
    "question": "Who leads the country of Oslo?",
    "answer": "Ann",
    "answer_aliases": None,
    "answerable": None,
    "paragraphs": [{"idx": 0, "title": "Oslo", "paragraph_text": "Oslo is in Norway.", "is_supporting": None}],
    "question_decomposition": [{"id": 1, "question": "q", "answer": "Ann", "paragraph_support_idx": None}],
}
TWOWIKI = {"_id": "x", "question": "q?", "answer": "a", "evidences": None, "supporting_facts": None, "context": None}
PLAIN = {"question": "Where was Verdi born?", "answer": "Le Roncole"}


def as_csv(rows: list[Row], delimiter: str = ",") -> bytes:
    sink = io.StringIO()
    writer = csv.DictWriter(sink, list(dict.fromkeys(key for row in rows for key in row)), delimiter=delimiter)
    writer.writeheader()
    for row in rows:
        writer.writerow({k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in row.items()})
    return sink.getvalue().encode()


def as_parquet(rows: list[Row]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


FILES: dict[str, Callable[[list[Row]], bytes]] = {
    "lines": lambda rows: "\n".join(map(json.dumps, rows)).encode(),
    "list": lambda rows: json.dumps(rows).encode(),
    "pretty list": lambda rows: json.dumps(rows, indent=2).encode(),
    "wrapper": lambda rows: json.dumps({"version": "1", "data": rows}).encode(),
    "pretty wrapper": lambda rows: json.dumps({"data": rows, "count": len(rows)}, indent=2).encode(),
    "wrapper in a wrapper": lambda rows: json.dumps({"response": {"status": "ok", "docs": rows}}, indent=1).encode(),
    "orient=table": lambda rows: json.dumps({"schema": {"fields": [{"name": "q"}]}, "data": rows}).encode(),
    "commas": as_csv,
    "semicolons": lambda rows: as_csv(rows, ";"),
    "tabs": lambda rows: as_csv(rows, "\t"),
    "bars": lambda rows: as_csv(rows, "|"),
    "Parquet": as_parquet,
}


def written(folder: Path, content: bytes | str | Row | list[Row]) -> Path:
    if isinstance(content, dict | list):
        content = FILES["lines"](content if isinstance(content, list) else [content])
    (folder / "q").write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / "q"


def question(folder: Path, content: bytes | str | Row, columns: str = "") -> Question:
    (only,) = read_questions(written(folder, content), column_map=parse_columns(columns))
    assert isinstance(only, Question), only
    return only


_SIGNS = st.characters(exclude_categories=["C", "Z"])
_TEXTS = st.text(_SIGNS, min_size=1, max_size=8).filter(
    lambda text: not is_missing(text) and text[0] not in "[{" and plain_text(text) == text  # "&ap;" is a sign of HTML
)
_ALIASES = _TEXTS.filter(lambda text: "|" not in text)


@st.composite
def own_questions(draw: st.DrawFn, key: str) -> Question:
    answer = draw(_TEXTS)
    number = draw(st.integers(0, 2))
    return Question(
        id=key,
        question=draw(_TEXTS),
        answer=answer,
        answer_aliases=tuple(dict.fromkeys(each for each in draw(st.lists(_ALIASES, max_size=2)) if each != answer)),
        paragraphs=tuple(Document(id=str(n), title=draw(_TEXTS), text=draw(_TEXTS)) for n in range(number)),
        decomposition=(Hop(question="a?", answer="b"),) if draw(st.booleans()) else (),
        num_hops=draw(st.none() | st.integers(1, 4)),
    )


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_same_rows_read_the_same_from_every_file(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """With nulls or without what is missing; plain and packed."""
    folder = tmp_path_factory.getbasetemp()
    wanted = [data.draw(own_questions(str(n))) for n in range(data.draw(st.integers(1, 3)))]
    names = ("id", "question", "answer", "answer_aliases", "paragraphs", "decomposition", "num_hops")
    rows = [{name: value for name, value in to_dict(each).items() if name in names} for each in wanted]
    rows = [
        {**row, "paragraphs": [{k: p[k] for k in ("id", "title", "text")} for p in row["paragraphs"]] or None}
        for row in rows
    ]
    rows = [{**row, "decomposition": row["decomposition"] or None, "answer_aliases": row["answer_aliases"] or None}
            for row in rows]  # fmt: skip
    for name, write in FILES.items():
        for pack in (bytes, gzip.compress):
            assert list(read_questions(written(folder, pack(write(rows))))) == wanted, name


@pytest.mark.parametrize("write", FILES.values(), ids=FILES)
def test_columns_of_other_names(tmp_path: Path, write: Callable[[list[Row]], bytes]) -> None:
    row = {"query": "Where was Verdi born?", "key": 7, "label": "Le Roncole", "ctx": ["One.", "Two."]}
    read = question(tmp_path, write([row]), "question=query,answer=label,paragraphs=ctx,id=key")
    assert (read.id, read.answer, [each.text for each in read.paragraphs]) == ("7", "Le Roncole", ["One.", "Two."])


@pytest.mark.parametrize(
    ("names", "read"),
    [
        ({"Question": "q", "Answer": "a"}, ("q", "a")),
        ({"query": "q", "gold_answer": "a"}, ("q", "a")),
        ({"QUERY": "q", "ground_truth": "a"}, ("q", "a")),
        ({"query": "q", "Correct Answer": "a"}, ("q", "a")),
        ({"question": "q", "gold": 1969.0}, ("q", "1969")),
        ({"question": "NA", "answer": "None"}, ("NA", "None")),
    ],
)
def test_usual_names_and_texts_that_stay_what_they_are(tmp_path: Path, names: Row, read: tuple[str, str]) -> None:
    found = question(tmp_path, names)
    assert (found.question, found.answer) == read


@pytest.mark.parametrize(
    ("paragraphs", "read"),
    [
        (["One.", "Two."], [("0", "", "One."), ("1", "", "Two.")]),
        ("One.", [("0", "", "One.")]),
        ('["One.", "Two."]', [("0", "", "One."), ("1", "", "Two.")]),
        ("['One.', 'Two.']", [("0", "", "One."), ("1", "", "Two.")]),
        ([{"title": "T", "text": "One."}, None, ""], [("0", "T", "One.")]),
        ({"title": "T", "text": "One."}, [("0", "T", "One.")]),
        ([{"idx": 3, "title": "T", "paragraph_text": "One."}], [("3", "T", "One.")]),
        ([{"id": 3.0, "contents": "One.", "score": 1}], [("3", "", "One.")]),
        ([["T", ["One.", " Two."]], ["U", "Three."]], [("0", "T", "One. Two."), ("1", "U", "Three.")]),
        ({"title": ["T"], "sentences": [["One."]]}, [("0", "T", "One.")]),
        ([3, [], {"x": 1}, "One."], [("0", "", "3"), ("3", "", "One.")]),
        (None, []),
        (True, []),
    ],
)
def test_paragraphs_in_many_forms(tmp_path: Path, paragraphs: Any, read: list[tuple[str, str, str]]) -> None:
    found = question(tmp_path, {**PLAIN, "paragraphs": paragraphs})
    assert [(each.id, each.title, each.text) for each in found.paragraphs] == read


@pytest.mark.parametrize(
    ("aliases", "read"),
    [
        (["Roncole", 7, None], ("Roncole", "7")),
        ("Roncole", ("Roncole",)),
        ("Roncole | Le Roncole|Busseto", ("Roncole", "Busseto")),
        ('["Roncole", "a|b"]', ("Roncole", "a|b")),
        (1813, ("1813",)),
        (float("nan"), ()),
        ({"a": 1}, ()),
        ("nan", ()),
    ],
)
@pytest.mark.parametrize("name", ["aliases", "answer_aliases"])
def test_aliases_are_alternatives(tmp_path: Path, name: str, aliases: Any, read: tuple[str, ...]) -> None:
    assert question(tmp_path, {**PLAIN, name: aliases}).answer_aliases == read


@pytest.mark.parametrize("answer", [["A", "B"], ["A"], '["A", "B"]', "['A']", {"value": "A"}])
def test_a_list_of_answers_is_refused(tmp_path: Path, answer: Any) -> None:
    for row in ({"question": "q", "answers": answer}, {"question": "q", "answer": answer}):
        (bad,) = read_questions(written(tmp_path, row))
        assert isinstance(bad, InvalidRow) and "needed: question, answer; optional: id, aliases" in bad.problem
        is_list = not isinstance(answer, dict) or "answers" in row
        assert ("give one answer in `answer`, and further spellings of it in `aliases`" in bad.problem) == is_list
    both = question(tmp_path, {"question": "q", "answer": "A", "answers": answer})
    assert (both.answer, both.answer_aliases) == ("A", ())


@pytest.mark.parametrize(
    "row",
    [
        {"num_hops": "two"},
        {"num_hops": float("nan")},
        {"decomposition": "first this, then that"},
        {"decomposition": [{"question": "q", "answer": ""}]},
        {"decomposition": [{"question": "q"}]},
        {"supporting": "Oslo"},
        {"supporting": [{"titel": "x"}]},
        {"aliases": {"a": 1}},
        {"id": ["x"]},
        {"paragraphs": 3.5, "dataset": []},
        {"answer_id": {}},
        {"idx": 3, "level": "hard", "type": None},
    ],
)
def test_a_field_costs_itself_and_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture, row: Row) -> None:
    rows = [{**PLAIN, **row, "question": f"q{n}"} for n in range(3)]
    with caplog.at_level(logging.WARNING):
        found = list(read_questions(written(tmp_path, rows)))
    assert [each.question for each in found if isinstance(each, Question)] == ["q0", "q1", "q2"]
    said = [record.getMessage() for record in caplog.records]
    problems = [each for each in said if "left aside" in each or "not used" in each]
    nothing = all(value is None or value != value or value == 3.5 for value in row.values())
    assert len(problems) == len(set(problems)) and (nothing or problems)
    assert all(str(tmp_path / "q") in each for each in problems)


def test_columns_that_nothing_reads_are_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        list(read_questions(written(tmp_path, [{**PLAIN, "idx": 1, "le\x1bvel": 2}] * 2)))
    assert [r.getMessage() for r in caplog.records] == [f"{tmp_path / 'q'}, fields 'idx', 'le\\x1bvel': not used"]


def test_ids_are_numbers_or_come_of_what_is_asked(tmp_path: Path) -> None:
    assert question(tmp_path, {**PLAIN, "id": 12}).id == question(tmp_path, {**PLAIN, "id": 12.0}).id == "12"
    first = question(tmp_path, PLAIN).id
    assert first == question(tmp_path, {**PLAIN, "id": "nan"}).id == question(tmp_path, as_csv([PLAIN])).id
    assert first != question(tmp_path, {**PLAIN, "answer": "Busseto"}).id


@pytest.mark.parametrize("row", [MUSIQUE, TWOWIKI, {**TWOWIKI, "_id": 5}])
@pytest.mark.parametrize("write", [FILES["lines"], as_parquet, FILES["pretty wrapper"]])
def test_null_is_missing_in_published_forms(tmp_path: Path, row: Row, write: Callable[[list[Row]], bytes]) -> None:
    assert question(tmp_path, write([row])).answer == row["answer"]


@pytest.mark.parametrize(
    "row",
    [
        {"id": 3, "question": "q", "golden_answers": ["a"], "metadata": None},
        {"id": 3, "question": "q", "golden_answers": ["a"], "metadata": {"question_decomposition": None}},
        {"id": 3, "question": "q", "golden_answers": ["a"], "metadata": {"supporting_facts": None, "evidences": None}},
        {"_id": 3, "question": "q", "answer": "a", "supporting_facts": None, "context": [["T", ["s"]]]},
        {"id": 3, "question": "q", "answer": "a", "reasoning_types": None, "wiki_links": None},
        {"id": 3, "question": "q", "golden_answers": '["a"]', "metadata": "{'subj': 'x'}"},
    ],
)
def test_nulls_and_numbers_of_other_forms(tmp_path: Path, row: Row) -> None:
    assert (question(tmp_path, row).id, question(tmp_path, row).answer) == ("3", "a")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"data": [{"a": 1}], "rows": [{"b": 1}]}', "one JSON object with several lists of objects (data, rows)"),
        ('{\n "data": [\n  {"question": "q"', "the JSON object is broken or cut short"),
        ('{\n "a": 1\n}\n{\n "a": 2\n}', "the JSON object is broken or cut short (text after the end of the object"),
        ("<html></html>", "XML or HTML; expected JSON Lines, JSON, CSV, TSV or Parquet"),
    ],
)
def test_a_file_without_rows_to_tell_is_one_line(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        list(read_questions(written(tmp_path, content)))
    assert problem in str(caught.value) and caught.value.file == tmp_path / "q"


def test_a_form_that_is_not_known_is_told_the_right_one(tmp_path: Path) -> None:
    (bad,) = read_questions(written(tmp_path, {"ask": "q", "reply": "a"}))
    assert isinstance(bad, InvalidRow)
    assert bad.problem.endswith("under other names: --columns question=COLUMN,answer=COLUMN")
    with pytest.raises(InvalidInput, match="no field 'frage'; questions have question, answer, id, aliases"):
        parse_columns("frage=ask")
    with pytest.raises(InvalidInput, match="field 'nowhere': no row has this column"):
        list(read_questions(written(tmp_path, PLAIN), column_map={"id": "nowhere"}))


def test_tables_are_questions_for_whoever_asks(tmp_path: Path) -> None:
    assert holds_questions(written(tmp_path, as_csv([PLAIN])))
    assert not holds_questions(written(tmp_path, b"id,text\n1,Oslo is a city.\n"))
    assert list(read_benchmark(written(tmp_path, as_parquet([PLAIN])))) == [PLAIN["question"]]


# Options, and sets of answers

ALL_KINDS = ("text", "options", "set")


def read_kinds(tmp_path: Path, *rows: Row) -> list[Question | InvalidRow]:
    (tmp_path / "q.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return list(read_questions(tmp_path / "q.jsonl", kinds=ALL_KINDS))


@pytest.mark.parametrize(
    ("options", "answer", "letters"),
    [
        (["one", "two", "three"], "B", ("B",)),
        (["one", "two", "three"], "A, C", ("A", "C")),
        (["one", "two", "three"], ["C", "A"], ("A", "C")),
        (["one", "two", "three"], "two", ("B",)),
        (["A. one", "B. two"], ["two", "one"], ("A", "B")),
        ({"A": "one", "B": "two"}, "(B)", ("B",)),
        ('["one", "two"]', "A", ("A",)),
        (["B", "C", "A"], "unlisted", None),  # no option at all
        (["O", "A", "B"], "A", None),  # a letter or a text?
        (["one", "two"], "C", None),
        (["one"], "A", None),
        ("one or two", "A", None),
    ],
)
def test_options_are_read_with_the_letters_of_the_right_ones(
    tmp_path: Path, options: Any, answer: Any, letters: tuple[str, ...] | None
) -> None:
    (found,) = read_kinds(tmp_path, {"question": "Which?", "options": options, "answer": answer})
    if letters is None:
        assert isinstance(found, InvalidRow) and found.field in ("options", "answer")
        return
    assert isinstance(found, Question) and found.kind == "options"
    assert (found.correct_options, found.answer) == (letters, ", ".join(letters))
    assert found.question.splitlines()[:3] == ["Which?", "A. one", "B. two"]


def test_a_set_of_answers_is_read_and_needs_no_other(tmp_path: Path) -> None:
    rows = {"question": "Who?", "answer_set": ["Ada", "Grace", "Ada"]}, {"question": "Why?", "answer": "So"}
    asked, plain = read_kinds(tmp_path, rows[0], {**rows[1], "answer_set": None})
    assert isinstance(asked, Question) and isinstance(plain, Question)
    assert (asked.kind, asked.answer_set, asked.answer) == ("set", ("Ada", "Grace"), "Ada; Grace")
    assert (plain.kind, plain.answer) == ("text", "So")
    (empty,) = read_kinds(tmp_path, {"question": "Who?", "answer_set": []})
    assert isinstance(empty, InvalidRow) and empty.field == "answer"


def test_what_makes_data_takes_no_options_and_no_sets(tmp_path: Path) -> None:
    read_kinds(
        tmp_path,
        {"question": "Which?", "options": ["one", "two"], "answer": "A"},
        {"question": "Who?", "answer_set": ["Ada"]},
    )
    first, second = read_questions(tmp_path / "q.jsonl")
    assert isinstance(first, InvalidRow) and "options to choose from" in first.problem
    assert "`trailforge evaluate` and `trailforge audit` alone take" in first.problem
    assert isinstance(second, InvalidRow) and "a set of answers" in second.problem
