"""The folder of a store, with a manifest of file hashes (`retrieval.indexes.seals`), and the errors for a damaged one.

Opening compares sizes; a run checks every byte before it starts (`check_once`). An error while columns are read is
reported as damage of the file that is damaged, if one is (`raise_damage`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from trailforge.retrieval.indexes import seals
from trailforge.retrieval.indexes.seals import SealedFile, describe_files, file_hash
from trailforge.schemas import InvalidInput, KgStats, RetrievalError, TrailforgeError, parse_json, to_dict

MANIFEST = "manifest.json"
FORMAT = 3
"""Version of the format of the files, and of the words of names (`retrieval.words`) in them."""
_MEND = "build the store again"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that a store was made from."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreManifest:
    """Description of a store: its sources, its size, and its files with their hashes."""

    format: int
    source: str
    inputs: tuple[InputFile, ...]
    stats: KgStats
    files: tuple[SealedFile, ...]
    seal: str = ""
    """Hash of the manifest itself, see `retrieval.indexes.seals`; empty in stores of earlier versions."""


class _Reader(Protocol):
    @property
    def folder(self) -> Path: ...


Arguments = ParamSpec("Arguments")
S = TypeVar("S", bound=_Reader)
Result = TypeVar("Result")


def write_manifest(folder: Path, source: str, inputs: list[Path], stats: KgStats) -> None:
    """Write a manifest of the files of a folder, with their hashes, the sources they were made from, and the store's
    figures."""
    manifest = {
        "format": FORMAT,
        "source": source,
        "inputs": [{"path": str(path), "bytes": path.stat().st_size, "sha256": file_hash(path)} for path in inputs],
        "stats": to_dict(stats),
        "files": [to_dict(file) for file in describe_files(folder)],
    }
    seals.write_sealed(folder / MANIFEST, manifest)


def read_manifest(folder: Path) -> StoreManifest:
    """Read the manifest of a store whose files have the right sizes.

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
    if content.get("format") != FORMAT:
        raise RetrievalError(f"{folder} is not of store format {FORMAT}: {_MEND} with `trailforge kg build`")
    manifest = seals.unsealed(StoreManifest, content, path, _MEND)
    seals.check_sizes(folder, manifest.files, _MEND)
    return manifest


def check_hashes(folder: Path) -> None:
    """Read every byte of a store. Raises what `read_manifest` raises, and `RetrievalError` for the first file
    that differs.
    """
    seals.check_hashes(folder, read_manifest(folder).files, _MEND)


def check_once(folder: Path) -> None:
    """Run `check_hashes`, unless that was done since anything in the store was written; see `seals.check_once`."""
    seals.check_once(folder, MANIFEST, read_manifest(folder).files, _MEND)


def hold_files(folder: Path, manifest: StoreManifest) -> seals.HeldFiles:
    """Return a store's files in their present state, kept open; see `seals.HeldFiles`."""
    return seals.HeldFiles(folder, manifest.files, _MEND)


def raise_damage(folder: Path, error: Exception) -> None:
    """Raise `RetrievalError` for the damaged file of a store that could not be read; do nothing when all are sound.

    Errors of trailforge are left alone, since they say themselves what is wrong.
    """
    if not isinstance(error, TrailforgeError):
        check_hashes(folder)


def reads(
    function: Callable[Concatenate[S, Arguments], Result],
) -> Callable[Concatenate[S, Arguments], Result]:
    """Decorate functions of a store: an error that only a damaged store causes becomes the `RetrievalError` of
    `raise_damage`."""

    @functools.wraps(function)
    def read(store: S, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(store, *args, **kwargs)
        except Exception as error:  # numbers out of range, bytes that are no text, sizes beyond all memory …
            raise_damage(store.folder, error)
            raise

    return read
