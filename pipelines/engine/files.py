"""Write files that are either whole or absent, in a run's folder that one process at a time locks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import filecmp
import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path

from trailforge.schemas import FileEntry, OutputError, sync

LOCK = ".lock"
"""Name of the file by which one process holds a folder."""
_TEMPORARY = re.compile(r"\.(.+)\.tmp-[0-9a-f]{8}", re.DOTALL)
"""Name of the temporary file of a file, whose own name is the group."""
_MENDS = {
    errno.ENOSPC: "the disk is full; free some space and run the same command again",
    errno.EDQUOT: "the disk quota is used up; free some space and run the same command again",
    errno.EROFS: "the file system is read-only; give another --out",
    errno.EACCES: "no permission to write there; give another --out",
    errno.EPERM: "no permission to write there; give another --out",
    errno.ENOTDIR: "part of the path is a file, not a folder; give another --out",
    errno.EEXIST: "a file of that name is in the way; give another --out",
}


@contextlib.contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Convert the system's errors about a path that is written into `OutputError`, with what to do about them."""
    try:
        yield
    except OSError as error:
        mend = _MENDS.get(error.errno or 0, error.strerror or str(error))
        raise OutputError(f"cannot write {path}: {mend}") from error


_check_leave: ContextVar[Callable[[], object] | None] = ContextVar("check_leave", default=None)


@contextlib.contextmanager
def writing_by_leave(check: Callable[[], object]) -> Iterator[None]:
    """Call `check` before each file of a `with` block is renamed or removed: it raises where another writer may own the
    file.
    """
    token = _check_leave.set(check)
    try:
        yield
    finally:
        _check_leave.reset(token)


def remove_file(path: Path) -> None:
    """Remove a file of an earlier try, if it is there and may be removed."""
    if (check := _check_leave.get()) is not None:
        check()
    path.unlink(missing_ok=True)


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file, sync it to disk, and rename it. After a kill, the file is whole or absent. A
    file that already has these bytes is left alone.
    """
    temporary = path.with_name(f".{path.name}.tmp-{uuid.uuid4().hex[:8]}")
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(temporary)
            sync(temporary)
            if (check := _check_leave.get()) is not None:
                check()
            if not (path.is_file() and filecmp.cmp(temporary, path, shallow=False)):
                os.replace(temporary, path)
                sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text as `write_atomically` does: the file is whole or absent, even after a kill."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Give a temporary folder to fill, which is renamed to `out` when all is done and removed when something goes
    wrong. Raises `OutputError` when `out` exists and is not empty, or cannot be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OutputError(f"{out} is there already; give another --out")
    temporary = out.with_name(f".{out.name}.tmp-{uuid.uuid4().hex[:8]}")
    with output_errors(out):
        try:
            temporary.mkdir(parents=True)
            yield temporary
            for path in [*temporary.rglob("*"), temporary]:
                sync(path)
            os.rename(temporary, out)  # onto an empty folder too
            sync(out.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def plain_files(folder: Path) -> list[Path]:
    """List the files directly in a folder, sorted; links are left out, and a folder that is a link or does not exist
    has none.
    """
    if folder.is_symlink() or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.is_file(follow_symlinks=False))


def unfinished_name(name: str) -> str | None:
    """Return the name that a temporary file of `write_atomically` would have got; None for any other file."""
    found = _TEMPORARY.fullmatch(name)
    return found[1] if found else None


def remove_temporary_files(folder: Path, is_ours: Callable[[str], bool]) -> None:
    """Remove what a killed process left half-written directly in this folder, whose lock the caller holds. `is_ours`
    tells whether this program writes files of a name.
    """
    for path in plain_files(folder):
        name = unfinished_name(path.name)
        if name is not None and is_ours(name):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Lock the run folder for this process during a `with` block. Raises `OutputError` when another one has it. A kill
    releases the lock. A folder that was made for the block is removed again when the block fails and has written
    nothing.
    """
    is_new = not folder.exists()
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / LOCK, "a")  # noqa: SIM115 - held until the end of the block
    with lock:
        if not _try_lock(lock.fileno()):
            raise OutputError(f"{folder}: another run is writing here; wait for it or give another --out")
        try:
            yield
        except BaseException:
            if is_new and folder.is_dir() and os.listdir(folder) == [LOCK]:
                (folder / LOCK).unlink()
                folder.rmdir()
            raise


def is_held(folder: Path) -> bool:
    """Tell whether a process has locked the run folder now."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def what_is_wrong(folder: Path, entry: FileEntry) -> str:
    """Say why a file of a folder differs from its entry in a manifest; empty when it does not. The whole file is
    read.
    """
    path = folder / entry.path
    try:
        if not path.is_file():
            return "missing"
        return "" if sha256_of(path) == entry.sha256 else "not as it was written (its sha256 differs)"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"


def _try_lock(descriptor: int) -> bool:
    """Take the lock. A second try, for `is_held` has it for the moment in which it looks."""
    for wait_s in (0.05, 0.0):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.fstat(descriptor).st_nlink > 0  # or whoever had made the folder has just removed it
        except OSError:
            time.sleep(wait_s)
    return False
