"""Columns of other names: one wording for questions, documents, passages and triples."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from trailforge.pipelines.sources import jsonl, read_questions
from trailforge.pipelines.sources.columns import parse_columns as parse_document_columns
from trailforge.pipelines.sources.documents import read_documents
from trailforge.retrieval.indexes.corpus import parse_columns as parse_passage_columns
from trailforge.retrieval.indexes.corpus import read_corpus
from trailforge.retrieval.kg.tables import parse_columns as parse_triple_columns
from trailforge.retrieval.kg.tables import triple_rows
from trailforge.rows import InvalidRow
from trailforge.schemas import InvalidInput

Read = Callable[[Path, Mapping[str, str]], Iterable[Any]]
READERS: dict[str, tuple[Read, Callable[[str], dict[str, str]], dict[str, str], str]] = {
    "questions": (
        lambda path, given: read_questions(path, column_map=given),
        jsonl.parse_columns,
        {"question": "a"},
        "answer",
    ),
    "documents": (
        lambda path, given: read_documents([path], column_map=given),
        parse_document_columns,
        {"title": "a"},
        "text",
    ),
    "passages": (read_corpus, parse_passage_columns, {"title": "a"}, "text"),
    "triples": (triple_rows, parse_triple_columns, {"head": "a", "relation": "b"}, "tail"),
}
"""How each is read, how its map is read, a map that leaves a needed field out, and that field."""


def told(rows: Callable[[], Iterable[Any]]) -> str:
    """The first problem, be it raised or a row's own."""
    try:
        for row in rows():
            problem = row.problem if isinstance(row, InvalidRow) else getattr(row, "problem", "")
            if problem:
                return str(problem)
    except InvalidInput as error:
        return error.problem
    return ""


@pytest.mark.parametrize("name", ["table.csv", "rows.jsonl"])
@pytest.mark.parametrize("nouns", READERS)
def test_a_needed_column_that_is_not_there_is_asked_for_in_one_wording(tmp_path: Path, nouns: str, name: str) -> None:
    read, _, given, missing = READERS[nouns]
    (tmp_path / name).write_text("a,b\n1,2\n" if name.endswith("csv") else json.dumps({"a": "1", "b": "2"}))
    problem = told(lambda: read(tmp_path / name, given))
    way = "(trailforge index build … )?--columns"
    assert re.match(rf"no column for the {missing}; there are a, b\. Say which: {way} {missing}=COLUMN", problem)


@pytest.mark.parametrize("nouns", READERS)
def test_what_a_map_names_and_is_not_there_is_told_in_one_wording(tmp_path: Path, nouns: str) -> None:
    read, parse, given, missing = READERS[nouns]
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    problem = told(lambda: read(tmp_path / "table.csv", {**given, missing: "c"}))
    assert problem.startswith(f"no such column for the {missing}; there are a, b")
    problem = told(lambda: read(tmp_path / "table.csv", {**given, missing: ""}))
    assert problem.startswith(f"the {missing} is needed, and --columns gives it no column")
    with pytest.raises(InvalidInput, match=f"field '--columns': no field 'words'; {nouns} have "):
        parse("words=a")
    for text in ("a", f"{missing}=a,{missing}=b", f"{missing}=a,b"):
        with pytest.raises(InvalidInput, match="field '--columns': expected FIELD=COLUMN, each field once; found "):
            parse(text)
