"""A store's folder: built beside its place and renamed, so that a folder of that name is whole or not there."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schemas import InvalidInput, KgStats, OutputError, RetrievalError, from_dict, sync, to_dict

MANIFEST = "manifest.json"
FORMAT = 1
_TEMPORARY = ".tmp-"
_LOCK = ".lock"


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
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False), encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a store whose files have the right sizes.

    Raises `InvalidInput` when the folder is no store, and `RetrievalError` when it is a damaged or an older one.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(
            "holds no knowledge graph: build one (`trailforge kg build`), and give the folder it wrote", file=folder
        ) from error
    except ValueError as error:
        raise RetrievalError(f"{folder / MANIFEST} is damaged: build the store again") from error
    if not isinstance(manifest, dict) or "files" not in manifest or "stats" not in manifest:
        raise InvalidInput("is the manifest of something else than a knowledge graph", file=folder / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise RetrievalError(f"{folder} is not of store format {FORMAT}: build the store again")
    for file in manifest["files"]:
        path = folder / file["name"]
        if not path.is_file() or path.stat().st_size != file["bytes"]:
            raise RetrievalError(f"{path} is missing or damaged: build the store again")
    return manifest


def stats_of(manifest: dict[str, Any]) -> KgStats:
    """The figures in a manifest."""
    return from_dict(KgStats, manifest["stats"])


def check_hashes(folder: Path) -> None:
    """Read every byte of a store. Raises as `read_manifest`, and `RetrievalError` for the first file that differs."""
    for file in read_manifest(folder)["files"]:
        if _sha256(folder / file["name"]) != file["sha256"]:
            raise RetrievalError(f"{folder / file['name']} is damaged: build the store again")


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary folders of builds of this store whose process is gone."""
    for leftover in folder.parent.glob(f".{folder.name}{_TEMPORARY}*"):
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
