"""One reader of rows: the same rows in every form, wrappers around lists, and what is said of what cannot be told."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trailforge.rows import InvalidRow, JsonRow, read_rows
from trailforge.schemas import InvalidInput

ROW = {"question": "Where was Verdi born?", "answer": "Le Roncole"}
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=8).filter(str.strip)


def values(path: Path) -> list[Any]:
    return [row.value if isinstance(row, JsonRow) else row.problem for row in read_rows(path)]


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def table(rows: list[dict[str, str]], delimiter: str) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.fixed_dictionaries({"question": TEXTS, "answer": TEXTS}), min_size=2, max_size=4))
def test_the_same_rows_in_every_form(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, str]]) -> None:
    folder = tmp_path_factory.mktemp("forms")
    wrapped = {"version": "1.1", "data": rows}
    texts = [
        "\n".join(map(json.dumps, rows)),
        json.dumps(rows, indent=1),
        json.dumps(wrapped),
        json.dumps(wrapped, indent=2),
        *(table(rows, mark) for mark in ",;\t|"),
    ]
    for text in texts:
        assert values(written(folder / "rows", text)) == rows, text
        assert values(written(folder / "rows.gz", gzip.compress(text.encode()))) == rows
    pq.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    assert values(folder / "rows.parquet") == rows


@pytest.mark.parametrize(
    ("wrapper", "source"),
    [
        ({"status": "ok", "totalResults": 1, "articles": [ROW]}, "newsapi.org/docs/endpoints/everything"),
        ({"totalArticles": 1, "articles": [ROW]}, "gnews.io/docs/v4"),
        ({"response": {"status": "ok", "total": 1, "results": [ROW]}}, "open-platform.theguardian.com/documentation"),
        ({"status": "OK", "copyright": "x", "response": {"docs": [ROW], "meta": {"hits": 1}}}, "developer.nytimes.com"),
        ({"pagination": {"limit": 1}, "data": [ROW]}, "mediastack.com/documentation"),
        ({"status": "success", "totalResults": 1, "results": [ROW], "nextPage": None}, "newsdata.io/documentation"),
        ({"version": "v2.0", "data": [ROW]}, "rajpurkar.github.io/SQuAD-explorer (its wrapper)"),
        ({"version": "https://jsonfeed.org/version/1.1", "title": "x", "items": [ROW]}, "jsonfeed.org"),
        ({"features": {"a": 1}, "rows": [ROW]}, "huggingface.co/docs/dataset-viewer/rows (its wrapper)"),
        ({"anything": [ROW]}, "made up: the only list of objects"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("indent", [None, 2])
def test_an_object_around_the_list_is_taken_off(
    tmp_path: Path, wrapper: dict[str, Any], source: str, indent: int | None
) -> None:
    assert values(written(tmp_path / "a.json", json.dumps(wrapper, indent=indent))) == [ROW]


@pytest.mark.parametrize(
    "row",
    [
        {**ROW, "paragraphs": [{"title": "t", "text": "x"}]},
        {**ROW, "decomposition": [{"question": "q", "answer": "a"}], "paragraphs": [{"text": "x"}]},
        {"title": "t", "text": "x", "sentences": [{"s": 1}]},
        {"query": "q", "gold": "a", "context": [{"text": "x"}]},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_an_object_that_is_a_row_is_one(tmp_path: Path, row: dict[str, Any], indent: int | None) -> None:
    path = written(tmp_path / "a.json", json.dumps(row, indent=indent))
    found = [each for each in read_rows(path, is_row=lambda keys: bool({"question", "query", "text"} & set(keys)))]
    assert [each.value for each in found if isinstance(each, JsonRow)] == [row]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (json.dumps({"train": [ROW], "test": [ROW]}), "with several lists of objects (train, test); keep one of them"),
        ('{\n "data": [\n  {"question": "q"\n ]\n}', "broken or cut short (Expecting ',' delimiter: line 4"),
        (f"{json.dumps(ROW, indent=1)}\n{json.dumps(ROW, indent=1)}", "text after the end of the object: line 5"),
        ("a,b\n1,2\n3\n", None),
        ("a,a\n1,2\n", "two columns have this name"),
    ],
)
def test_what_cannot_be_told_apart_is_one_line(tmp_path: Path, content: str, problem: str | None) -> None:
    path = written(tmp_path / "a.data", content)
    if problem is None:
        assert [isinstance(row, InvalidRow) for row in read_rows(path)] == [False, True]
        return
    with pytest.raises(InvalidInput) as caught:
        list(read_rows(path))
    assert problem in str(caught.value)


def test_lines_of_json_stay_lines_whatever_the_first_says(tmp_path: Path) -> None:
    wrapped = {"data": [ROW]}
    lines = "\n".join(map(json.dumps, [wrapped, ROW]))
    assert values(written(tmp_path / "a.jsonl", lines)) == [wrapped, ROW]
    assert values(written(tmp_path / "b", f"3\n{json.dumps(ROW)}\n")) == [3, ROW]
    assert values(written(tmp_path / "c.jsonl", f"no json\n{json.dumps(ROW)}\n"))[1] == ROW
