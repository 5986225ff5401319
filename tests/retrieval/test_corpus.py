"""Documents of files and folders, and the passages that they are cut into."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trailforge.retrieval.corpus import Chunking, cut, distinct, read_corpus, source_of
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
    with pytest.raises(InvalidInput, match=r"row 1: is a question, .*trailforge index build .*q\.jsonl --out FOLDER"):
        list(read_corpus(tmp_path / "q.jsonl"))


def test_what_cannot_be_read_in_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"holds no document \(\.txt, \.md"):
        list(read_corpus(tmp_path))
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match=r"a\.txt: cannot be read as text"):
        list(read_corpus(tmp_path))
    (tmp_path / "a.txt").write_text(" \n")
    with pytest.raises(InvalidInput, match=r"a\.txt: must be a text that is not empty"):
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
