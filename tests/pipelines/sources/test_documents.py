"""Files of documents: every shape they come in, column maps, every way a row or file can be bad, and the real files."""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trailforge.pipelines.sources import InvalidRow
from trailforge.pipelines.sources.columns import (
    FileLabels,
    language_code,
    one_line,
    parse_columns,
    parse_document_files,
    tidy,
)
from trailforge.pipelines.sources.documents import read_documents
from trailforge.rows.dates import iso_date
from trailforge.rows.fields import is_missing
from trailforge.rows.html_text import plain_text
from trailforge.schemas import InvalidInput, SourceDocument, SourceKind, to_dict

ARXIV = {
    "id": "arxiv_2504.00016",
    "arxiv_id": "2504.00016",
    "title": "Deep\n  things",
    "abstract": "We go\n deep.",
    "authors": ["Ann A.", "Bo B."],
    "categories": ["cs.CL"],
    "listed_date": "2025-04-02",
    "url": "https://arxiv.org/abs/2504.00016",
}
WIKINEWS = {
    "id": "wikinews_2019_000",
    "title": "House falls",
    "date": "2019-01-04",
    "source": "Wikinews",
    "url": "https://en.wikinews.org/wiki/House_falls",
    "text": "A house fell.\n\nNobody was hurt.",
}
DIGITALGOV = {
    "id": "dg_2010-10-22-data",
    "title": "Data",
    "date": "2010-10-22",
    "source": "Digital.gov (GSA)",
    "text": "D.",
}
PLAIN = {"title": "One", "text": "First.", "id": "a"}
MAP = (
    "id=key,title=headline,text=body,url=where,published=day,authors=who,"
    "language=tongue,licence=terms,source=from,kind=sort"
)
FILES = {
    "news/wikinews_2019_2020.jsonl.gz": ("wikinews", "news", "CC-BY-2.5", 247),
    "news/digitalgov_2010_2025.jsonl.gz": ("digitalgov", "news", "CC0-1.0", 1520),
    "arxiv/arxiv_2025_04_06.jsonl.gz": ("arxiv", "academic", "CC0-1.0", 1831),
}

# Text that is as it will be: no control characters (Parquet and JSON hold them, `strip` and `splitlines` eat some).
_SIGNS = st.characters(exclude_categories=["C", "Z"])
_WORDS = st.text(_SIGNS, min_size=1, max_size=8).filter(lambda word: not is_missing(word))
_LINES = st.lists(_WORDS, min_size=1, max_size=4).map(" ".join)
_NAMES = _LINES.map(lambda name: name.replace(";", ".")).filter(bool)
_TEXTS = st.lists(_LINES, min_size=1, max_size=3).map("\n".join)


@st.composite
def source_documents(draw: st.DrawFn) -> SourceDocument:
    """Documents as a source may give them."""
    source = draw(st.sampled_from(["mine", "a,b", 'q"q', "x y"]))
    return SourceDocument(
        id=f"{source}:{draw(_LINES)}",
        source=source,
        kind=draw(st.sampled_from(get_args(SourceKind))),
        title=draw(st.just("") | _LINES),
        text=draw(_TEXTS),
        url=draw(st.just("") | _WORDS),
        published=draw(st.none() | st.dates().map(date.isoformat)),
        language=draw(st.none() | st.sampled_from(["en", "de"])),
        authors=tuple(draw(st.lists(_NAMES, max_size=3))),
        licence=draw(st.just("") | _LINES),
    )


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def lines(*rows: object) -> str:
    return "\n".join(json.dumps(row) for row in rows)


def read(path: Path, **options: Any) -> list[SourceDocument | InvalidRow]:
    return list(read_documents([path], **options))


def document(path: Path, **options: Any) -> SourceDocument:
    (only,) = read(path, **options)
    assert isinstance(only, SourceDocument), only
    return only


def ids(path: Path, **options: Any) -> list[str]:
    """Ids of the documents, `!row` for invalid rows."""
    return [row.id if isinstance(row, SourceDocument) else f"!{row.row}" for row in read(path, **options)]


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


# Shapes


