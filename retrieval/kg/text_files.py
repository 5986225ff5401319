"""Text files line by line: plain, gzip, or a member of a tar archive, as the published graphs come."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from trailforge.schemas import InvalidInput
from trailforge.schemas.text_files import TOO_LONG, is_too_long, limited_lines, unpacked


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file, or a file inside an archive."""

    path: Path
    member: str | None = None
    """Name inside the tar archive `path`; None when it is a file by itself."""

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}/{self.member}"

    def lines(self) -> Iterator[tuple[int, str]]:
        """Lines that are not empty, with their numbers from 1. Bytes that are no UTF-8 become U+FFFD.

        Raises `InvalidInput` for a file that is missing, cut short or cannot be read, and for a line that is too long.
        """
        with readable(self.path), self.opened() as file:
            for number, line in enumerate(limited_lines(file), start=1):
                if is_too_long(line):
                    raise InvalidInput(TOO_LONG, file=self, row=number)
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                if text:
                    yield number, text.removeprefix("\ufeff") if number == 1 else text

    @contextmanager
    def opened(self) -> Iterator[IO[bytes] | io.BufferedReader[Any]]:
        """Its bytes, unpacked where it is gzip."""
        if self.member is not None:
            with tarfile.open(self.path) as archive:
                file = archive.extractfile(self.member)
                assert file is not None  # `members_of` lists files alone
                yield file
            return
        with unpacked(self.path) as file:
            yield file


def members_of(path: Path) -> list[TextFile]:
    """The files in a tar archive. Raises `InvalidInput` when it cannot be read."""
    with readable(path), tarfile.open(path) as archive:
        return [TextFile(path, member.name) for member in archive.getmembers() if member.isfile()]


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into `InvalidInput` that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidInput("no such file", file=path) from error
    except IsADirectoryError as error:
        raise InvalidInput("is a folder, expected a file", file=path) from error
    except EOFError as error:
        raise InvalidInput("the file is cut short", file=path) from error
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInput(f"the file is damaged ({error})", file=path) from error
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror or error})", file=path) from error
