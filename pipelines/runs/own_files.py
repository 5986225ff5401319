"""Know by exact names which files in a run's folder the run itself wrote, so that nothing else there is ever removed.

People put notes, exports and training sets beside the tables; these are none of ours, nor is what a link points to.
Shards of which a file is missing or damaged count as not finished: they are made again, mostly from the ledger.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from trailforge.pipelines.dataset import DataSet
from trailforge.pipelines.engine import progress, worker_errors
from trailforge.pipelines.engine.files import LOCK, output_errors, plain_files, unfinished_name, what_is_wrong
from trailforge.pipelines.engine.shards import (
    RECEIPT_NAMES,
    RECEIPTS,
    SHARD_NAMES,
    Receipt,
    load_receipt,
    receipt_path,
)
from trailforge.pipelines.runs.finish import CARD, MANIFEST, keep_changed, read_manifest
from trailforge.pipelines.runs.intake import INPUTS, INVALID_ROWS, SETTINGS, STAGED, Settings, taken_in
from trailforge.pipelines.runs.stages import planned_stages, stage_receipts
from trailforge.schemas import (
    FileEntry,
    InvalidInput,
    Manifest,
    OutputError,
    PromptRefused,
    RejectedRow,
    read_columns,
)

KEPT = frozenset({"ledger", "curation"})
"""Folders that are never removed, since they cost money or people's time."""
_READERS = 8
"""Files that are hashed at a time."""


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The files that a run wrote in its folder, and the operations on them."""

    folder: Path
    dataset: DataSet

    def refuse_strangers(self) -> None:
        """Raise `OutputError` for a folder that has files but no run, or whose tables are links to elsewhere."""
        with output_errors(self.folder):
            if not self.folder.is_dir():
                return
            linked = next((inner for inner in _names(self.dataset) if inner and _is_linked(self.folder, inner)), None)
            if linked is not None:
                raise OutputError(
                    f"{self.folder / linked} is a link, and a run writes to no folder but its own; remove it"
                )
            if (self.folder / SETTINGS).exists():
                return
            strange = next(_strangers(self.folder), None)
            if strange is not None:
                what = f"holds no run (no {SETTINGS}) but other things, such as {strange}; give another --out"
                raise OutputError(f"{self.folder} {what}")

    def files(self) -> Iterator[Path]:
        """Yield the run's existing files, including those that a kill left half-written, but without its ledger and its
        lock.
        """
        for inner, names in _names(self.dataset).items():
            if not _is_linked(self.folder, inner):
                for path in plain_files(self.folder / inner):
                    if re.fullmatch(names, unfinished_name(path.name) or path.name):
                        yield path

    def has_nothing(self) -> bool:
        """Tell whether a run in the folder came to nothing: it has no receipt, no row, no plots, and no call that was
        paid for.
        """
        made = self.files()
        names = {path.relative_to(self.folder).as_posix() for path in made if path.parent.name != INPUTS}
        is_begun = any(not (name in (SETTINGS, INVALID_ROWS) or name.startswith((STAGED, LOCK))) for name in names)
        return not is_begun and not any((self.folder / kept).exists() for kept in KEPT)

    def remove_leftovers(self) -> None:
        """Remove what a killed process left half-written. The caller holds the folder's lock."""
        with output_errors(self.folder):
            for path in self.files():
                if unfinished_name(path.name) is not None:
                    path.unlink(missing_ok=True)

    def drop_rows(self, tell: Callable[[str], None]) -> None:
        """Remove what a run made: receipts, rows, card and plots. Files that people changed are kept, and reported
        (`keep_changed`).

        Inputs and `run.json` stay until `write_settings` replaces them, so that a kill in between leaves a run without
        results, and no unknown folder. The manifest stays, too: it says that the run was finished, by which `--redo`
        knows that it is to begin once more.
        """
        keep_changed(self.folder, tell)
        with output_errors(self.folder):
            for path in sorted(self.files(), key=lambda path: path.parent.name != RECEIPTS):
                name, table = path.relative_to(self.folder).as_posix(), path.parent.name
                if not (name in (SETTINGS, MANIFEST, INVALID_ROWS) or table == INPUTS or name.startswith(STAGED)):
                    path.unlink(missing_ok=True)
            for inner in map(Path, _names(self.dataset)):
                for emptied in (inner, *inner.parents)[: len(inner.parts)]:
                    with contextlib.suppress(OSError):  # it is not there, or not empty
                        (self.folder / emptied).rmdir()

    def drop_damaged(self, settings: Settings, tell: Callable[[str], None]) -> bool:
        """Remove the receipts of damaged shards, and the manifest that includes them; returns whether there was any
        damage.

        `tell` receives a line for each damaged file. Damaged inputs are reported, and stay until the intake replaces
        them. A changed card stays while nothing else is damaged, since a person may have edited it; else it is renamed
        (`keep_changed`). Receipts of later stages that do not record what they were made of are removed with earlier
        ones, since what is made again may differ.
        """
        own = set(self.files())
        receipts: dict[Path, Receipt] = {}
        lost: list[Path] = []
        for path in sorted(path for path in own if path.parent.name == RECEIPTS):
            try:
                receipts[path] = load_receipt(path)
            except OutputError:
                lost.append(path)
        wrong = _find_damage(
            self.folder, [*settings.files, *(entry for receipt in receipts.values() for entry in receipt.files)]
        )
        manifest, unreadable = _manifest(self.folder)
        shown = _find_damage(self.folder, manifest.card) if manifest else {}
        unreadable = [f"{path}: cannot be read" for path in lost] + unreadable
        for line in (*unreadable, *(f"{self.folder / path}: {what}" for path, what in wrong.items())):
            tell(f"{line}; it is made again")
        gone = [path for path in shown if not (self.folder / path).is_file()]
        is_damaged = bool(unreadable or wrong or gone)
        for path, what in shown.items():
            if path in gone:
                tell(f"{self.folder / path}: {what}; it is made again")
            elif not is_damaged:
                tell(f"{self.folder / path}: {what}; it stays so; remove it to have it made again")
        if is_damaged:
            keep_changed(self.folder, tell)
        if unreadable or wrong:
            hit = {path: each.files for path, each in receipts.items() if any(e.path in wrong for e in each.files)}
            _remove(self.folder, own, {**dict.fromkeys(lost, ()), **hit})
        stages = planned_stages(self.dataset, self.folder, settings)
        known = {receipt_path(self.folder, shard) for stage in stages for shard in stage.shards or ()}
        untold = {path: each.files for path, each in receipts.items() if not each.made_of and path not in known}
        if untold:
            _remove(self.folder, own, untold)
        return is_damaged

    def drop_refused(self, settings: Settings, tell: Callable[[str], None]) -> bool:
        """Remove the shards in which a server refused a prompt, and the manifest; returns whether there were any. All
        other replies of these shards are in the ledger, so only what was refused is asked for again.
        """
        receipts = stage_receipts(self.dataset, self.folder, settings)
        counts = [_count_refused(self.folder, receipt) for receipt in receipts]
        refused = [receipt for receipt, count in zip(receipts, counts, strict=True) if count]
        hit = {self.folder / RECEIPTS / f"{receipt.shard}.json": receipt.files for receipt in refused}
        if hit:
            tell(f"asking again for {sum(counts):,} refused prompts, in {len(hit):,} shards")
            keep_changed(self.folder, tell)
            _remove(self.folder, set(self.files()), hit)
        else:
            tell(f"{self.folder}: no prompt was refused, so there is none to ask for again")
        return bool(hit)

    def remove_orphans(self, settings: Settings) -> None:
        """Remove rows and receipts of shards that the run no longer has, once all its present shards are finished, and
        what lost workers left half-written.
        """
        self.remove_leftovers()
        receipts = stage_receipts(self.dataset, self.folder, settings)
        known = {self.folder / RECEIPTS / f"{receipt.shard}.json" for receipt in receipts}
        known |= {self.folder / entry.path for receipt in receipts for entry in receipt.files}
        known |= {self.folder / entry.path for entry in settings.files}
        with output_errors(self.folder):
            for path in self.files():
                is_of_a_shard = path.parent.name == RECEIPTS or path.suffix == ".parquet"
                if is_of_a_shard and path not in known:
                    path.unlink(missing_ok=True)


