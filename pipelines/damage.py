"""Shards of which a file is missing or damaged count as not finished: they are made again, mostly from the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pipelines.dataset import Dataset
from pipelines.files import output_errors, what_is_wrong
from pipelines.finish import MANIFEST, read_manifest
from pipelines.intake import Settings
from pipelines.own_files import own_files
from pipelines.shards import RECEIPTS, load_receipt
from schemas import FileEntry, InvalidInput, Manifest, OutputError

_READERS = 8
"""Files that are hashed at a time."""


def damaged(folder: Path, files: Iterable[FileEntry]) -> dict[str, str]:
    """What is wrong with files of a run, by path. Reads each to its end."""
    entries = {entry.path: entry for entry in files}
    with output_errors(folder), ThreadPoolExecutor(_READERS) as readers:
        found = readers.map(lambda entry: what_is_wrong(folder, entry), entries.values())
        return {path: wrong for path, wrong in zip(entries, found, strict=True) if wrong}


def drop_damaged(folder: Path, dataset: Dataset, settings: Settings, tell: Callable[[str], None]) -> bool:
    """Take away the receipts of damaged shards, and the manifest that counts on them; whether there was any damage.

    Each file is read once. `tell` is given a line for each that is damaged. Damaged inputs are told of, and stay: the
    intake puts good ones in their place. So does a card that was changed, which may be somebody's work.
    """
    own = set(own_files(folder, dataset))
    receipts: dict[Path, tuple[FileEntry, ...]] = {}
    lost: list[Path] = []
    for path in sorted(path for path in own if path.parent.name == RECEIPTS):
        try:
            receipts[path] = load_receipt(path).files
        except OutputError:
            lost.append(path)
    wrong = damaged(folder, [*settings.files, *(entry for files in receipts.values() for entry in files)])
    manifest, unreadable = _manifest(folder)
    shown = damaged(folder, manifest.card) if manifest else {}
    unreadable = [f"{path}: cannot be read" for path in lost] + unreadable
    for line in (*unreadable, *(f"{folder / path}: {what}" for path, what in wrong.items())):
        tell(f"{line}; it is made again")
    for path, what in shown.items():
        again = "is made again" if _is_missing(folder, path) else "stays so; remove it to have it made again"
        tell(f"{folder / path}: {what}; it {again}")
    is_damaged = bool(unreadable or wrong or any(_is_missing(folder, path) for path in shown))
    if is_damaged:
        _remove(folder, own, {**dict.fromkeys(lost, ()), **_hit(receipts, wrong)})
    return is_damaged


def _manifest(folder: Path) -> tuple[Manifest | None, list[str]]:
    """The manifest, and a line when it cannot be read. Raises `InvalidInput` for one of another version."""
    try:
        return read_manifest(folder), []
    except InvalidInput as error:
        if "schema version" in error.problem:
            raise
        return None, [f"{folder / MANIFEST}: cannot be read"]


def _is_missing(folder: Path, path: str) -> bool:
    return not (folder / path).is_file()


def _hit(receipts: Mapping[Path, tuple[FileEntry, ...]], wrong: Mapping[str, str]) -> dict[Path, tuple[FileEntry, ...]]:
    return {path: files for path, files in receipts.items() if any(entry.path in wrong for entry in files)}


def _remove(folder: Path, own: set[Path], receipts: Mapping[Path, tuple[FileEntry, ...]]) -> None:
    """First what counts on them, so that a kill in between loses nothing."""
    with output_errors(folder):
        (folder / MANIFEST).unlink(missing_ok=True)
        for receipt in receipts:
            receipt.unlink(missing_ok=True)
        for path in (folder / entry.path for files in receipts.values() for entry in files):
            if path in own:
                path.unlink(missing_ok=True)