def test_arxiv(tmp_path: Path) -> None:
    assert document(written(tmp_path / "x", lines(ARXIV))) == SourceDocument(
        id="arxiv:2504.00016",
        source="arxiv",
        kind="academic",
        title="Deep things",
        text="We go deep.",
        url="https://arxiv.org/abs/2504.00016",
        published="2025-04-02",
        language="en",
        authors=("Ann A.", "Bo B."),
        licence="CC0-1.0",
    )


def test_news(tmp_path: Path) -> None:
    first, second = read(written(tmp_path / "x", lines(WIKINEWS, DIGITALGOV)))
    assert first == SourceDocument(
        id="wikinews:2019_000",
        source="wikinews",
        kind="news",
        title="House falls",
        text="A house fell.\n\nNobody was hurt.",
        url="https://en.wikinews.org/wiki/House_falls",
        published="2019-01-04",
        language="en",
        licence="CC-BY-2.5",
    )
    assert isinstance(second, SourceDocument)
    assert (second.id, second.url, second.licence) == ("digitalgov:2010-10-22-data", "", "CC0-1.0")


def test_known_sources_in_tables_too(tmp_path: Path) -> None:
    assert ids(written(tmp_path / "x", as_csv([WIKINEWS]))) == ["wikinews:2019_000"]
    paper = document(written(tmp_path / "y", as_parquet([ARXIV])))
    assert (paper.id, paper.authors) == ("arxiv:2504.00016", ("Ann A.", "Bo B."))


def test_a_column_map_or_a_label_overrules_what_is_known(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.jsonl", lines(WIKINEWS))
    assert ids(path, source="w") == ["w:2019_000"]
    assert document(path, kind="general").kind == "general"
    mapped = document(path, column_map={"source": ""})
    assert (mapped.id, mapped.kind, mapped.licence) == ("mine:wikinews_2019_000", "general", "")


USUAL_NAMES = {
    "Headline": "T",
    "Body": "x",
    "GUID": "7",
    "pubDate": "Wed, 02 Oct 2002 13:00:00 GMT",
    "Link": "https://a.b/c",
    "byline": "Ann; Bo",
    "lang": "en-US",
    "license": "MIT",
    "publisher": "P",
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "content",
    [
        lines(USUAL_NAMES).encode(),
        json.dumps([USUAL_NAMES]).encode(),
        as_csv([USUAL_NAMES]),
        b"\xef\xbb\xbf" + as_csv([USUAL_NAMES]),
    ],
    ids=["lines", "list", "csv", "csv with a mark"],
)
def test_usual_names_of_columns(tmp_path: Path, content: bytes, pack: Any) -> None:
    assert document(written(tmp_path / "x", pack(content))) == SourceDocument(
        id="P:7",
        source="P",
        kind="news",
        title="T",
        text="x",
        url="https://a.b/c",
        published="2002-10-02",
        language="en",
        authors=("Ann", "Bo"),
        licence="MIT",
    )


def test_ids_of_rows_that_have_none(tmp_path: Path) -> None:
    rows = [{"title": "t", "text": "x"}, {"title": "t", "text": "y"}, {"title": "t", "text": "x", "url": "u"}]
    first, second, third = ids(written(tmp_path / "my.file.csv", as_csv([{"url": "", **row} for row in rows])))
    assert first != second and first.startswith("my:") and len(first) == len("my:") + 16
    assert third == "my:u"
    assert ids(written(tmp_path / "my.jsonl", lines(*rows))) == [first, second, third]
    assert ids(written(tmp_path / "n.jsonl", lines({**PLAIN, "id": 12}))) == ["n:12"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_and_quotes(tmp_path: Path, delimiter: str) -> None:
    content = '\r\n"title";"text"\r\nA;"x, ""y"";\r\nz"\r\n;\r\nB;b\r\n'.lstrip().replace(";", delimiter)
    found = read(written(tmp_path / "f.csv", content), source="s")
    assert [(d.title, d.text) for d in found if isinstance(d, SourceDocument)] == [
        ("A", f'x, "y"{delimiter}\nz'),
        ("B", "b"),
    ]


def test_long_articles_in_csv(tmp_path: Path) -> None:
    text = "word, " * 100_000
    assert document(written(tmp_path / "f.csv", as_csv([{**PLAIN, "text": text}]))).text == text.strip()


def test_parquet_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "title": pa.array(["a", "b"]).dictionary_encode(),
            "text": pa.array(["x", "y"], pa.large_string()),
            "date": pa.array([datetime(2024, 5, 31, 23, 59), None], pa.timestamp("ns")),
            "authors": pa.array([["Ann"], None]),
            "id": pa.array([1, 2]),
            "picture": pa.array([b"\x00", b"\x01"]),
        }
    )
    pq.write_table(table, tmp_path / "p.parquet")
    first, second = read(tmp_path / "p.parquet")
    assert isinstance(first, SourceDocument) and isinstance(second, SourceDocument)
    assert (first.id, first.published, first.authors) == ("p:1", "2024-05-31", ("Ann",))
    assert (second.id, second.published, second.authors) == ("p:2", None, ())


