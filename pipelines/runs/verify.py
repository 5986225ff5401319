"""Hold a finished run against itself: files, schemas, books, and every filter and reward recomputed from the rows."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from trailforge.inference.wire import unpacked
from trailforge.pipelines.dataset import LEDGER, DataSet, resolve
from trailforge.pipelines.datasets import dataset_of, is_curated
from trailforge.pipelines.engine.files import what_is_wrong
from trailforge.pipelines.runs.accounting import check_balance
from trailforge.pipelines.runs.finish import MANIFEST, finished_run, manifest_of
from trailforge.pipelines.runs.intake import INPUTS, Settings, run_configuration
from trailforge.pipelines.runs.row_checks import Report
from trailforge.schemas import (
    CountMismatch,
    FileEntry,
    InvalidInput,
    Manifest,
    OutputError,
    check_row_count,
    iter_parquet,
    to_dict,
)

_OF_THE_PROCESS = {"seconds", "trailforge_version", "card", "schema_version"}
"""What a manifest says of the process that wrote it; the rest follows from the receipts."""


def verify_run(folder: Path) -> Report:
    """Check a run; differences go into the report. Raises `InvalidInput` when the folder holds no finished run."""
    manifest, settings = finished_run(folder)
    report, dataset = Report(), dataset_of(settings)
    record_of = {INPUTS: dataset.inputs.record, **dataset.records}
    sound = [e for e in manifest.files if _check_file(e, folder, record_of, report)]
    _check_strays(folder, manifest, record_of, report)
    if len(sound) == len(manifest.files):
        resolve(dataset.checks)(folder, manifest, run_configuration(dataset, settings), report).check()
    mend = "remove it, and the command of the run makes it again"
    if is_curated(settings):
        mend = "`trailforge curate apply` of the run writes it, to another --out"
    for entry in manifest.card:
        if wrong := what_is_wrong(folder, entry):
            report.problems.append(f"{entry.path}: {wrong}; {mend}")
    report.problems += [f"{LEDGER}: {problem}" for problem in _ledger_problems(folder / LEDGER)]
    for problem in _manifest_problems(folder, manifest, settings, dataset):
        report.problems.append(f"{MANIFEST}: {problem}")
    return report


def _manifest_problems(folder: Path, manifest: Manifest, settings: Settings, dataset: DataSet) -> Iterator[str]:
    """Books that do not balance, and whatever differs from what the receipts add up to."""
    try:
        check_balance(manifest.stages)
        expected = to_dict(manifest_of(folder, settings, dataset, seconds=manifest.seconds))
    except (CountMismatch, InvalidInput, OutputError, ValueError) as error:
        yield str(error)
        return
    for name, found in to_dict(manifest).items():
        if name not in _OF_THE_PROCESS and found != expected[name]:
            yield f"{name} is not what run.json and the receipts add up to"


def _ledger_problems(path: Path) -> Iterator[str]:
    """Damage of the run's own ledger, which other runs may have written to since. It is read, and not changed."""
    if not path.is_file():
        return  # a shared one, or it was left behind
    log = path.with_name(f"{path.name}-wal")
    is_in_use = log.is_file() and log.stat().st_size > 0
    try:
        found = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{'' if is_in_use else '&immutable=1'}", uri=True)
        with contextlib.closing(found) as ledger:
            said = ledger.execute("PRAGMA quick_check(1)").fetchone()[0]
            if said != "ok":
                yield f"damaged: {said.splitlines()[-1]}"
                return
            entries = ledger.execute("SELECT key, value FROM calls")
            damaged = [key for key, blob in entries if unpacked(key, blob) is None]
    except sqlite3.Error as error:
        yield f"damaged: {error}"
        return
    if damaged:
        yield f"the replies of {len(damaged)} calls cannot be read, the first {damaged[0]}"


def _check_file(entry: FileEntry, folder: Path, record_of: Mapping[str, type], report: Report) -> bool:
    """Presence, hash, number of rows, schema."""
    path = folder / entry.path
    report.files += 1
    report.rows += entry.rows
    if wrong := what_is_wrong(folder, entry):
        report.problems.append(f"{entry.path}: {wrong}")
        return False
    if path.suffix != ".parquet":
        return True
    try:
        check_row_count(path, entry.rows)
        for _ in iter_parquet(path, record_of[path.parent.name]):
            break
    except (CountMismatch, InvalidInput) as error:
        report.problems.append(str(error))
        return False
    return True


def _check_strays(folder: Path, manifest: Manifest, tables: Iterable[str], report: Report) -> None:
    """Parquet files that the manifest does not know."""
    known = {folder / entry.path for entry in manifest.files}
    for table in tables:
        for path in sorted((folder / table).glob("*.parquet")):
            if path not in known:
                report.problems.append(f"{path.relative_to(folder)}: not in the manifest")
