"""The documents of a corpus: read from a file or a folder, cut into passages."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.retrieval.sentences import split_sentences
from trailforge.schemas import Document, InvalidInput, parse_json
from trailforge.schemas.files import json_lines, open_unpacked, read_limited

Row = tuple[int, dict[str, Any]]
"""Number, 1-based (the line of a JSON Lines file), and content."""
CountTokens = Callable[[Sequence[str]], Sequence[int]]
"""Of each text."""

_TEXT, _ROWS = (".txt", ".md"), (".json", ".jsonl", ".ndjson", ".parquet")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunking:
    """How documents are cut into passages: between sentences, within one only where it is too long by itself."""

    tokens: int
    """Of a passage's text, at most; its title comes on top. A sum over its sentences, so a tokenizer that joins text
    over their ends may see some more."""
    overlap: int = 0
    """Tokens at most: so many sentences of the end of a passage stand at the beginning of the next one, too."""

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise InvalidInput("has to be 1 or more", field="chunk_tokens")
        if not 0 <= self.overlap < self.tokens:
            raise InvalidInput("has to be from 0 on and less than chunk_tokens", field="chunk_overlap")


def cut(documents: Iterable[Document], chunking: Chunking, count: CountTokens) -> Iterator[Document]:
    """The passages of documents. Their ids are `DOCUMENT#N`, N from 1, also where a document is but one passage.

    A passage is a part of the text as it stands. `count` is the tokenizer of whoever reads passages.
    """
    for document in documents:
        spans = _spans(document.text, chunking, count)
        for number, (start, end) in enumerate(_fill(spans, chunking), start=1):
            yield replace(document, id=f"{document.id}#{number}", text=document.text[start:end])


def source_of(passage: str) -> str:
    """The id of the document that `cut` has cut a passage of this id from."""
    return passage.rpartition("#")[0]


_Span = tuple[int, int, int]
"""Start, end and tokens."""


def _spans(text: str, chunking: Chunking, count: CountTokens) -> list[_Span]:
    """Sentences, and the words of those that are too long by themselves."""
    sentences, start = [], 0
    for sentence in split_sentences(text):
        start = text.index(sentence, start)
        sentences.append((start, start := start + len(sentence)))
    spans: list[_Span] = []
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
    """Each title and text once, numbered from 0: for documents whose ids are unique within their question only."""
    seen: set[tuple[str, str]] = set()
    for document in documents:
        if (texts := (document.title, document.text)) not in seen:
            yield replace(document, id=str(len(seen)))
            seen.add(texts)


def read_corpus(source: Path) -> Iterator[Document]:
    """The documents of a file, or of all files in a folder and below, by name.

    A JSON Lines or Parquet file, or a list in a JSON file, has a document a row: `text`, and if there are any, `title`
    and `id`. A text (.txt, .md) is one document with the file's name, a Markdown file's first heading, for its title.
    Any of them may be packed with gzip, but for Parquet. Without an `id` the row's number is one; in a folder, the
    file's path in it, and the row's number behind a colon.

    Raises `InvalidInput` for a file that cannot be read, for a row without text or with half a surrogate pair, and for
    an id that came before.
    """
    seen: set[str] = set()
    for file, name in _files(source):
        for number, document in _documents(file, name):
            _check_is_text(document, file, number)
            if document.id in seen:
                raise InvalidInput(f"{document.id!r} is the id of an earlier row", file=file, row=number, field="id")
            seen.add(document.id)
            yield document


def _check_is_text(document: Document, file: Path, row: int) -> None:
    for name in ("id", "title", "text"):
        try:
            getattr(document, name).encode()
        except UnicodeEncodeError:
            problem = "holds half a surrogate pair (\\ud800 to \\udfff), which is no text"
            raise InvalidInput(problem, file=file, row=row, field=name) from None


def _files(source: Path) -> Iterator[tuple[Path, str]]:
    """Files with their names in the folder; a single file has none."""
    if not source.is_dir():
        yield source, ""
        return
    known = [path for path in source.rglob("*") if _kind(path) in {*_TEXT, *_ROWS} and path.is_file()]
    named = sorted((_readable(path.relative_to(source).as_posix()), path) for path in known)
    if not named:
        raise InvalidInput(f"holds no document ({', '.join((*_TEXT, *_ROWS))}, .gz too)", file=source)
    yield from ((path, name) for name, path in named if not name.startswith(".") and "/." not in name)


def _readable(name: str) -> str:
    """Of a file; bytes of it that are no UTF-8 become `\ufffd`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _kind(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _documents(file: Path, name: str) -> Iterator[tuple[int, Document]]:
    if _kind(file) in _TEXT:
        yield 1, _text_document(file, name or _readable(file.name))
        return
    for number, row in _rows(file):
        yield number, _document(row, number, file, f"{name}:{number}" if name else str(number))


def _text_document(file: Path, name: str) -> Document:
    text, title = _content(file).strip(), _readable(file.name).partition(".")[0]
    first, _, rest = text.partition("\n")
    if _kind(file) == ".md" and first.lstrip("#")[:1] in {" ", "\t"} and (heading := first.strip("# \t")):
        title, text = heading, rest.strip() or text
    if not text:
        raise InvalidInput("must be a text that is not empty", file=file)
    return Document(id=name, title=title, text=text)


def _document(row: dict[str, Any], number: int, source: Path, name: str) -> Document:
    text = row.get("text", row.get("paragraph_text"))
    if text is None and "question" in row:
        raise InvalidInput(
            "is a question, and no passage to search: make an index of the paragraphs that questions bring "
            f"(trailforge index build {source} --out FOLDER) and search that",
            file=source,
            row=number,
        )
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("must be a text that is not empty", file=source, row=number, field="text")
    title, key = str(row.get("title") or ""), row.get("id")
    return Document(id=name if key is None else str(key), title=title.strip(), text=text.strip())


def _rows(source: Path) -> Iterator[Row]:
    if source.suffix == ".parquet":
        yield from _parquet_rows(source)
        return
    rows = _json_rows(source) if _kind(source) == ".json" else json_lines(source)
    for number, row in rows:
        if not isinstance(row, dict):
            raise InvalidInput("not a JSON object", file=source, row=number)
        yield number, row


def _json_rows(source: Path) -> Iterable[tuple[int, Any]]:
    """Of one list or one object; else of lines."""
    content = _content(source).strip()  # a packed file may be half a gigabyte of spaces, slow to follow for a parser
    if not content:
        return ()
    try:
        value = parse_json(content)
    except ValueError:
        return json_lines(source)
    return enumerate(value if isinstance(value, list) else [value], start=1)


def _content(source: Path) -> str:
    """Raises `InvalidInput`."""
    try:
        with open_unpacked(source) as file:
            return read_limited(file, source).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InvalidInput("no such file", file=source) from error
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot be read as text ({error})", file=source) from error


def _parquet_rows(source: Path) -> Iterator[Row]:
    try:
        with pq.ParquetFile(source) as file:
            rows = (row for batch in file.iter_batches() for row in batch.to_pylist())
            yield from enumerate(rows, start=1)
    except FileNotFoundError as error:
        raise InvalidInput("no such file", file=source) from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise InvalidInput(f"cannot be read as Parquet ({error})", file=source) from error
