"""What every reader of a file of rows gives, and how a file is opened.

A file that cannot be read raises `InvalidInput`; a row that cannot be used is an `InvalidRow`, and the next is read.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trailforge.schemas import InvalidInput
from trailforge.schemas.files import open_unpacked

HEAD = 4096
"""Bytes at the start of a file by which its format is told."""
EXPECTED = "JSON Lines, JSON, CSV, TSV or Parquet"
AS_UTF_8 = "save it as UTF-8 (of Windows' code page: iconv -f CP1252 -t UTF-8 FILE > NEW)"
"""What mends a text in another encoding."""


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
    """A row whose value is that of a JSON text, or the cells of a table by their columns."""

    row: int
    """As in `InvalidRow`."""
    value: Any
    text: str
    """As it stands in the file; where that is no text, its fields as JSON."""


@contextmanager
def open_file(path: Path, expected: str = EXPECTED) -> Iterator[io.BufferedReader[Any]]:
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
        raise InvalidInput(f"not UTF-8 text; expected {expected}; {AS_UTF_8}", file=path) from error
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror or error})", file=path) from error


def head_of(file: io.BufferedReader[Any]) -> bytes:
    """How a file begins of which nothing is consumed, without a byte order mark and white space."""
    return file.peek(HEAD)[:HEAD].removeprefix(codecs.BOM_UTF8).lstrip()


def check_text(head: bytes) -> None:
    """Raise `UnicodeDecodeError` for the start of a binary file: a zero byte in it, or no UTF-8 in its first line."""
    if b"\0" in head:
        raise UnicodeDecodeError("utf-8", head, head.index(b"\0"), head.index(b"\0") + 1, "binary")
    codecs.getincrementaldecoder("utf-8")().decode(head.partition(b"\n")[0])
