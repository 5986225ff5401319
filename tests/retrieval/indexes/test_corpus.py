"""Documents of files and folders, and the passages that they are cut into."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.retrieval.indexes import corpus
from trailforge.retrieval.indexes.corpus import Chunking, cut, distinct, read_corpus, source_of
from trailforge.schemas import Document, InvalidInput


def words(texts: Sequence[str]) -> list[int]:
    """A tokenizer of words."""
    return [len(text.split()) for text in texts]


def passages(text: str, tokens: int, overlap: int = 0) -> list[str]:
    document = Document(id="d#1", title="T", text=text)
    found = list(cut([document], Chunking(tokens=tokens, overlap=overlap), words))
    assert [each.id for each in found] == [f"d#1#{number}" for number in range(1, len(found) + 1)]
    assert {source_of(each.id) for each in found} == {"d#1"} and {each.title for each in found} == {"T"}
    return [each.text for each in found]


TEXT = "One two three. Four five.\n\nSix seven eight nine. Ten."


@pytest.mark.parametrize(
    ("tokens", "overlap", "expected"),
    [
        (100, 0, [TEXT]),
        (10, 9, [TEXT]),
        (5, 0, ["One two three. Four five.", "Six seven eight nine. Ten."]),
        (4, 0, ["One two three.", "Four five.", "Six seven eight nine.", "Ten."]),
        (6, 2, ["One two three. Four five.", "Four five.\n\nSix seven eight nine.", "Ten."]),
        (6, 5, ["One two three. Four five.", "Four five.\n\nSix seven eight nine.", "Six seven eight nine. Ten."]),
        (2, 0, ["One two", "three.", "Four five.", "Six seven", "eight nine.", "Ten."]),
        (2, 1, ["One two", "two three.", "Four five.", "Six seven", "seven eight", "eight nine.", "nine. Ten."]),
    ],
)
def test_passages_end_with_sentences_where_these_fit(tokens: int, overlap: int, expected: list[str]) -> None:
    assert passages(TEXT, tokens, overlap) == expected


def test_a_text_without_spaces_is_cut_too() -> None:
    document = Document(id="d", title="", text="雪" * 10)
    found = list(cut([document], Chunking(tokens=4), lambda texts: [len(text) for text in texts]))
    assert [each.text for each in found] == ["雪" * 4, "雪" * 4, "雪" * 2]


@pytest.mark.parametrize("overlap", [0, 1, 7, 11])
def test_every_word_is_in_a_passage_and_none_is_too_long(overlap: int) -> None:
    text = " ".join(f"Sentence {n} has {'very ' * (n % 9)}many words." for n in range(60))
    found = passages(text, 12, overlap)
    assert all(len(each.split()) <= 12 for each in found)
    at, covered = 0, 0
    for each in found:
        at = text.index(each, max(0, at))
        assert text[covered:at].strip() == "", "nothing is left out"
        covered = max(covered, at + len(each))
        at += 1
    assert covered == len(text)


@pytest.mark.parametrize(("tokens", "overlap", "field"), [(0, 0, "chunk_tokens"), (5, 5, "chunk_overlap")])
def test_passages_without_room_are_refused(tokens: int, overlap: int, field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        Chunking(tokens=tokens, overlap=overlap)


def test_the_documents_of_a_folder_come_by_name(tmp_path: Path) -> None:
    (tmp_path / "b" / ".git").mkdir(parents=True)
    (tmp_path / "b" / ".git" / "x.txt").write_text("no document")
    (tmp_path / "a.md").write_text("\n# Lakes #\nTaupo is large.\n# More\n")
    (tmp_path / "only.md").write_text("# Lakes")
    (tmp_path / "b" / "volcanoes.txt.gz").write_bytes(gzip.compress("\ufeffRuapehu is active.".encode()))
    (tmp_path / "b" / "list.json").write_text(json.dumps([{"text": "one"}, {"id": 7, "title": "t", "text": "two"}]))
    (tmp_path / "b" / "object.json").write_text(json.dumps({"text": "three"}, indent=1))
    (tmp_path / "rows.jsonl").write_text('{"text": "four"}\n\n{"text": "five"}\n')
    pq.write_table(pa.table({"text": ["six"]}), tmp_path / "z.parquet")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    assert [(d.id, d.title, d.text) for d in read_corpus(tmp_path)] == [
        ("a.md", "Lakes", "Taupo is large.\n# More"),
        ("b/list.json:1", "", "one"),
        ("7", "t", "two"),
        ("b/object.json:1", "", "three"),
        ("b/volcanoes.txt.gz", "volcanoes", "Ruapehu is active."),
        ("only.md", "Lakes", "# Lakes"),
        ("rows.jsonl:1", "", "four"),
        ("rows.jsonl:3", "", "five"),
        ("z.parquet:1", "", "six"),
    ]
    assert [d.id for d in read_corpus(tmp_path / "b" / "list.json")] == ["1", "7"]


def test_a_question_file_is_no_corpus_and_the_mend_is_told(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "1", "question": "Who?", "paragraphs": []}))
    with pytest.raises(InvalidInput, match=r"row 1: is a question, .*trailforge index build FILE --out FOLDER"):
        list(read_corpus(tmp_path / "q.jsonl"))


def test_what_cannot_be_read_in_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"holds no document \(\.txt, \.md"):
        list(read_corpus(tmp_path))
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match=r"a\.txt: not UTF-8 text; expected text"):
        list(read_corpus(tmp_path))
    (tmp_path / "a.txt").write_text(" \n")
    with pytest.raises(InvalidInput, match=r"a\.txt: the file holds no text"):
        list(read_corpus(tmp_path))
    (tmp_path / "a.txt").unlink()
    (tmp_path / "b.jsonl").write_text('{"id": "x", "text": "a"}\n')
    (tmp_path / "c.json").write_text('[{"id": "x", "text": "b"}]')
    with pytest.raises(InvalidInput, match=r"c\.json, row 1, field 'id': 'x' is the id of an earlier row"):
        list(read_corpus(tmp_path))


def test_paragraphs_that_come_again_count_once() -> None:
    given = [("1", "A", "a"), ("2", "A", "b"), ("1", "A", "a"), ("3", "B", "a")]
    found = list(distinct(Document(id=key, title=title, text=text) for key, title, text in given))
    assert [(d.id, d.title, d.text) for d in found] == [("0", "A", "a"), ("1", "A", "b"), ("2", "B", "a")]


@pytest.mark.parametrize("field", ["id", "title", "text"])
@pytest.mark.parametrize("half", ["\ud800", "\udfff", "\ude00\ud83c"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz", "folder/a.ndjson"])
def test_half_a_surrogate_pair_is_refused_with_its_row(name: str, half: str, field: str, tmp_path: Path) -> None:
    """JSON may say it, and no file of ours can hold it. Both halves together are a character."""
    rows = [{"id": "1", "title": "A 🎬", "text": "\ud83c\udfac b"}, {"id": "2", "title": "B", "text": "c"}]
    rows[1][field] += half
    lines = [json.dumps(row) for row in rows]
    content = (f"[{','.join(lines)}]" if name.endswith(".json") else "\n".join(lines)).encode()
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    documents = read_corpus(path.parent if "/" in name else path)
    assert next(documents).text == "🎬 b"
    with pytest.raises(InvalidInput, match="half a surrogate pair") as refused:
        next(documents)
    assert (refused.value.file, refused.value.row, refused.value.field) == (path, 2, field)
    str(refused.value).encode()


def test_a_file_name_that_is_no_utf8_is_a_name_all_the_same(tmp_path: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("Tea.")
    except OSError:
        pytest.skip("this file system takes no such name")
    (document,) = read_corpus(tmp_path)
    assert (document.id, document.title) == ("caf\ufffd.txt", "caf\ufffd")


def read_file(folder: Path, name: str, content: str | bytes) -> list[tuple[str, str, str]]:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return [(each.id, each.title, each.text) for each in read_corpus(path)]


FORMS = [
    {"id": "0", "contents": '"Po"\nA river.'},  # Search-R1#74, FlashRAG#174
    {"id": 0, "contents": "Po\nA river."},  # Pyserini's collections
    {"_id": "0", "title": "Po", "text": "A river.", "metadata": {}},  # BEIR
    {"docid": "0", "title": "Po", "text": "A river."},  # Mr. TyDi, mr.tydi#7
    {"_id": "0", "wikipedia_id": "0", "wikipedia_title": "Po", "text": ["A river."], "anchors": []},  # KILT
    {"id": "0", "url": "u", "title": "Po", "text": [["A ", "river."]]},  # HotpotQA's dump of Wikipedia
    {
        "id": "0",
        "page_content": "A river.",
        "metadata": {"title": "Po", "source": "u"},
        "type": "Document",
    },  # LangChain
    {"id_": "0", "text": "A river.", "metadata": {"title": "Po"}, "embedding": None},  # LlamaIndex
    {"id": "0", "content": "A river.", "meta": {"name": "Po"}, "score": None},  # Haystack
    {"pid": 0.0, "passage": "A river.", "title": "Po"},
    {"id": "0", "title": "Po", "body": "<p>A river.</p>"},
    {"idx": 0, "title": "Po", "paragraph_text": "A river."},  # MuSiQue's paragraphs
]


@pytest.mark.parametrize("row", FORMS)
@pytest.mark.parametrize("kind", ["jsonl", "json", "wrapped.json", "jsonl.gz"])
def test_published_forms_of_passages(tmp_path: Path, row: dict[str, Any], kind: str) -> None:
    value = {"meta": 1, "docs": [row]} if kind == "wrapped.json" else [row]
    content = (json.dumps(row) if "jsonl" in kind else json.dumps(value, indent=1)).encode()
    found = read_file(tmp_path, f"c.{kind}", gzip.compress(content) if kind.endswith("gz") else content)
    assert found == [("1" if "idx" in row else "0", "Po", "A river.")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("psgs_w100.tsv", 'id\ttext\ttitle\n0\t"A ""river""."\tPo\n'),  # DPR
        ("c.csv", 'id,title,text\n0,Po,"A ""river""."\n'),
        ("c.csv", 'id;Title;Contents\n0;Po;"A ""river""."\n'),
        ("c.txt.csv", '_id,title,body\n0,Po,"A ""river""."\n'),
    ],
)
def test_tables_of_passages(tmp_path: Path, name: str, content: str) -> None:
    assert read_file(tmp_path, name, content) == [("0", "Po", 'A "river".')]


def test_passages_in_a_table_without_a_header(tmp_path: Path) -> None:  # MS MARCO's collection.tsv
    content = '0\tThe "presence", they say.\n1\t"Quoted\n'
    assert read_file(tmp_path, "collection.tsv", content) == [
        ("0", "", 'The "presence", they say.'),
        ("1", "", '"Quoted'),
    ]


@pytest.mark.parametrize(
    ("row", "title", "text"),
    [
        ({"contents": "Only a text."}, "", "Only a text."),
        ({"contents": "x" * 201 + "\nmore"}, "", "x" * 201 + "\nmore"),
        ({"contents": '"Po" is a river.\nIt is long.'}, '"Po" is a river.', "It is long."),
        ({"contents": '""\nA river.'}, "", "A river."),
        ({"title": None, "text": "A river.", "id": None}, "", "A river."),
        ({"title": "nan", "text": "A &amp; B"}, "nan", "A & B"),
        ({"title": "R&amp;D", "text": "if a < b: List<T>", "level": 3}, "R&D", "if a < b: List<T>"),
        ("A text alone.", "", "A text alone."),
    ],
)
def test_what_a_row_may_lack(tmp_path: Path, row: Any, title: str, text: str) -> None:
    assert read_file(tmp_path, "c.json", json.dumps([row])) == [("1", title, text)]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (
            {"id": "1", "title": "Po"},
            "no column for the text; there are id, title. Say which: trailforge index build … --columns text=COLUMN; a "
            "passage is {",
        ),
        ({"id": "1", "text": None}, "row 1, field 'text': must be a text that is not empty; a passage is {"),
        ({"id": "1", "text": " \n"}, "row 1, field 'text': must be a text that is not empty; a passage is {"),
        (
            {"id": "1", "body": "<script>x</script>"},
            "row 1, field 'body': must be a text that is not empty; a passage is",
        ),
        ({"id": "1", "text": {"a": 1}}, "row 1, field 'text': expected a text, found an object"),
        ({"id": "1", "text": [1, {}]}, "row 1, field 'text[1]': expected a text, found an object"),
        (["a"], "row 1: expected an object, found a list"),
    ],
)
def test_what_is_no_passage_is_told_with_the_form_that_is_right(tmp_path: Path, row: Any, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_file(tmp_path, "c.json", json.dumps([row]))
    assert problem in str(caught.value) and str(tmp_path / "c.json") in str(caught.value)


MAPPED = {"text": "story", "title": "head", "id": "no"}
ROWS_OF_OTHERS = [{"no": 7, "head": "Danube", "story": "A river."}, {"no": 8, "story": "<p>Wien</p>", "text": "aside"}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.jsonl", "\n".join(map(json.dumps, ROWS_OF_OTHERS))),
        ("c.json", json.dumps({"data": ROWS_OF_OTHERS})),
        ("c.csv", "no,head,story,text\n7,Danube,A river.,\n8,,<p>Wien</p>,aside\n"),
        ("c.tsv", "story\tno\thead\nA river.\t7\tDanube\n<p>Wien</p>\t8\t\n"),
    ],
)
def test_columns_of_other_names_are_named(tmp_path: Path, name: str, content: str) -> None:
    """Also in a folder, beside texts."""
    (tmp_path / name).write_text(content)
    meant = [("7", "Danube", "A river."), ("8", "", "Wien")]
    assert [(each.id, each.title, each.text) for each in read_corpus(tmp_path / name, MAPPED)] == meant
    (tmp_path / "z.txt").write_text("Linz")
    assert [each.text for each in read_corpus(tmp_path, MAPPED)] == ["A river.", "Wien", "Linz"]


@pytest.mark.parametrize(
    ("mapped", "problem"),
    [
        ({"text": "tale"}, "no such column for the text; there are no, head, story"),
        ({"text": "story", "title": "top"}, "field 'top': no row has this column, which --columns names"),
        ({"text": ""}, "the text is needed, and --columns gives it no column; a passage is {"),
        ({"body": "story"}, "field '--columns': no field 'body'; passages have id, title, text"),
    ],
)
def test_a_column_that_is_not_there_is_named(tmp_path: Path, mapped: dict[str, str], problem: str) -> None:
    (tmp_path / "c.jsonl").write_text(json.dumps(ROWS_OF_OTHERS[0]))
    with pytest.raises(InvalidInput) as caught:
        list(read_corpus(tmp_path / "c.jsonl", mapped))
    assert problem in str(caught.value)


def test_large_texts_of_a_folder_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "LONGEST_ROW", 10)
    (tmp_path / "b").mkdir()
    for name in ("a.txt", "b/c.md", "small.txt"):
        (tmp_path / name).write_text("x" * (11 if name != "small.txt" else 3))
    with pytest.raises(InvalidInput, match=r"texts of more than 16 MiB.*divided: a\.txt, b/c\.md$"):
        list(read_corpus(tmp_path))
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"x" * 11))
    for name in ("a.txt", "d.txt.gz"):
        with pytest.raises(InvalidInput, match=rf"{name}: a text of more than 16 MiB"):
            list(read_corpus(tmp_path / name))


def test_links_out_of_a_folder_are_not_followed_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("A secret.")
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "a.txt").write_text("A river.")
    (folder / "again.txt").symlink_to(folder / "a.txt")
    (folder / "out.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    (folder / "out").symlink_to(tmp_path / "outside", target_is_directory=True)
    (folder / "loop").symlink_to(folder / "loop")
    assert [each.id for each in read_corpus(folder)] == ["a.txt", "again.txt"]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and said[0].endswith("links that lead out of the folder are not followed: out, out.txt")
    (tmp_path / "link").symlink_to(folder)
    assert len(list(read_corpus(tmp_path / "link"))) == 2


@given(
    row=st.dictionaries(
        st.sampled_from(["id", "_id", "title", "text", "contents", "body", "metadata", "question", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=5,
        ),
    )
)
def test_any_row_is_a_passage_or_refused_with_its_row(tmp_path_factory: pytest.TempPathFactory, row: Any) -> None:
    lines = "\n".join(map(json.dumps, [{"id": "first", "text": "x"}, row]))
    try:
        _, (key, _, text) = read_file(tmp_path_factory.getbasetemp(), "row.jsonl", lines)
    except InvalidInput as error:
        assert error.row == 2
    else:
        assert key and text.strip() == text != ""