def test_empty_files_hold_nothing(tmp_path: Path) -> None:
    for content in ("", " \n", "[]", "title,text\n"):
        assert read(written(tmp_path / "x", content)) == []
    pq.write_table(pa.table({"title": pa.array([], pa.string()), "text": pa.array([], pa.string())}), tmp_path / "x")
    assert read(tmp_path / "x") == []


def test_an_id_comes_once_over_all_files(tmp_path: Path) -> None:
    one, two = written(tmp_path / "a.jsonl", lines(PLAIN, PLAIN)), written(tmp_path / "b.jsonl", lines(PLAIN))
    rows = list(read_documents([one, two], source="s"))
    bad = [row for row in rows if isinstance(row, InvalidRow)]
    assert [(Path(row.file).name, row.row, row.field) for row in bad] == [("a.jsonl", 2, "id"), ("b.jsonl", 1, "id")]
    assert bad[0].problem == "a document with the id 's:a' came before; give each its own"


# Round trips


def _is_plain(text: str) -> bool:
    """Not marked up by chance: "&LT;" is a sign of HTML, and is read as such."""
    return plain_text(text) == text


@settings(max_examples=60)
@given(
    documents=st.lists(
        source_documents().filter(lambda document: _is_plain(document.title) and _is_plain(document.text)),
        min_size=1,
        max_size=4,
        unique_by=lambda d: d.id,
    )
)
def test_documents_survive_every_file(
    tmp_path_factory: pytest.TempPathFactory, documents: list[SourceDocument]
) -> None:
    """Written with other names of columns and read by a map, and written as they are and read without."""
    folder = tmp_path_factory.getbasetemp()
    column_map = parse_columns(MAP)
    for names in (column_map, {name: name for name in column_map}):
        asked = {"column_map": names} if names is column_map else {}
        rows = [{names[field]: value for field, value in to_dict(d).items() if field in names} for d in documents]
        assert read(written(folder / "t.jsonl", lines(*rows)), **asked) == documents
        assert read(written(folder / "t.parquet", as_parquet(rows)), **asked) == documents
        flat = [{**row, names["authors"]: ";".join(row[names["authors"]])} for row in rows]
        assert read(written(folder / "t.csv", as_csv(flat)), **asked) == documents


