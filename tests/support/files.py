"""Files held against each other byte for byte, by their hashes: two that differ do not print themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def digest(content: bytes) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digests(folder: Path, files: Iterable[Path]) -> dict[str, str]:
    """Of files below a folder, by path."""
    return {path.relative_to(folder).as_posix(): digest(path.read_bytes()) for path in sorted(files)}


def contents(folder: Path) -> dict[str, str]:
    """Of every file of a folder but the lock, by path."""
    return digests(folder, (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"))
