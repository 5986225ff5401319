"""Shards of which a file is missing or damaged count as not finished: they are made again, mostly from the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trailforge.pipelines.dataset import DataSet
from trailforge.pipelines.engine.files import output_errors, what_is_wrong
from trailforge.pipelines.engine.shards import RECEIPTS, Receipt, Shard, load_receipt, receipt_path
from trailforge.pipelines.runs.finish import MANIFEST, keep_changed, read_manifest
from trailforge.pipelines.runs.intake import Settings
from trailforge.pipelines.runs.own_files import own_files
from trailforge.pipelines.runs.stages import planned_stages
from trailforge.schemas import FileEntry, InvalidInput, Manifest, OutputError

_READERS = 8
"""Files that are hashed at a time."""


def find_damage(folder: Path, files: Iterable[FileEntry]) -> dict[str, str]:
    """What is wrong with files of a run, by path. Reads each to its end."""
    entries = {entry.path: entry for entry in files}
    with output_errors(folder), ThreadPoolExecutor(_READERS) as readers:
        found = readers.map(lambda entry: what_is_wrong(folder, entry), entries.values())
        return {path: wrong for path, wrong in zip(entries, found, strict=True) if wrong}


def drop_damaged(folder: Path, dataset: DataSet, settings: Settings, tell: Callable[[str], None]) -> bool:
    """Take away the receipts of damaged shards, and the manifest that counts on them; whether there was any damage.

    Each file is read once. `tell` is given a line for each that is damaged. Damaged inputs are told of, and stay: the
    intake puts good ones in their place. So does a card that was changed, which may be somebody's work, while nothing
    else is damaged; else it is kept aside (`keep_changed`). Receipts of later stages that do not say what they were
    made of go with those before them, since what is made again may differ.
    """
    own = set(own_files(folder, dataset))
    receipts: dict[Path, Receipt] = {}
    lost: list[Path] = []
    for path in sorted(path for path in own if path.parent.name == RECEIPTS):
        try:
            receipts[path] = load_receipt(path)
        except OutputError:
            lost.append(path)
    wrong = find_damage(folder, [*settings.files, *(entry for receipt in receipts.values() for entry in receipt.files)])
    manifest, unreadable = _manifest(folder)
    shown = find_damage(folder, manifest.card) if manifest else {}
    unreadable = [f"{path}: cannot be read" for path in lost] + unreadable
    for line in (*unreadable, *(f"{folder / path}: {what}" for path, what in wrong.items())):
        tell(f"{line}; it is made again")
    gone = [path for path in shown if not (folder / path).is_file()]
    is_damaged = bool(unreadable or wrong or gone)
    for path, what in shown.items():
        if path in gone:
            tell(f"{folder / path}: {what}; it is made again")
        elif not is_damaged:
            tell(f"{folder / path}: {what}; it stays so; remove it to have it made again")
    if is_damaged:
        keep_changed(folder, tell)
    if unreadable or wrong:
        hit = {path: each.files for path, each in receipts.items() if any(e.path in wrong for e in each.files)}
        _remove(folder, own, {**dict.fromkeys(lost, ()), **hit})
    stages = planned_stages(dataset, folder, settings)
    known = {receipt_path(folder, shard) for stage in stages for shard in stage.shards or ()}
    untold = {path: each.files for path, each in receipts.items() if not each.made_of and path not in known}
    if untold:
        _remove(folder, own, untold)
    return is_damaged


def drop_stale(folder: Path, shards: Iterable[Shard]) -> None:
    """Remove the receipts of shards that are to be run again: their files are about to be others."""
    with output_errors(folder):
        for shard in shards:
            receipt_path(folder, shard).unlink(missing_ok=True)


def _manifest(folder: Path) -> tuple[Manifest | None, list[str]]:
    """The manifest, and a line when it cannot be read. Raises `InvalidInput` for one of another version."""
    try:
        return read_manifest(folder), []
    except InvalidInput as error:
        if "schema version" in error.problem:
            raise
        return None, [f"{folder / MANIFEST}: cannot be read"]


def _remove(folder: Path, own: set[Path], receipts: Mapping[Path, tuple[FileEntry, ...]]) -> None:
    """First what counts on them, so that a kill in between loses nothing."""
    with output_errors(folder):
        (folder / MANIFEST).unlink(missing_ok=True)
        for receipt in receipts:
            receipt.unlink(missing_ok=True)
        for path in (folder / entry.path for files in receipts.values() for entry in files):
            if path in own:
                path.unlink(missing_ok=True)
