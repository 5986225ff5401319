"""Stream rows of JSON: one value a line, one list, or one object around the list. A few MB are in memory at a time."""

from __future__ import annotations

import ast
import codecs
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from trailforge.rows.files import AS_UTF_8, InvalidRow, JsonRow
from trailforge.schemas import LONGEST_ROW, TOO_LONG, InvalidInput, is_too_long, limited_lines, parse_json, refuse_deep

IsRow = Callable[[Sequence[str]], bool]
"""A function that tells whether an object with these keys is a row, not an object around a list of rows."""
Key = tuple[str, ...]
"""Keys that lead to a list inside an object, such as `("response", "docs")`."""

_CHUNK = 1 << 20
_SHOWN = 1000
_LEVELS = 3
"""Objects within each other in which a list of rows is looked for."""
_LONGEST_LITERAL = 1 << 20
"""Characters of a list in Python, whose parser takes far more room than it says."""
_GOES_ON = (b"{", b"[", b",", b":")
"""Ends of a line after which a JSON value goes on."""
_NOT_SPACE = re.compile(r"[^ \t\r\n]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_DECODER = json.JSONDecoder()


def list_rows(file: io.BufferedReader[Any], path: Path) -> Iterator[JsonRow | InvalidRow]:
    """Stream the elements of a file that is one list. Raises `InvalidInput` for a list that is broken or cut short,
    since after the error elements cannot be recognised.
    """
    buffer, number = _Buffer(file), 1
    try:
        for value, text in buffer.elements():
            yield _element_row(path, number, value, text)
            number += 1
        buffer.finish("list")
    except RecursionError as error:
        raise InvalidInput("not JSON (it is nested too deeply)", file=path, row=number) from error
    except json.JSONDecodeError as error:
        raise InvalidInput(f"the JSON list is broken or cut short here ({error.msg})", file=path, row=number) from error


def object_rows(file: io.BufferedReader[Any], path: Path, is_row: IsRow) -> Iterator[JsonRow | InvalidRow]:
    """Stream the rows of a file that begins with an object: one value a line, or one object over all lines, which is a
    row or holds the list of rows. Raises `InvalidInput` for an object in which the list cannot be identified, and for a
    broken one."""
    lines = ((number, line) for number, line in enumerate(limited_lines(file), start=1) if line.strip())
    begun = [line for line in (next(lines, None), next(lines, None)) if line is not None]
    first = begun[0][1].removeprefix(codecs.BOM_UTF8).strip() if begun else b""
    is_whole = _is_json(first)
    if file.seekable() and (len(begun) == 1 or not is_whole):
        file.seek(0)
        try:
            keys, lists = _outline(_Buffer(file))
        except (ValueError, RecursionError) as error:
            if first.endswith(_GOES_ON):
                problem = f"the JSON object is broken or cut short ({error}); write each row on a line, or one list"
                raise InvalidInput(problem, file=path) from error
            begun = []
        else:
            wanted = None if is_row(keys) else _list_of_rows(lists, path)
            if wanted is not None or not is_whole:
                yield from _rows_of_object(file, path, wanted)
                return
        if not begun:
            file.seek(0)
            yield from line_rows(file, path)
            return
    for number, line in chain(begun, lines):
        yield _line_row(line, number, path)


def line_rows(file: io.BufferedReader[Any], path: Path) -> Iterator[JsonRow | InvalidRow]:
    """Stream the values of a file with one value a line, empty lines left out."""
    for number, line in enumerate(limited_lines(file), start=1):
        if line.strip():
            yield _line_row(line, number, path)


def _is_json(line: bytes) -> bool:
    try:
        parse_json(line)
    except ValueError:
        return False
    return not is_too_long(line)


def _outline(buffer: _Buffer) -> tuple[list[str], dict[Key, bool | None]]:
    """The keys of a file's one object, and of each list in it whether it begins with an object; None: it is empty."""
    keys, lists = dict[str, None](), dict[Key, bool | None]()
    for key, value, _ in buffer.members():
        keys[key[0]] = None
        if value is _BEGIN:
            lists[key] = None
        elif lists.get(key, True) is None:
            lists[key] = isinstance(value, dict)
    buffer.finish("object")
    return list(keys), lists


def _list_of_rows(lists: dict[Key, bool | None], path: Path) -> Key | None:
    """The list of objects that is nearest to the top; None when there is none. Raises `InvalidInput` for several."""
    for levels in range(1, _LEVELS + 1):
        near = [key for key in lists if len(key) == levels]
        found = [key for key in near if lists[key]] or [key for key in near if lists[key] is None]
        if len(found) > 1 and lists[found[0]]:
            named = ", ".join(".".join(key) for key in found)
            raise InvalidInput(f"one JSON object with several lists of objects ({named}); keep one of them", file=path)
        if len(found) == 1:
            return found[0]
    return None


def _rows_of_object(file: io.BufferedReader[Any], path: Path, wanted: Key | None) -> Iterator[JsonRow | InvalidRow]:
    """The elements of a list of the file's one object; the object itself when none is wanted."""
    file.seek(0)
    buffer = _Buffer(file)
    if wanted is None:
        try:
            yield _element_row(path, 1, *buffer.value())
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"not JSON ({error})", file=path, row=1) from error
        return
    elements = ((value, text) for key, value, text in buffer.members() if key == wanted and value is not _BEGIN)
    for number, (value, text) in enumerate(elements, start=1):
        yield _element_row(path, number, value, text)


