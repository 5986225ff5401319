"""Folders that are either whole or not there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from trailforge.schemas import FileEntry, OutputError, sync


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name when all is done and is removed when something goes wrong.

    Raises `OutputError` when there is one of that name that holds something, or it cannot be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OutputError(f"{out} is there already; give another --out")
    temporary = out.with_name(f".{out.name}.tmp-{uuid.uuid4().hex[:8]}")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for path in [*temporary.rglob("*"), temporary]:
            sync(path)
        os.rename(temporary, out)  # onto an empty folder too
        sync(out.parent)
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def entry_of(folder: Path, path: Path, rows: int) -> FileEntry:
    """A file as manifests describe it."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileEntry(path=path.relative_to(folder).as_posix(), rows=rows, sha256=digest)
