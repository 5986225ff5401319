"""Sealed folders: built beside their final path and renamed, with a manifest that has the hashes of their files and of
itself.

Opening one compares sizes; before it is used, every byte is read once (`check_once`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from trailforge.schemas import InvalidInput, OutputError, RetrievalError, from_dict, sync

T = TypeVar("T")

SEAL = "seal"
CHECKED = ".checked"
"""Name of the note of the last check of all hashes, which is no part of the folder's content."""
_TEMPORARY = ".tmp-"
_LOCK = ".lock"
_SETTLED_S = 2.0
"""A file that was written less long ago may be written again within the same tick of the file system's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFile:
    """A file of a sealed folder, with its size and hash."""

    name: str
    """Name of the file relative to the folder, with slashes."""
    bytes: int
    sha256: str


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with its own SHA-256 added under `SEAL`."""
    return {**content, SEAL: _make_seal(content)}


def is_as_sealed(content: Mapping[str, Any]) -> bool:
    """Tell whether a content still matches its own hash; True also without a hash, as earlier versions wrote it."""
    return SEAL not in content or content[SEAL] == _make_seal({name: content[name] for name in content if name != SEAL})


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write a content with its own hash. Raises `OSError`."""
    path.write_text(json.dumps(seal(content), indent=1, ensure_ascii=False), encoding="utf-8")


def unsealed(record: type[T], content: dict[str, Any], path: Path, mend: str) -> T:
    """Return the record of a content after checking its hash. Raises `RetrievalError`, with the advice `mend`, when the
    file at `path` was changed after it was written.
    """
    damage = RetrievalError(f"{path} is damaged: {mend}")
    if not is_as_sealed(content):
        raise damage
    try:
        return from_dict(record, content)
    except InvalidInput as error:
        raise damage from error


def _make_seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def building(folder: Path) -> Iterator[Path]:
    """Give a folder to write to, which is renamed to `folder` at the end, or removed when something goes wrong.

    Remains of killed builds beside it are removed; parent folders that were made for it are removed, too, when they
    stay empty. Raises `OutputError` when the folder exists or cannot be written.
    """
    refuse_existing(folder)
    new = [above for above in folder.parents if not above.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        temporary = folder.with_name(f".{folder.name}{_TEMPORARY}{uuid.uuid4().hex[:8]}")
        temporary.mkdir()
        try:
            with held(temporary):
                yield temporary
                for path in [*temporary.rglob("*"), temporary]:
                    sync(path)
                (temporary / _LOCK).unlink()
                os.rename(temporary, folder)
                sync(folder.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            for above in new:
                with contextlib.suppress(OSError):  # it is not empty
                    above.rmdir()
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}; give another folder") from error


def refuse_existing(folder: Path) -> None:
    """Raise `OutputError` when a folder cannot be made because something of its name exists."""
    if folder.exists():
        raise OutputError(f"{folder} exists; give another folder, or remove it first")


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; a kill releases it. Raises `BlockingIOError` when another process holds it."""
    with open(folder / _LOCK, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def describe_files(folder: Path) -> list[SealedFile]:
    """Describe all files in a folder and below, in order, with their hashes, except for names that begin with a dot."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    named = sorted((path.relative_to(folder).as_posix(), path) for path in paths)
    return [SealedFile(name=name, bytes=path.stat().st_size, sha256=file_hash(path)) for name, path in named]


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes. Raises `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sizes(folder: Path, files: Sequence[SealedFile], mend: str) -> None:
    """Raise `RetrievalError`, with the advice `mend`, for the first file that is missing or of another size."""
    for file in files:
        if not _has_size(folder / file.name, file.bytes):
            raise RetrievalError(f"{folder / file.name} is missing or damaged: {mend}")


class HeldFiles:
    """The files of a sealed folder, kept open while they are memory-mapped.

    Where such a file is truncated, its pages disappear: reading there gives zeros, or ends the process (SIGBUS). So
    sizes are checked before the files are read, and again before what was read is used. Files that replace them in the
    folder make no difference.
    """

    def __init__(self, folder: Path, files: Sequence[SealedFile], mend: str) -> None:
        """Raises `RetrievalError` for one that cannot be opened."""
        self._folder, self._mend, self._open = folder, mend, list[tuple[int, SealedFile]]()
        weakref.finalize(self, _close_all, self._open)
        for file in files:
            try:
                self._open.append((os.open(folder / file.name, os.O_RDONLY | os.O_CLOEXEC), file))
            except OSError as error:
                raise RetrievalError(f"{folder / file.name} is missing or damaged: {mend}") from error

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Check the files before and after the `with` block that reads them. Raises what `check` raises, whatever else
        goes wrong within.
        """
        self.check()
        try:
            yield
        finally:
            self.check()

    def check(self) -> None:
        """Raise `RetrievalError` for the first file whose size has changed. It takes about a microsecond a file."""
        for number, file in self._open:
            if os.fstat(number).st_size != file.bytes:
                raise RetrievalError(f"{self._folder / file.name} has been changed while it is in use: {self._mend}")


def _close_all(files: list[tuple[int, SealedFile]]) -> None:
    for number, _ in files:
        os.close(number)


def check_hashes(folder: Path, files: Sequence[SealedFile], mend: str) -> None:
    """Read every byte and compare hashes. Raises what `check_sizes` raises, and `RetrievalError`, with the advice
    `mend`, for the first file that differs.
    """
    check_sizes(folder, files, mend)
    for file in files:
        if file_hash(folder / file.name) != file.sha256:
            raise RetrievalError(f"{folder / file.name} is damaged: {mend}")


def check_once(folder: Path, manifest: str, files: Sequence[SealedFile], mend: str) -> None:
    """Run `check_hashes`, unless that was done since anything in the folder was written; other processes wait for the
    first one. `manifest` is the name of the folder's manifest file.

    The folder keeps a note of each file's inode, size and times. Every write changes a file's change time, which no
    program can set, and a copy has other inodes, so that the note still holds for unchanged files; only what a disk
    loses without a write goes unnoticed. A folder that cannot be written to is read again each time.
    """
    with _one_at_a_time(folder / manifest):
        check_sizes(folder, files, mend)
        names = [manifest, *(file.name for file in files)]
        noted, newest = _state(folder, names)
        with contextlib.suppress(OSError):
            if (folder / CHECKED).read_text(encoding="utf-8", errors="replace") == noted:
                return
        check_hashes(folder, files, mend)
        if newest < time.time() - _SETTLED_S and _state(folder, names)[0] == noted:
            _write_note(folder, noted)


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.is_file() and path.stat().st_size == size
    except (OSError, ValueError):  # a name that no file can have
        return False


@contextlib.contextmanager
def _one_at_a_time(manifest: Path) -> Iterator[None]:
    """Hold the manifest, where the file system can lock."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = stack.enter_context(manifest.open("rb"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _state(folder: Path, names: Sequence[str]) -> tuple[str, float]:
    """What tells that no file was written in between, and when the last one was (seconds since 1970)."""
    states = [(name, (folder / name).stat()) for name in names]
    lines = [f"{name} {at.st_ino} {at.st_size} {at.st_mtime_ns} {at.st_ctime_ns}" for name, at in states]
    return "\n".join(lines), max(at.st_ctime for _, at in states)


def _write_note(folder: Path, note: str) -> None:
    temporary = folder / f"{CHECKED}{_TEMPORARY}{uuid.uuid4().hex[:8]}"
    with contextlib.suppress(OSError):
        temporary.write_text(note, encoding="utf-8")
        os.replace(temporary, folder / CHECKED)


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary folders of builds of this folder whose process is gone."""
    ours = re.compile(re.escape(f".{folder.name}{_TEMPORARY}") + "[0-9a-f]{8}")
    for leftover in list(folder.parent.iterdir()):
        if not ours.fullmatch(leftover.name) or leftover.is_symlink() or not leftover.is_dir():
            continue
        with contextlib.suppress(BlockingIOError, FileNotFoundError), held(leftover):
            shutil.rmtree(leftover, ignore_errors=True)
