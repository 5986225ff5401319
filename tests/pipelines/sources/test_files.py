"""Files: gzip, lists, broken lines, and what cannot be read at all."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trailforge.pipelines.sources import InvalidRow, read_questions
from trailforge.rows import JsonRow, json_rows, read_rows
from trailforge.schemas import InvalidInput, Question, files

QUESTIONS = [{"id": str(n), "question": f"q{n} ü", "answer": "a"} for n in range(5)]
LINES = "\n".join(json.dumps(row, ensure_ascii=False) for row in QUESTIONS)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NAMES = [
    *("id", "_id", "question", "answer", "answer_aliases", "answerable", "paragraphs", "question_decomposition"),
    *("context", "evidences", "supporting_facts", "decomposition", "idx", "title", "sentences", "paragraph_text"),
]
ROWS = st.dictionaries(st.sampled_from(NAMES), JSON_VALUES | st.just("a"), max_size=len(NAMES))


def ids(path: Path, **options: Any) -> list[str]:
    """Ids of the questions, `!row` for invalid rows."""
    return [row.id if isinstance(row, Question) else f"!{row.row}" for row in read_questions(path, **options)]


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        LINES,
        LINES + "\n\n  \n",
        LINES.replace("\n", "\r\n"),
        "\ufeff" + LINES,
        json.dumps(QUESTIONS),
        json.dumps(QUESTIONS, indent=1) + "\n",
        "\ufeff \n" + json.dumps(QUESTIONS),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines_and_lists_plain_and_packed(tmp_path: Path, content: str, pack: Any) -> None:
    """The file's name says nothing: gzip is known by its first bytes."""
    assert ids(written(tmp_path / "rows.txt", pack(content.encode()))) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("content", ["", "\n \n", "[]", " [ ] "])
def test_an_empty_file_holds_nothing(tmp_path: Path, content: str) -> None:
    assert ids(written(tmp_path / "rows", content)) == []


def test_limit_counts_questions(tmp_path: Path) -> None:
    path = written(tmp_path / "rows", "broken\n" + LINES)
    assert ids(path, limit=2) == ["!1", "0", "1"]
    assert ids(path, limit=0) == []


def test_a_list_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of a piece: rows, numbers and separators may fall on its edge."""
    path = written(tmp_path / "rows", json.dumps([1, *QUESTIONS, 23, True], indent=1))
    for chunk in range(1, 40):
        monkeypatch.setattr(json_rows, "_CHUNK", chunk)
        found = [row.value if isinstance(row, JsonRow) else None for row in read_rows(path)]
        assert found == [1, *QUESTIONS, 23, True]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"id": "1",', "not JSON (Expecting property name"),
        (b'{"id": "\xff"}', "not UTF-8 text"),
        (b"[" * 100_000, "not JSON (it is nested too deeply)"),
        (b"[" * 103 + b"]" * 103, "not JSON (it is nested more than 100 levels deep)"),
        (b"1" * 5_000, "not JSON (Exceeds the limit"),
        (b'{"id": "1", "question": "\\ud800", "answer": "a"}', "holds half a surrogate pair"),
    ],
)
def test_a_broken_line_is_an_invalid_row_and_the_next_is_read(tmp_path: Path, line: bytes, problem: str) -> None:
    path = written(tmp_path / "rows", LINES.encode() + b"\n" + line + b'\n{"id": "9", "question": "q", "answer": "a"}')
    found = list(read_questions(path))
    assert ids(path) == ["0", "1", "2", "3", "4", "!6", "9"]
    bad = found[5]
    assert isinstance(bad, InvalidRow) and bad.field == ("question" if "surrogate" in problem else None)
    assert bad.problem.startswith(problem)
    assert bad.payload == line.decode(errors="replace")


def test_a_line_that_is_too_long_is_an_invalid_row_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_ROW", 10_000)
    path = written(tmp_path / "rows", gzip.compress(b'{"id": "%s\n%s' % (b"a" * 1_000_000, LINES.encode())))
    bad, *others = read_questions(path)
    assert isinstance(bad, InvalidRow) and bad.problem.startswith("longer than") and bad.row == 1
    assert len(bad.payload) == 1000
    assert len(others) == 5


def test_an_element_that_is_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "LONGEST_ROW", 10_000)
    monkeypatch.setattr(json_rows, "_CHUNK", 100)
    for end in (b"", b'"]'):
        path = written(tmp_path / "rows", b"[" + LINES.encode().replace(b"\n", b",") + b', "' + b"a" * 20_000 + end)
        with pytest.raises(InvalidInput, match=r"row 6: the JSON list is broken or cut short here \(longer than"):
            list(read_questions(path))


def test_a_deep_element_is_an_invalid_row_and_the_next_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path / "rows", b"[" + b"[" * 500 + b"]" * 500 + b"," + LINES.encode().replace(b"\n", b",") + b"]"
    )
    assert ids(path) == ["!1", "0", "1", "2", "3", "4"]


def test_a_whole_surrogate_pair_is_text(tmp_path: Path) -> None:
    path = written(tmp_path / "rows", '{"id": "1", "question": "\\ud83d\\ude00", "answer": "a"}')
    (question,) = read_questions(path)
    assert isinstance(question, Question) and question.question == "😀"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x00\x01", "not UTF-8 text"),
        (b"PAR1\x15\x04\x15\x00", "the Parquet file is damaged"),
        (b"\xff\xd8\xff\xe0", "not UTF-8 text"),
        (LINES.encode("utf-16"), "not UTF-8 text"),
        (gzip.compress(LINES.encode() * 50)[:-20], "the gzip file is cut short"),
        (gzip.compress(b"\x00\x01"), "not UTF-8 text"),
        (gzip.compress(LINES.encode())[:-8] + b"12345678", "the gzip file is damaged"),
        (b"\x1f\x8b\x08\x00garbage", "the gzip file is"),
        (b"[1, 2", "row 3: the JSON list is broken or cut short here (expected ',')"),
        (b"[1, {]", "row 2: the JSON list is broken or cut short here"),
        (b"[1 2]", "row 2: the JSON list is broken"),
        (b"[1,]", "row 2: the JSON list is broken"),
        (b"[,1]", "row 1: the JSON list is broken"),
        (b"[1] 2", "row 2: the JSON list is broken or cut short here (text after the end of the list)"),
        (b"[" * 100_000, "row 1: not JSON (it is nested too deeply)"),
        (b"[" + b"1" * 5_000 + b"]", "row 1: the JSON list is broken or cut short here (Exceeds the limit"),
        (b'["' + b"a" * 5_000 + b'\xff"]', "not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    path = written(tmp_path / "rows", content)
    with pytest.raises(InvalidInput) as caught:
        list(read_questions(path))
    assert str(path) in str(caught.value)
    assert problem in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        list(read_questions(tmp_path / "none.jsonl"))
    with pytest.raises(InvalidInput, match="is a folder"):
        list(read_questions(tmp_path))


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(ROWS | JSON_VALUES, max_size=5))
def test_any_json_gives_rows_and_never_an_error(tmp_path_factory: pytest.TempPathFactory, lines: list[Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    for content in (json.dumps(lines), "\n".join(json.dumps(line) for line in [QUESTIONS[0], *lines])):
        assert len(ids(written(path, content))) == len(lines) + (content[0] == "{")


@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=40) | st.text(alphabet='[]{},:" 1a\n\\u0', max_size=12).map(str.encode))
def test_any_bytes_give_rows_or_invalid_input(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = written(tmp_path_factory.getbasetemp() / "any.bytes", content)
    try:
        ids(path)
    except InvalidInput as error:
        assert error.file == path
