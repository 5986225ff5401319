"""Files to JSON values: gzip or plain, JSON Lines or one JSON list, with the place of every row kept.

A file that cannot be read raises `InvalidInput`; a row that is no JSON is an `InvalidRow`, and the next one is read.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from trailforge.schemas import InvalidInput, Question, parse_json
from trailforge.schemas.files import LONGEST_ROW, TOO_LONG, is_too_long, limited_lines, open_unpacked, refuse_deep

_HEAD = 4096
_CHUNK = 1 << 20
_SHOWN = 1000
_NOT_SPACE = re.compile(r"[^ \t\r\n]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidRow:
    """A row that cannot be used, and why."""

    file: str
    row: int
    """1-based: the line of a text file, the position in a JSON list, a Parquet file or a feed."""
    field: str | None
    """The field at fault, as `question_decomposition[1].answer`; None when it is the row as a whole."""
    problem: str
    payload: str
    """The row as it was; of one that is too long, how it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRow:
    """A row whose value is that of a JSON text."""

    row: int
    value: Any
    text: str
    """As it stands in the file; where that is no text, its fields as JSON."""


def iter_rows(path: Path) -> Iterator[JsonRow | InvalidRow]:
    """The rows of a file in order, empty lines left out. Streams: of a list, a few MB are held at a time.

    Raises `InvalidInput` for a file that is missing, a folder, not to be opened, no UTF-8 text or cut short,
    and for a broken JSON list, in which nothing after the fault can be told apart.
    """
    with open_file(path) as file:
        yield from json_rows(file, path)


def json_rows(file: io.BufferedReader[Any], path: Path) -> Iterator[JsonRow | InvalidRow]:
    """`iter_rows` of a file that `open_file` gave and of which nothing is read yet."""
    yield from _list_rows(file, path) if _starts_as_list(file) else _line_rows(file, path)


@contextmanager
def open_file(path: Path, expected: str = "JSON Lines or a JSON list") -> Iterator[io.BufferedReader[Any]]:
    """A file's bytes, unpacked where it is gzip. What goes wrong inside becomes `InvalidInput` that names the file."""
    try:
        with open_unpacked(path) as file:
            yield file
    except FileNotFoundError as error:
        raise InvalidInput("no such file", file=path) from error
    except IsADirectoryError as error:
        raise InvalidInput("is a folder, expected a file", file=path) from error
    except EOFError as error:
        raise InvalidInput("the gzip file is cut short", file=path) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInput(f"the gzip file is damaged ({error})", file=path) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 text; expected {expected}", file=path) from error
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror or error})", file=path) from error


def _starts_as_list(file: io.BufferedReader[Any]) -> bool:
    """Whether the file, of which nothing is consumed, holds a JSON list; if not, it is JSON Lines."""
    head = file.peek(_HEAD)[:_HEAD].removeprefix(codecs.BOM_UTF8)
    check_text(head)
    return head.lstrip().startswith(b"[")


def check_text(head: bytes) -> None:
    """Raise `UnicodeDecodeError` for the start of a binary file: a zero byte in it, or no UTF-8 in its first line."""
    if b"\0" in head:
        raise UnicodeDecodeError("utf-8", head, head.index(b"\0"), head.index(b"\0") + 1, "binary")
    codecs.getincrementaldecoder("utf-8")().decode(head.partition(b"\n")[0])


def _line_rows(file: io.BufferedReader[Any], path: Path) -> Iterator[JsonRow | InvalidRow]:
    for number, line in enumerate(limited_lines(file), start=1):
        if line.strip():
            yield _line_row(line.removeprefix(codecs.BOM_UTF8).strip(), number, path)


def _line_row(line: bytes, number: int, path: Path) -> JsonRow | InvalidRow:
    if is_too_long(line):
        return _invalid(path, number, TOO_LONG, line[:_SHOWN].decode("utf-8", errors="replace"))
    text = line.decode("utf-8", errors="replace")
    try:
        return _check_row(path, number, parse_json(line.decode("utf-8")), text)
    except UnicodeDecodeError:
        return _invalid(path, number, "not UTF-8 text", text)
    except ValueError as error:
        return _invalid(path, number, f"not JSON ({error})", text)


def _list_rows(file: io.BufferedReader[Any], path: Path) -> Iterator[JsonRow | InvalidRow]:
    buffer = _ListBuffer(io.TextIOWrapper(file, encoding="utf-8-sig"))
    number = 1
    try:
        while (element := buffer.next_element()) is not None:
            yield _element_row(path, number, *element)
            number += 1
    except RecursionError as error:
        raise InvalidInput("not JSON (it is nested too deeply)", file=path, row=number) from error
    except json.JSONDecodeError as error:
        raise InvalidInput(f"the JSON list is broken or cut short here ({error.msg})", file=path, row=number) from error