def _line_row(line: bytes, number: int, path: Path) -> JsonRow | InvalidRow:
    line = line.removeprefix(codecs.BOM_UTF8).strip()
    if is_too_long(line):
        return _invalid(path, number, TOO_LONG, line[:_SHOWN].decode("utf-8", errors="replace"))
    text = line.decode("utf-8", errors="replace")
    try:
        return _check_row(path, number, parse_json(line.decode("utf-8")), text)
    except UnicodeDecodeError:
        return _invalid(path, number, f"not UTF-8 text; {AS_UTF_8}", text)
    except ValueError as error:
        return _invalid(path, number, f"not JSON ({error})", text)


def _element_row(path: Path, number: int, value: Any, text: str) -> JsonRow | InvalidRow:
    try:
        refuse_deep(value)
    except ValueError as error:
        return _invalid(path, number, f"not JSON ({error})", text)
    return _check_row(path, number, value, text)


_BEGIN = object()
"""In place of a first element: here a list begins."""


class _Buffer:
    """Takes one JSON list or object apart piece by piece, holding only what it has not given out yet.

    Raises `json.JSONDecodeError` for what is broken, cut short, or too long for a row.
    """

    def __init__(self, file: io.BufferedReader[Any]) -> None:
        self._file, self._decoder = file, codecs.getincrementaldecoder("utf-8-sig")()
        self._buffer, self._start = "", 0
        self._is_read = False
        """Whether the file has come to its end."""

    def elements(self) -> Iterator[tuple[Any, str]]:
        """The elements of the list that begins here, and their texts."""
        for _ in self._parts("[", "]"):
            yield self.value()

    def members(self, above: Key = ()) -> Iterator[tuple[Key, Any, str]]:
        """What the object that begins here holds, with its key: of lists a mark and each element, of objects these in
        turn, of all else nothing but the key."""
        for _ in self._parts("{", "}"):
            name, text = self.value()
            if not isinstance(name, str) or self._skip_space() != ":":
                raise self._error("expected a key and ':'")
            self._start += 1
            key, mark = (*above, name), self._skip_space()
            if mark == "[":
                yield key, _BEGIN, ""
                yield from ((key, *element) for element in self.elements())
            elif mark == "{" and len(key) < _LEVELS:
                yield key, None, text
                yield from self.members(key)
            else:
                yield key, None, self.value()[1]

    def value(self) -> tuple[Any, str]:
        """The value that begins here, and its text."""
        self._skip_space()
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

    def finish(self, kind: str) -> None:
        """Check that nothing follows."""
        if self._skip_space():
            raise self._error(f"text after the end of the {kind}")

    def _parts(self, opening: str, closing: str) -> Iterator[None]:
        """Stops where each part begins, and expects to go on where it ends."""
        separator = opening
        while True:
            mark = self._skip_space()
            if mark == closing and separator == ",":
                break
            if mark != separator:
                raise self._error(f"expected {separator!r}")
            self._start += 1
            if self._skip_space() == closing and separator == opening:
                break
            separator = ","
            yield
        self._start += 1

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
        while not self._is_read:
            content = self._file.read(max(_CHUNK, len(self._buffer)))
            self._is_read = not content
            if more := self._decoder.decode(content, self._is_read):
                self._buffer += more
                return True
        return False

    def _error(self, problem: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(problem, self._buffer, self._start)


def _check_row(path: Path, number: int, value: Any, text: str) -> JsonRow | InvalidRow:
    if _SURROGATE_ESCAPE.search(text) and not _is_text(value):
        fields = value.items() if isinstance(value, dict) else ()
        field = next((name for name, inner in fields if _is_text(name) and not _is_text(inner)), None)
        return _invalid(path, number, "holds half a surrogate pair (\\ud800 to \\udfff), which is no text", text, field)
    return JsonRow(row=number, value=value, text=text)


def _is_text(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _invalid(path: Path, number: int, problem: str, payload: str, field: str | None = None) -> InvalidRow:
    return InvalidRow(file=str(path), row=number, field=field, problem=problem, payload=payload)


def parsed(text: str) -> Any:
    """Parse the text of a list or an object, as cells of tables hold them; return any other text itself.

    The text may be JSON or, as pandas writes them, Python.
    """
    inside = text.strip()
    if inside[:1] + inside[-1:] not in ("[]", "{}"):
        return text
    try:
        return parse_json(inside)
    except ValueError:
        pass
    try:
        return ast.literal_eval(inside) if len(inside) < _LONGEST_LITERAL else text
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text
