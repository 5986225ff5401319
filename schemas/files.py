"""Read and write files, safe against power cuts, memory limits and deeply nested JSON."""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from trailforge.schemas.errors import InvalidInput


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def user_cache(name: str) -> Path:
    """Return trailforge's folder of this name in the user's cache. It may not exist yet."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "trailforge" / name


LONGEST_ROW = 1 << 24
"""Largest number of bytes, after unpacking, of one line, list element, record or entry. It is longer than any book; a
gzip file of two megabytes may unpack to a line of two gigabytes."""
TOO_LONG = f"longer than {LONGEST_ROW >> 20} MiB"
_LONGEST_VALUE = 1 << 29
"""Bytes of a file that is read as one value."""
_GZIP = b"\x1f\x8b"


@contextmanager
def open_unpacked(path: Path) -> Iterator[io.BufferedReader[Any]]:
    """Open a file for reading bytes, unpacking gzip whatever the file's name. Errors are the system's and zlib's."""
    with path.open("rb") as raw:
        packed = raw.peek(len(_GZIP)).startswith(_GZIP)
        yield io.BufferedReader(gzip.GzipFile(fileobj=raw)) if packed else raw


def limited_lines(file: IO[bytes] | io.BufferedReader[Any]) -> Iterator[bytes]:
    """Yield the lines of a file with their ends. Of a line for which `is_too_long` holds, only the beginning is
    yielded."""
    while line := file.readline(LONGEST_ROW + 1):
        yield line
        rest = line
        while len(rest) > LONGEST_ROW and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST_ROW + 1)


def is_too_long(line: bytes) -> bool:
    """Tell whether a line from `limited_lines` is only the beginning of one that is too long to be read."""
    return len(line) > LONGEST_ROW


def read_limited(file: IO[bytes] | io.BufferedReader[Any], path: object) -> bytes:
    """Read the rest of a file that holds one value. Raises `InvalidInput` for more than 512 MiB."""
    content = file.read(_LONGEST_VALUE + 1)
    if len(content) > _LONGEST_VALUE:
        raise InvalidInput(f"more than {_LONGEST_VALUE >> 20} MiB in one JSON value; use JSON Lines", file=path)
    return content


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the values of a JSON Lines file, plain or gzip, with their line numbers from 1; empty lines are left out.

    Raises `InvalidInput` for a file that cannot be read, and naming the first line that is no JSON.
    """
    try:
        with open_unpacked(path) as file:
            for number, line in enumerate(limited_lines(file), start=1):
                if line.strip():
                    yield number, _value(line, path, number)
    except FileNotFoundError as error:
        raise InvalidInput("no such file", file=path) from error
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"cannot be read as JSON Lines ({error})", file=path) from error


def _value(line: bytes, path: Path, number: int) -> Any:
    if is_too_long(line):
        raise InvalidInput(TOO_LONG, file=path, row=number)
    try:
        return parse_json(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 text ({error})", file=path, row=number) from error
    except ValueError as error:
        raise InvalidInput(f"not JSON ({error})", file=path, row=number) from error


MOST_DEEP = 100
"""Deepest nesting of lists and objects that is read. No file of trailforge has ten levels; the limit keeps recursion
from overflowing the stack."""


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON value. Raises `ValueError` for what is no JSON, no UTF-8, or nested deeper than `MOST_DEEP`."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    opened = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if opened > MOST_DEEP:
        refuse_deep(value)
    return value


def refuse_deep(value: Any) -> None:
    """Raise `ValueError` for a value of JSON that is nested deeper than `MOST_DEEP`."""
    if _is_deeper(value, MOST_DEEP):
        raise ValueError(f"it is nested more than {MOST_DEEP} levels deep")


def _is_deeper(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels + 1):
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return False
    return True


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
