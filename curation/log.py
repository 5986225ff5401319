"""Logs to which several processes append records, a line each; what a killed one left half-written is passed over."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from trailforge.schemas import InvalidInput, OutputError, from_stored, parse_json, sync, to_dict, version_of

T = TypeVar("T")
_TAIL = 1 << 20
"""Bytes at the end in which the last line begins; no line may be longer."""


def append_records(path: Path, records: Sequence[object]) -> None:
    """Write records at the end of a log and bring them to disk, all or none. The next append removes a half line.

    Raises `OutputError` when the log cannot be written, `InvalidInput` for a line of more than a mebibyte, and for text
    that was no UTF-8 when it was typed.
    """
    lines = b"".join(map(_line, records))
    try:
        path.parent.mkdir(exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _write_at_end(descriptor, lines)
        finally:
            os.close(descriptor)
        sync(path.parent)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def read_records(path: Path, record: type[T], checked: Callable[[T], T]) -> list[T]:
    """The records of a log, in its order; none where there is no such file.

    Raises `InvalidInput` naming the line that is no such record or that `checked` refuses; only the last one may be
    half-written.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", file=path) from error
    *lines, tail = content.split(b"\n")
    lines += [tail] if _is_whole(tail) else []
    return [
        _parse_line(line, path, number, record, checked) for number, line in enumerate(lines, start=1) if line.strip()
    ]


def _line(record: object) -> bytes:
    text = json.dumps(to_dict(record), ensure_ascii=False) + "\n"
    try:
        line = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"not valid UTF-8 ({text[error.start : error.end]!r})") from error
    if len(line) > _TAIL:
        raise InvalidInput(f"more than {_TAIL:,} bytes in a line", field="value")
    return line


def _write_at_end(descriptor: int, lines: bytes) -> None:
    """Append whole lines; what a killed process left without its line end goes first, unless it is all there."""
    size = os.fstat(descriptor).st_size
    start = max(0, size - _TAIL)
    tail = os.pread(descriptor, size - start, start).rpartition(b"\n")[2]
    if tail:
        lines = b"\n" + lines if _is_whole(tail) else lines
        size -= 0 if _is_whole(tail) else len(tail)
    os.ftruncate(descriptor, size)
    try:
        written = 0
        while written < len(lines):
            written += os.pwrite(descriptor, lines[written:], size + written)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)  # the disk is full: nothing of it counts
        raise


def _is_whole(tail: bytes) -> bool:
    """Whether the end of a log without line end lacks nothing but that."""
    try:
        return isinstance(parse_json(tail), dict)
    except ValueError:
        return False


def _parse_line(line: bytes, path: Path, number: int, record: type[T], checked: Callable[[T], T]) -> T:
    try:
        content = parse_json(line)
        if isinstance(content, dict):
            content.setdefault("schema_version", version_of(record))
        return checked(from_stored(record, content, source=path))
    except InvalidInput as error:
        raise InvalidInput(error.problem, file=path, row=number, field=error.field) from error
    except ValueError as error:
        raise InvalidInput(f"not valid JSON ({error})", file=path, row=number) from error
