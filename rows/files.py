"""Open files of rows, and define what every reader of them returns.

A file that cannot be read raises `InvalidInput`; a row that cannot be used is returned as an `InvalidRow`, and reading
continues.
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

from trailforge.schemas import InvalidInput, open_unpacked

HEAD = 4096
"""Number of bytes at the start of a file from which its format is detected."""
EXPECTED = "JSON Lines, JSON, CSV, TSV or Parquet"
AS_UTF_8 = "save it as UTF-8 (of Windows' code page: iconv -f CP1252 -t UTF-8 FILE > NEW)"
"""How to mend a text in another encoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidRow:
    """A row that cannot be used, with the reason why."""

    file: str
    row: int
    """Number of the row from 1: the line of a text file, the position in a JSON list, a Parquet file or a feed."""
    field: str | None
    """The field at fault, such as `question_decomposition[1].answer`; None when the row as a whole is."""
    problem: str
    payload: str
    """The row as it was read; of one that is too long, its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRow:
    """A row from JSON, or from the cells of a table by their columns."""

    row: int
    """Number of the row from 1; see `InvalidRow.row`."""
    value: Any
    text: str
    """Text of the row in the file; for a row that is not text in the file, its fields as JSON."""


@contextmanager
def open_file(path: Path, expected: str = EXPECTED) -> Iterator[io.BufferedReader[Any]]:
    """Open a file for reading bytes, unpacking gzip. Errors while reading become `InvalidInput` that names the file."""
    try:
        with open_unpacked(path) as file:
            yield file
    except FileNotFoundError as error:
        raise InvalidInput("no such file", file=path) from error
    except IsADirectoryError as error:
        raise InvalidInput("is a folder, expected a file", file=path) from error
    except EOFError as error:
        raise InvalidInput("the gzip file is cut short; fetch it again", file=path) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInput(f"the gzip file is damaged ({error}); fetch it again", file=path) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 text; expected {expected}; {AS_UTF_8}", file=path) from error
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror or error})", file=path) from error


def head_of(file: io.BufferedReader[Any]) -> bytes:
    """Return the beginning of a file without a byte order mark and white space, and without consuming it."""
    return file.peek(HEAD)[:HEAD].removeprefix(codecs.BOM_UTF8).lstrip()


def check_text(head: bytes) -> None:
    """Raise `UnicodeDecodeError` for the start of a binary file: one with a zero byte, or a first line that is not
    UTF-8."""
    if b"\0" in head:
        raise UnicodeDecodeError("utf-8", head, head.index(b"\0"), head.index(b"\0") + 1, "binary")
    codecs.getincrementaldecoder("utf-8")().decode(head.partition(b"\n")[0])