def _element_row(path: Path, number: int, value: Any, text: str) -> JsonRow | InvalidRow:
    try:
        refuse_deep(value)
    except ValueError as error:
        return _invalid(path, number, f"not JSON ({error})", text)
    return _check_row(path, number, value, text)


class _ListBuffer:
    """Takes one JSON list apart element by element, holding only what it has not given out yet."""

    def __init__(self, text: TextIO) -> None:
        self._text = text
        self._buffer, self._start = "", 0
        self._separator = "["
        """What has to stand before the next element."""

    def next_element(self) -> tuple[Any, str] | None:
        """The next element and its text; None after the last. Raises `json.JSONDecodeError`; also for a long one."""
        first = self._separator == "["
        mark = self._skip_space()
        if mark == "]" and not first:
            return self._finish()
        if mark != self._separator:
            raise self._error(f"expected {self._separator!r}")
        self._start, self._separator = self._start + 1, ","
        if self._skip_space() == "]" and first:
            return self._finish()
        return self._decode()

    def _decode(self) -> tuple[Any, str]:
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._start)
            except json.JSONDecodeError:
                if len(self._buffer) - self._start > LONGEST_ROW:
                    raise self._error(TOO_LONG) from None
                if not self._read_more():
                    raise
                continue
            except ValueError as error:
                raise self._error(str(error)) from error
            if end - self._start > LONGEST_ROW:
                raise self._error(TOO_LONG)
            if end < len(self._buffer) or not self._read_more():
                text = self._buffer[self._start : end]
                self._start = end
                return value, text

    def _skip_space(self) -> str:
        """Move to the next character that is no white space, and tell it; empty at the end of the file."""
        while not (match := _NOT_SPACE.search(self._buffer, self._start)):
            self._start = len(self._buffer)
            if not self._read_more():
                return ""
        self._start = match.start()
        return match[0]

    def _read_more(self) -> bool:
        """Read as much again as is held, at least 1 MiB: a large element is tried few times. False at the end."""
        self._buffer, self._start = self._buffer[self._start :], 0
        more = self._text.read(max(_CHUNK, len(self._buffer)))
        self._buffer += more
        return bool(more)

    def _finish(self) -> None:
        self._start += 1
        if self._skip_space():
            raise self._error("text after the end of the list")

    def _error(self, problem: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(problem, self._buffer, self._start)


def _check_row(path: Path, number: int, value: Any, text: str) -> JsonRow | InvalidRow:
    if _SURROGATE_ESCAPE.search(text) and not _is_text(value):
        return _invalid(path, number, "holds half a surrogate pair (\\ud800 to \\udfff), which is no text", text)
    return JsonRow(row=number, value=value, text=text)


def _is_text(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _invalid(path: Path, number: int, problem: str, payload: str) -> InvalidRow:
    return InvalidRow(file=str(path), row=number, field=None, problem=problem, payload=payload)


_REFERENCE = re.compile(r"#(\d{1,9})")
"""Nine digits suffice to be out of range, and keep `int` from refusing a longer number."""


def check_question(question: Question, *, hops: str = "decomposition", paragraphs: str = "paragraphs") -> Question:
    """The question, when its parts fit together; `hops` and `paragraphs` are the fields' names in the file.

    Raises `InvalidInput` for two paragraphs of one id, a supporting paragraph that is not there, a hop that refers to
    itself, to a later one, or to none, and fewer hops than one.
    """
    ids = [paragraph.id for paragraph in question.paragraphs]
    twice = next((i for i, count in Counter(ids).items() if count > 1), None)
    if twice is not None:
        raise InvalidInput(f"two paragraphs have the id {twice}", field=paragraphs)
    for position, hop in enumerate(question.decomposition, start=1):
        name = f"{hops}[{position - 1}]"
        for target in map(int, _REFERENCE.findall(hop.question)):
            if not 1 <= target < position:
                problem = f"hop {position} refers to #{target}, which is not an earlier hop"
                raise InvalidInput(problem, field=f"{name}.question")
        if hop.support_id is not None and hop.support_id not in ids:
            raise InvalidInput(f"supporting paragraph {hop.support_id} is not among the paragraphs", field=name)
    for position, document in enumerate(question.supporting):
        if document.id is not None and document.id not in ids:
            problem = f"supporting paragraph {document.id} is not among the paragraphs"
            raise InvalidInput(problem, field=f"supporting[{position}].id")
    if question.num_hops is not None and question.num_hops < 1:
        raise InvalidInput(f"expected at least 1, found {question.num_hops}", field="num_hops")
    return question


def distinct_aliases(aliases: Iterable[str], answer: str) -> tuple[str, ...]:
    """Aliases in order, without empty ones, repeats, and the answer itself."""
    return tuple(alias for alias in dict.fromkeys(aliases) if alias and alias != answer)
