"""Read the documents of a corpus from a file or a folder, and cut them into passages."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from trailforge.retrieval.sentences import sentence_spans
from trailforge.rows import (
    COLUMNS,
    Asides,
    Fields,
    InvalidRow,
    bare_name,
    check_column_map,
    check_met,
    find_columns,
    flattened,
    head_of,
    open_file,
    parse_column_map,
    plain_text,
    read_rows,
    split_contents,
)
from trailforge.schemas import LONGEST_ROW, NOTICE, Document, InvalidInput, located

CountTokens = Callable[[Sequence[str]], Sequence[int]]
"""A function that returns the number of tokens of each text."""

_TEXT, _ROWS = (".txt", ".md"), (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
USUAL: dict[str, tuple[str, ...]] = {
    "id": ("id", "docid", "documentid", "passageid", "pid", "wikipediaid", "pageid", "chunkid", "nodeid"),
    "title": ("title", "wikipediatitle", "doctitle", "headline", "name", "metadatatitle", "metatitle", "metaname"),
    "text": (
        *("text", "paragraphtext", "contents", "content", "passage", "passagetext", "body", "pagecontent"),
        *("paragraph", "chunk", "segment", "fulltext", "article", "abstract"),
    ),
}
"""Usual column names of each field, for `rows.tables.find_columns`: those of the corpora of BEIR, DPR, KILT, Pyserini,
FlashRAG and MIRACL, and of documents of LangChain, LlamaIndex and Haystack."""
FORM = (
    'a passage is {"id": …, "title": …, "text": …} in JSON Lines, JSON or Parquet, or a row of a CSV or TSV with such '
    "a header; the text is needed"
)
"""End of a message about the form of a corpus."""
_BUILD = f"trailforge index build … {COLUMNS}"
_Given = tuple[tuple[str, str], ...]
"""A column map that can be a key."""
_LOG = logging.getLogger(__name__)
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunking:
    """How documents are cut into passages: between sentences, within one only where it is too long by itself."""

    tokens: int
    """Largest number of tokens of a passage's text, without its title. It is a sum over sentences, so a tokenizer that
    joins text over their ends may count some more."""
    overlap: int = 0
    """Largest number of tokens that are repeated: whole sentences from the end of a passage also begin the next one."""

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise InvalidInput(f"expected 1 or more, got {self.tokens}", field="chunk_tokens")
        if not 0 <= self.overlap < self.tokens:
            raise InvalidInput(
                f"expected 0 or more, and less than chunk_tokens ({self.tokens}), got {self.overlap}",
                field="chunk_overlap",
            )


def cut(documents: Iterable[Document], chunking: Chunking, count: CountTokens) -> Iterator[Document]:
    """Cut documents into passages. Their ids are `DOCUMENT#N`, N from 1, also where a document is only one passage.

    A passage is an unchanged part of the text. `count` is the tokenizer of the model that reads passages.
    """
    for document in documents:
        spans = _spans(document.text, chunking, count)
        for number, (start, end) in enumerate(_fill(spans, chunking), start=1):
            yield replace(document, id=f"{document.id}#{number}", text=document.text[start:end])


def source_of(passage: str) -> str:
    """Return the id of the document from which `cut` made a passage with this id."""
    return passage.rpartition("#")[0]


_Span = tuple[int, int, int]
"""Start, end and tokens."""


def _spans(text: str, chunking: Chunking, count: CountTokens) -> list[_Span]:
    """Sentences, and the words of those that are too long by themselves."""
    sentences, spans = sentence_spans(text), list[_Span]()
    for (start, end), size in zip(sentences, count([text[start:end] for start, end in sentences]), strict=True):
        if size <= chunking.tokens:
            spans.append((start, end, size))
            continue
        words = [(word.start() + start, word.end() + start) for word in _WORD.finditer(text[start:end])]
        sizes = count([text[first:last] for first, last in words])
        for word, tokens in zip(words, sizes, strict=True):
            spans += _pieces(*word, tokens, chunking.tokens)
    return spans


def _pieces(start: int, end: int, size: int, most: int) -> Iterator[_Span]:
    """A word; one that is too long by itself, as all of a text without spaces may be, in pieces of about one length."""
    number = -(-size // most)
    step = -(-(end - start) // number)
    for first in range(start, end, step):
        yield first, min(first + step, end), -(-size // number)


def _fill(spans: Sequence[_Span], chunking: Chunking) -> Iterator[tuple[int, int]]:
    """Start and end of each passage: as many spans as fit, after those of the one before that may come again."""
    first = 0
    while first < len(spans):
        last, room = first, chunking.tokens
        while last < len(spans) and (last == first or spans[last][2] <= room):
            room -= spans[last][2]
            last += 1
        yield spans[first][0], spans[last - 1][1]
        if last == len(spans):
            return
        again, room = last, min(chunking.overlap, chunking.tokens - spans[last][2])
        while again - 1 > first and spans[again - 1][2] <= room:
            again -= 1
            room -= spans[again][2]
        first = again


def distinct(documents: Iterable[Document]) -> Iterator[Document]:
    """Yield documents without repetitions (same title and text), with new ids from 0 in place of their own, which are
    unique within one question only.
    """
    seen: set[tuple[str, str]] = set()
    for document in documents:
        if (texts := (document.title, document.text)) not in seen:
            yield replace(document, id=str(len(seen)))
            seen.add(texts)


def parse_columns(text: str) -> dict[str, str]:
    """Parse `text=body,title=headline` to a map from the fields of a passage to the columns that hold them. Raises
    `InvalidInput` for an unknown field."""
    return parse_column_map(text, USUAL, "passages")


def read_corpus(source: Path, column_map: Mapping[str, str] | None = None) -> Iterator[Document]:
    """Read the documents of a file, or of all files in a folder and below, by name.

    A file of rows (JSON Lines, JSON, CSV, TSV or Parquet, detected from the content) has a document a row: a text, and
    if there are any, a title and an id, in columns of the usual names (`USUAL`), or of those that `column_map` says
    (`parse_columns`); HTML is turned to text. A text (.txt, .md) is one document with the file's name, a Markdown
    file's first heading, for its title. Any of them may be packed with gzip. Without an `id` the row's number is one;
    in a folder, the file's path in it, and the row's number behind a colon. Links out of a folder are not followed.

    Raises `InvalidInput` for a file that cannot be read, for texts of more than 16 MiB, for a row without text or with
    half a surrogate pair, for an id that came before, and at the end for a column of the map that no row has.
    """
    seen, given, met = set[str](), check_column_map(column_map or {}, USUAL, "passages"), set[str]()
    for file, name in _files(source):
        for number, document in _documents(file, name, tuple(given.items()), met):
            if document.id in seen:
                raise InvalidInput(
                    f"{document.id!r} is the id of an earlier row; give each its own", file=file, row=number, field="id"
                )
            seen.add(document.id)
            yield document
    check_met(given, met, source)


def _files(source: Path) -> Iterator[tuple[Path, str]]:
    """Files with their names in the folder; a single file has none."""
    if not source.is_dir():
        yield source, ""
        return
    inside, known = os.path.realpath(source), list[tuple[str, Path]]()
    led_out: list[str] = []
    for path in source.rglob("*"):
        name = _readable(path.relative_to(source).as_posix())
        if name.startswith(".") or "/." in name:
            continue
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(inside):
            led_out.append(name)
        elif _kind(path) in {*_TEXT, *_ROWS} and path.is_file():
            known.append((name, path))
    if led_out:
        _LOG.log(
            NOTICE, "%s: links that lead out of the folder are not followed: %s", source, ", ".join(sorted(led_out))
        )
    if not known:
        raise InvalidInput(f"holds no document ({', '.join((*_TEXT, *_ROWS))}, .gz too); give such files", file=source)
    large = [name for name, path in sorted(known) if _kind(path) in _TEXT and path.stat().st_size > LONGEST_ROW]
    if large:
        raise InvalidInput(f"texts of {_TOO_LARGE}, which have to be divided: {', '.join(large)}", file=source)
    yield from ((path, name) for name, path in sorted(known))


_TOO_LARGE = f"more than {LONGEST_ROW >> 20} MiB, which are no documents; split them, or make rows of a table of them"


def _readable(name: str) -> str:
    """Of a file; bytes of it that are no UTF-8 become `\ufffd`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _kind(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _documents(file: Path, name: str, given: _Given, met: set[str]) -> Iterator[tuple[int, Document]]:
    """The documents of a file, with their rows. `name`: in its folder. `met` gets the columns of all rows."""
    if _kind(file) in _TEXT:
        yield 1, _text_document(file, name or _readable(file.name))
        return
    asides, is_plain = Asides(file), _is_headless(file)
    rows = read_rows(
        file,
        is_row=lambda keys: "question" in keys or _has_text(keys, dict(given)),
        choose=lambda names: list(_columns(tuple(names), given, is_row=bool(name)).values()),
        unnamed=lambda cells: ("id", "text") if is_plain else None,
        plain_tabs=is_plain,
    )
    for row in rows:
        if isinstance(row, InvalidRow):
            raise InvalidInput(row.problem, file=file, row=row.row, field=row.field)
        with located(file=file, row=row.row):
            if given and isinstance(row.value, dict):
                met.update(flattened(row.value))
            yield row.row, _document(row.value, f"{name}:{row.row}" if name else str(row.row), given, asides)


def _is_headless(file: Path) -> bool:
    """Whether a file has an id, a tab and a text on each line, as MS MARCO's passages, and no header."""
    with open_file(file) as opened:
        key, *others = head_of(opened).decode("utf-8", "replace").partition("\n")[0].split("\t")
    is_row = len(others) == 1 and not key.startswith(("{", "[", "PAR1")) and len(key.split()) == 1
    return is_row and not _has_text((key, *others), {})


def _text_document(file: Path, name: str) -> Document:
    with open_file(file, "text") as opened:
        content = opened.read(LONGEST_ROW + 1)
        if len(content) > LONGEST_ROW:
            raise InvalidInput(f"a text of {_TOO_LARGE}; divide it", file=file)
        text = content.decode("utf-8-sig").strip()
    title = _readable(file.name).partition(".")[0]
    first, _, rest = text.partition("\n")
    if _kind(file) == ".md" and first.lstrip("#")[:1] in {" ", "\t"} and (heading := first.strip("# \t")):
        title, text = heading, rest.strip() or text
    if not text:
        raise InvalidInput("the file holds no text; remove it, or give a file of text", file=file)
    return Document(id=name, title=title, text=text)


def _document(value: Any, name: str, given: _Given, asides: Asides) -> Document:
    if isinstance(value, str):
        value = {"text": value}
    row = Fields(flattened(value) if isinstance(value, dict) else value)
    columns = _columns(tuple(row.values), given, is_row=True)
    title, text = _title(row, columns.get("title", "")), _text(row, columns["text"])
    if "title" not in columns and bare_name(columns["text"]) == "contents":
        title, text = split_contents(text)
    title, text = " ".join(plain_text(title).split()), plain_text(text).strip()
    if not text:
        raise InvalidInput(f"must be a text that is not empty; {FORM}", field=columns["text"])
    key = row.text_or_empty(columns["id"]) if "id" in columns else ""
    asides.say(row.asides)
    return Document(id=key or name, title=title, text=text)


def _has_text(names: Sequence[str], given: Mapping[str, str]) -> bool:
    """Whether there is a column for the text among these."""
    return "text" in find_columns(names, USUAL, {}, needed=()) if "text" not in given else given["text"] in names


@lru_cache(maxsize=256)
def _columns(names: tuple[str, ...], given: _Given, *, is_row: bool) -> dict[str, str]:
    """The column of each field. Raises `InvalidInput` for a row without a text."""
    if "question" in names and not _has_text(names, dict(given)):
        raise InvalidInput(
            "is a question, and no passage to search: make an index of the paragraphs that questions bring "
            "(trailforge index build FILE --out FOLDER) and search that"
        )
    return find_columns(names, USUAL, dict(given), needed=("text",), is_row=is_row, form=f"; {FORM}", option=_BUILD)


def _title(row: Fields, column: str) -> str:
    """The title, be it `None` or `NA`; empty where there is none."""
    return row.text(column) if isinstance(row.values.get(column), str) else row.text_or_empty(column)


def _text(row: Fields, column: str) -> str:
    """The text; of a list, its texts, each on a line, and of lists in it, as sentences, each of these on one."""
    value = row.values[column]
    if not isinstance(value, list):
        if not row.has(column):
            raise InvalidInput(f"must be a text that is not empty; {FORM}", field=column)
        return row.text(column)
    parts = ["".join(each) if isinstance(each, list) and set(map(type, each)) == {str} else each for each in value]
    return "\n".join(filter(None, Fields({column: parts}).texts(column)))
