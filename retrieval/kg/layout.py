"""A store's folder: built beside its place and renamed, so that a folder of that name is whole or not there.

Opening compares sizes; a run checks every byte before it starts (`check_once`). What still goes wrong while columns are
read is laid at the door of the file that is damaged, if one is (`raise_damage`).
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from trailforge.retrieval.seals import is_as_sealed, seal
from trailforge.schemas import (
    InvalidInput,
    KgStats,
    OutputError,
    RetrievalError,
    TrailforgeError,
    from_dict,
    parse_json,
    sync,
    to_dict,
)

MANIFEST = "manifest.json"
CHECKED = ".checked"
"""Note of the last check of all hashes; no part of the store."""
FORMAT = 2
_READABLE = (1, FORMAT)
"""Format 1 does not find names by what stands before their bracket or comma."""
_TEMPORARY = ".tmp-"
_LOCK = ".lock"
_SETTLED_S = 2.0
"""A file that was written less long ago may be written again within the same tick of the file system's clock."""
_MEND = "build the store again"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    """A file of a store."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that a store was made from."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreManifest:
    """What a store was made from, what it holds, and its files with their hashes."""

    format: int
    source: str
    inputs: tuple[InputFile, ...]
    stats: KgStats
    files: tuple[StoreFile, ...]
    seal: str = ""
    """See `retrieval.seals`; empty in stores of earlier versions."""


class _Reader(Protocol):
    @property
    def folder(self) -> Path: ...


Arguments = ParamSpec("Arguments")
S = TypeVar("S", bound=_Reader)
Result = TypeVar("Result")


@contextlib.contextmanager
def building(folder: Path) -> Iterator[Path]:
    """A folder to write to, which becomes `folder` at the end, or is removed when something goes wrong.

    What killed builds left beside it is removed. Raises `OutputError` when the folder exists or cannot be written.
    """
    if folder.exists():
        raise OutputError(f"{folder} exists; give another folder, or remove it first")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        temporary = folder.with_name(f".{folder.name}{_TEMPORARY}{uuid.uuid4().hex[:8]}")
        temporary.mkdir()
        try:
            with _held(temporary):
                yield temporary
                _sync(temporary)
                (temporary / _LOCK).unlink()
                os.rename(temporary, folder)
                sync(folder.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}; give another folder") from error


def write_manifest(folder: Path, source: str, inputs: list[Path], stats: KgStats) -> None:
    """Describe the files of a folder: what they were made from, what they hold, and their hashes."""
    files = sorted(path for path in folder.iterdir() if path.name != _LOCK)
    manifest = {
        "format": FORMAT,
        "source": source,
        "inputs": [{"path": str(path), "bytes": path.stat().st_size, "sha256": _sha256(path)} for path in inputs],
        "stats": to_dict(stats),
        "files": [{"name": path.name, "bytes": path.stat().st_size, "sha256": _sha256(path)} for path in files],
    }
    (folder / MANIFEST).write_text(json.dumps(seal(manifest), indent=1, ensure_ascii=False), encoding="utf-8")


def read_manifest(folder: Path) -> StoreManifest:
    """The manifest of a store whose files have the right sizes.

    Raises `InvalidInput` when the folder is no store, and `RetrievalError` when it is a damaged or an older one.
    """
    path = folder / MANIFEST
    try:
        content = parse_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput(
            "holds no knowledge graph: build one (`trailforge kg build`), and give the folder it wrote", file=folder
        ) from error
    except ValueError as error:
        raise RetrievalError(f"{path} is damaged: {_MEND}") from error
    if not isinstance(content, dict) or "files" not in content or "stats" not in content:
        raise InvalidInput("is the manifest of something else than a knowledge graph", file=path)
    if content.get("format") not in _READABLE:
        raise RetrievalError(f"{folder} is not of store format {FORMAT}: {_MEND}")
    manifest = _manifest_of(content, path)
    for file in manifest.files:
        if not _has_size(folder / file.name, file.bytes):
            raise RetrievalError(f"{folder / file.name} is missing or damaged: {_MEND}")
    return manifest


def check_hashes(folder: Path) -> None:
    """Read every byte of a store. Raises as `read_manifest`, and `RetrievalError` for the first file that differs."""
    for file in read_manifest(folder).files:
        if _sha256(folder / file.name) != file.sha256:
            raise RetrievalError(f"{folder / file.name} is damaged: {_MEND}")


def check_once(folder: Path) -> None:
    """`check_hashes`, unless that was done since anything in the store was written. Processes wait for the first one.

    The store keeps a note of each file's inode, size and times. Every write moves a file's time of change, which no
    program can set, and a copy has other inodes, so that what was noted is what is there; only what a disk loses
    without a write goes unnoticed. A store that cannot be written to is read anew each time.
    """
    with _one_at_a_time(folder):
        noted, newest = _state(folder)
        with contextlib.suppress(OSError):
            if (folder / CHECKED).read_text(encoding="utf-8", errors="replace") == noted:
                return
        check_hashes(folder)
        if newest < time.time() - _SETTLED_S and _state(folder)[0] == noted:
            _write_note(folder, noted)


def raise_damage(folder: Path, error: Exception) -> None:
    """Raise `RetrievalError` for the damaged file of a store that could not be read; nothing when all are sound.

    Our own errors say themselves what is wrong.
    """
    if not isinstance(error, TrailforgeError):
        check_hashes(folder)


def reads(
    function: Callable[Concatenate[S, Arguments], Result],
) -> Callable[Concatenate[S, Arguments], Result]:
    """For functions of a store: what only a damaged one makes them raise becomes `raise_damage`'s `RetrievalError`."""

    @functools.wraps(function)
    def read(store: S, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(store, *args, **kwargs)
        except Exception as error:  # numbers out of range, bytes that are no text, sizes beyond all memory …
            raise_damage(store.folder, error)
            raise

    return read


def _manifest_of(content: dict[str, Any], path: Path) -> StoreManifest:
    """Raises `RetrievalError` for fields that are missing or not as they were written."""
    if not is_as_sealed(content):
        raise RetrievalError(f"{path} is damaged: {_MEND}")
    try:
        return from_dict(StoreManifest, content)
    except InvalidInput as error:
        raise RetrievalError(f"{path} is damaged: {_MEND}") from error


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.is_file() and path.stat().st_size == size
    except (OSError, ValueError):  # a name that no file can have
        return False


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold the store's manifest, where the file system can lock."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            manifest = stack.enter_context((folder / MANIFEST).open("rb"))
            fcntl.flock(manifest, fcntl.LOCK_EX)
        yield


def _state(folder: Path) -> tuple[str, float]:
    """What tells that no file was written in between, and when the last one was (seconds since 1970)."""
    paths = [folder / MANIFEST, *(folder / file.name for file in read_manifest(folder).files)]
    states = [(path.name, path.stat()) for path in paths]
    lines = [f"{name} {at.st_ino} {at.st_size} {at.st_mtime_ns} {at.st_ctime_ns}" for name, at in states]
    return "\n".join(lines), max(at.st_ctime for _, at in states)


def _write_note(folder: Path, note: str) -> None:
    temporary = folder / f"{CHECKED}{_TEMPORARY}{uuid.uuid4().hex[:8]}"
    with contextlib.suppress(OSError):
        temporary.write_text(note, encoding="utf-8")
        os.replace(temporary, folder / CHECKED)


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary folders of builds of this store whose process is gone."""
    ours = re.compile(re.escape(f".{folder.name}{_TEMPORARY}") + "[0-9a-f]{8}")
    for leftover in list(folder.parent.iterdir()):
        if not ours.fullmatch(leftover.name) or leftover.is_symlink() or not leftover.is_dir():
            continue
        with contextlib.suppress(BlockingIOError, FileNotFoundError), _held(leftover):
            shutil.rmtree(leftover, ignore_errors=True)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; a kill lets go of it. Raises `BlockingIOError` when another one has it."""
    with open(folder / _LOCK, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _sync(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync(folder)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