@settings(max_examples=100)
@given(content=st.binary(max_size=60) | st.text("<>/rss feditemchanl!&;\"',\n{}[]:1é", max_size=40).map(str.encode))
def test_any_bytes_give_rows_or_invalid_input(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = written(tmp_path_factory.getbasetemp() / "any", content)
    try:
        read(path)
    except InvalidInput as error:
        assert error.file == path


@given(text=st.text(max_size=12) | st.dates().map(date.isoformat) | st.datetimes().map(datetime.isoformat))
def test_a_date_is_a_day_or_refused(text: str) -> None:
    try:
        day = iso_date(text, "f")
    except InvalidInput as error:
        assert error.field == "f"
    else:
        assert date.fromisoformat(day).isoformat() == day == iso_date(day, "f")


@given(st.text())
def test_tidying_twice_changes_nothing(text: str) -> None:
    assert tidy(tidy(text)) == tidy(text) and one_line(one_line(text)) == one_line(text)


@pytest.mark.parametrize(
    ("text", "code"), [("en", "en"), ("EN-us", "en"), ("de_DE", "de"), ("eng", None), ("", None), ("English", None)]
)
def test_language_codes(text: str, code: str | None) -> None:
    assert language_code(text) == code


# What is wrong

BAD_ROWS: list[tuple[dict[str, Any], str | None, str]] = [
    ({**PLAIN, "text": "  "}, "text", "is empty; a text is needed"),
    ({**PLAIN, "text": None}, "text", "expected a text, found null"),
    ({**PLAIN, "text": {}}, "text", "expected a text, found an object"),
    ({**PLAIN, "text": ["a", []]}, "text[1]", "expected a text, found a list"),
    ({**PLAIN, "date": 20240532}, "date", "expected a date as 2024-05-31, found '20240532'"),
    ({**PLAIN, "date": "31/05/2024"}, "date", "expected a date as 2024-05-31, found '31/05/2024'"),
    ({**PLAIN, "date": "2024-02-30"}, "date", "expected a date as 2024-05-31"),
    ({**PLAIN, "date": "2024-05"}, "date", "expected a date as 2024-05-31"),
    ({**PLAIN, "kind": "sports"}, "kind", "expected one of news, academic, general, found 'sports'"),
    ({"title": "One"}, "text", "no column for the text; there are title. Say which: --columns text=COLUMN"),
    ({"text": "One"}, "title", "no column for the title; there are text. Say which: --columns title=COLUMN"),
    ({}, "title", "no column for the title; there are none."),
    ({**ARXIV, "arxiv_id": "x"}, "arxiv_id", "expected an arXiv id as 2504.00016, found 'x'"),
    ({**ARXIV, "abstract": ""}, "abstract", "is empty; a text is needed"),
    ({**ARXIV, "listed_date": "soon"}, "listed_date", "expected a date"),
    ({**WIKINEWS, "date": None}, "date", "expected a text, found null"),
    ({**WIKINEWS, "title": ""}, "title", "is empty; a text is needed"),
]


@pytest.mark.parametrize(("row", "field", "problem"), BAD_ROWS)
def test_a_bad_row_names_field_and_problem(
    tmp_path: Path, row: dict[str, Any], field: str | None, problem: str
) -> None:
    path = written(tmp_path / "f.jsonl", lines(row, {**PLAIN, "id": "next"}))
    bad, good = read(path)
    assert isinstance(bad, InvalidRow) and isinstance(good, SourceDocument)
    assert (bad.file, bad.row, bad.field, bad.payload) == (str(path), 1, field, json.dumps(row))
    assert bad.problem.startswith(problem)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("title,text\nA\nB,b\n", ["!2", "s:"]),
        ("title,text\nA,a,x\nB,b\n", ["!2", "s:"]),
        (b"title,text\nA,\xff\nB,b\n", ["!2", "s:"]),
        ('title,text\nA,"a\nb"\nB\n', ["s:", "!4"]),
        ("title,text\n\n\nA,\n", ["!4"]),
        ('{"title": "A"\n' + lines(PLAIN), ["!1", "s:"]),
        (json.dumps([[1], 2, PLAIN]), ["!1", "!2", "s:"]),
    ],
)
def test_rows_that_cannot_be_read_keep_their_place(tmp_path: Path, content: str | bytes, found: list[str]) -> None:
    assert [each[:2] for each in ids(written(tmp_path / "f", content), source="s")] == found


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a,b\n1,2\n", "field 'title': no column for the title; there are a, b. Say which: --columns title=COLUMN"),
        ("title,text,text\n1,2,3\n", "field 'text': two columns have this name"),
        ('title,text\nA,"b\nB,c\n', "row 2: the CSV is broken here (unexpected end of data)"),
        ('title,text\nA,"b"c\n', "row 2: the CSV is broken here"),
        ('title,text\nA,b\nA,"' + "b\n" * 300_000, "row 3: the CSV is broken here (longer than 16 MiB)"),
        ("title,text\nA,b\nA," + "b" * 17_000_000, "row 3: the CSV is broken here (longer than 16 MiB)"),
        (b"\x00\x01\x02", "not UTF-8 text; expected JSON, CSV, TSV, RSS, Atom or Parquet"),
        (b"\xff\xfet\x00", "not UTF-8 text"),
        (
            gzip.compress(lines(*[{**PLAIN, "id": str(n)} for n in range(500)]).encode())[:-30],
            "the gzip file is cut short",
        ),
        (b"\x1f\x8b\x08garbage", "the gzip file is"),
        (b"PAR1nothing", "the Parquet file is damaged"),
        (as_parquet([PLAIN] * 50)[:-9], "the Parquet file is damaged"),
        (gzip.compress(as_parquet([PLAIN])[:-9]), "the Parquet file is damaged"),
        ("[1, 2", "the JSON list is broken or cut short here"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: str | bytes, problem: str) -> None:
    path = written(tmp_path / "f", content)
    with pytest.raises(InvalidInput) as caught:
        read(path)
    assert caught.value.file == path
    assert problem in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        read(tmp_path / "none")
    with pytest.raises(InvalidInput, match="is a folder"):
        read(tmp_path)


