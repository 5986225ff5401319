"""Files held against each other byte for byte, by their hashes: two that differ do not print themselves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path


def digest(content: bytes) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digests(folder: Path, files: Iterable[Path]) -> dict[str, str]:
    """Of files below a folder, by path."""
    return {path.relative_to(folder).as_posix(): digest(path.read_bytes()) for path in sorted(files)}


def restate(folder: Path) -> None:
    """Make the manifest of a changed run or training set say the hashes that its files have now."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    for entry in manifest["files"]:
        entry["sha256"] = digest((folder / entry["path"]).read_bytes())
    path.write_text(json.dumps(manifest), encoding="utf-8")


def contents(folder: Path) -> dict[str, str]:
    """Of every file of a folder but the lock, by path."""
    return digests(folder, (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"))