def _names(dataset: DataSet) -> dict[str, str]:
    """By folder in the run's folder: what the names of a run's files match."""
    tables = (INPUTS, *dataset.tables)
    return {
        "": "|".join(map(re.escape, (SETTINGS, MANIFEST, CARD, *dataset.lists))),
        **{f"{above}{table}": rf"{SHARD_NAMES}\.parquet" for table in tables for above in ("", f"{STAGED}/")},
        RECEIPTS: RECEIPT_NAMES,
        progress.FOLDER: progress.NAMES,
        worker_errors.ERRORS: worker_errors.NAMES,
        **dataset.beside,
    }


def _strangers(folder: Path) -> Iterator[str]:
    """Paths in a folder without `run.json` that no intake left there: a run has written nothing else before that."""
    begun = (path for path in plain_files(folder) if unfinished_name(path.name) == SETTINGS)
    own = frozenset((*taken_in(folder), *taken_in(folder / STAGED), *begun))
    for at, folders, files in os.walk(folder):
        here = Path(at)
        if here == folder:
            folders[:] = [name for name in folders if name not in KEPT]
            files = [name for name in files if name != LOCK]
        links = [name for name in folders if (here / name).is_symlink()]
        yield from sorted(str((here / n).relative_to(folder)) for n in [*files, *links] if here / n not in own)


def _is_linked(folder: Path, inner: str) -> bool:
    """Whether a folder in the run's folder is, or lies below, a link. The run's folder itself may be one."""
    return any((folder / part).is_symlink() for part in (Path(inner), *Path(inner).parents) if part != Path())


def _find_damage(folder: Path, files: Iterable[FileEntry]) -> dict[str, str]:
    """What is wrong with files of a run, by path. Reads each to its end."""
    entries = {entry.path: entry for entry in files}
    with output_errors(folder), ThreadPoolExecutor(_READERS) as readers:
        found = readers.map(lambda entry: what_is_wrong(folder, entry), entries.values())
        return {path: wrong for path, wrong in zip(entries, found, strict=True) if wrong}


def _count_refused(folder: Path, receipt: Receipt) -> int:
    """Rows that stand for what was not made because a server refused a prompt."""
    paths = [folder / entry.path for entry in receipt.files if entry.path.startswith("rejected/")]
    reasons = (reason for path in paths for reason in read_columns(path, RejectedRow, ["reason"])["reason"].to_pylist())
    return sum(reason == PromptRefused.reason for reason in reasons)


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