@pytest.mark.parametrize(
    "make", [as_csv, as_parquet, lambda rows: lines(*rows).encode()], ids=["csv", "parquet", "lines"]
)
@pytest.mark.parametrize(
    ("column_map", "field", "problem"),
    [
        ({"published": "dat"}, "dat", "column"),
        ({"text": "body"}, "body", "column"),
        ({"text": "body", "title": "headline"}, "body", "column"),
    ],
)
def test_a_mapped_column_that_is_nowhere(
    tmp_path: Path, make: Any, column_map: Mapping[str, str], field: str, problem: str
) -> None:
    path = written(tmp_path / "f", make([PLAIN, {**PLAIN, "id": "b"}]))
    with pytest.raises(InvalidInput, match=problem) as caught:
        read(path, column_map=column_map)
    assert caught.value.file == path and caught.value.field in (field, "headline")


def test_column_maps() -> None:
    assert parse_columns(" title = headline , text=body,,authors=") == {
        "title": "headline",
        "text": "body",
        "authors": "",
    }
    assert parse_columns("") == {}
    for wrong, problem in [
        ("title", "FIELD=COLUMN"),
        ("title=a,title=b", "FIELD=COLUMN"),
        ("tilte=a", "no field 'tilte'"),
    ]:
        with pytest.raises(InvalidInput, match=problem):
            parse_columns(wrong)
    with pytest.raises(InvalidInput, match="no field 'x'"):
        list(read_documents([], column_map={"x": "y"}))


# The real files


@pytest.mark.parametrize("name", FILES)
def test_real_files(data_dir: Path, name: str) -> None:
    path = data_dir / name
    if not path.exists():
        pytest.skip(f"no {name}")
    source, kind, licence, count = FILES[name]
    rows = read(path)
    documents = [row for row in rows if isinstance(row, SourceDocument)]
    assert len(documents) == len(rows) == count
    assert {(d.source, d.kind, d.licence, d.language) for d in documents} == {(source, kind, licence, "en")}
    assert len({d.id for d in documents}) == count and all(d.id.startswith(f"{source}:") for d in documents)
    assert all(date.fromisoformat(d.published or "") and d.title and d.text for d in documents)
    assert all(bool(d.authors) == (source == "arxiv") for d in documents)


def test_real_articles_that_are_lists_of_facts_are_read_as_text(data_dir: Path) -> None:
    path = data_dir / "news/multihoprag_evidence_articles.jsonl.gz"
    if not path.exists():
        pytest.skip("no MultiHop-RAG")
    rows = read(path)
    assert len(rows) == 171
    assert not any(isinstance(row, InvalidRow) for row in rows)


def test_labels_stand_after_a_file_and_hold_for_it_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(json.dumps(PLAIN), encoding="utf-8")
    second.write_text(json.dumps(PLAIN | {"id": "b"}), encoding="utf-8")
    paths, labels = parse_document_files([f"{first}:kind=news,source=wire", str(second)])
    assert paths == (first, second) and labels == {str(first): FileLabels(source="wire", kind="news")}
    documents = [row for row in read_documents(paths, labels=labels) if isinstance(row, SourceDocument)]
    assert [(row.id, row.source, row.kind) for row in documents] == [
        ("wire:a", "wire", "news"),
        ("b:b", "b", "general"),
    ]


def test_each_document_of_a_file_is_a_source_by_itself_where_its_label_says_so(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for path in (first, second):
        rows = [PLAIN | {"id": f"{path.stem}{number}", "publisher": "wire"} for number in range(2)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    paths, labels = parse_document_files([f"{first}:source=each,kind=news", str(second)])
    documents = [row for row in read_documents(paths, labels=labels) if isinstance(row, SourceDocument)]
    assert [(row.id, row.source, row.origin) for row in documents] == [
        ("wire:a0", "wire", "wire:a0"),
        ("wire:a1", "wire", "wire:a1"),
        ("wire:b0", "wire", "wire"),
        ("wire:b1", "wire", "wire"),
    ]
    named = [row for row in read_documents(paths, labels=labels, source="w") if isinstance(row, SourceDocument)]
    assert [row.origin for row in named] == ["w:a0", "w:a1", "w", "w"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a.jsonl:kind=blog", "a.jsonl, field 'kind': expected one of news, academic, general, found 'blog'"),
        (
            "a.jsonl:sort=news",
            "expected FILE:kind=KIND,source=NAME (or source=each: each document is a source by itself), "
            "each label once; found 'sort=news'",
        ),
        ("a.jsonl:kind=news,kind=news", "each label once; found 'kind=news'"),
        ("a.jsonl:kind=news,source=", "found 'source='"),
    ],
)
def test_labels_that_files_do_not_have_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_document_files([text])
    assert problem in str(caught.value)


def test_a_file_whose_name_looks_like_a_label_is_that_file(tmp_path: Path) -> None:
    path = tmp_path / "a:kind=news"
    path.write_text(json.dumps(PLAIN), encoding="utf-8")
    assert parse_document_files([str(path)]) == ((path,), {})


def test_a_list_of_facts_is_a_text_and_what_a_publisher_dates_is_news(tmp_path: Path) -> None:
    row = {
        "url": "u",
        "title": "T",
        "source": "Fortune",
        "published_at": "2023-10-06T20:05:26+00:00",
        "facts": ["One.", "Two."],
    }
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, [row, row | {"url": "v", "facts": []}])), encoding="utf-8")
    document, empty = read_documents([path])
    assert isinstance(document, SourceDocument) and isinstance(empty, InvalidRow)
    assert (document.text, document.kind, document.published) == ("One.\nTwo.", "news", "2023-10-06")
    assert (empty.field, empty.problem) == ("facts", "is empty; a text is needed")


def test_what_looks_like_papers_is_said_once_a_file_unless_a_kind_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "Abstract\n\nWe built a mill.\n\n1 Introduction\n\nMills turn.\n\n2 Results\n\nIt turns.\n\nReferences"
    row = {"title": "On mills", "text": text, "source": "MILL 2005", "published": "2005-07-15"}
    papers = [{**row, "id": "1"}, {**row, "id": "2"}, {**row, "id": "3", "text": "A mill burned down."}]
    path = written(tmp_path / "mills.jsonl", lines(*papers))
    with caplog.at_level(logging.WARNING):
        assert [each.kind for each in read(path) if isinstance(each, SourceDocument)] == ["news"] * 3
    said = f"{path}: 2 documents look like papers and are taken as news: say {path}:kind=academic if they are papers"
    assert [record.getMessage() for record in caplog.records] == [said]
    caplog.clear()
    told = written(tmp_path / "told.jsonl", lines(*({**each, "kind": "news"} for each in papers)))
    with caplog.at_level(logging.WARNING):
        for silent in (read(path, kind="general"), read(told), read(path, labels={str(path): FileLabels(kind="news")})):
            assert len(silent) == 3
    assert not caplog.records
