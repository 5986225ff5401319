"""Hold a finished run against itself: files, schemas, books, and every filter and reward recomputed from the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pipelines.accounting import check_balance
from pipelines.dataset import Dataset
from pipelines.datasets import dataset_of, row_checks_of
from pipelines.files import sha256_of
from pipelines.finish import MANIFEST, finished_run, manifest_of
from pipelines.intake import INPUTS, Settings
from pipelines.row_checks import Report
from schemas import CountMismatch, FileEntry, InvalidInput, Manifest, check_row_count, iter_parquet, to_dict

_OF_THE_PROCESS = {"seconds", "trailforge_version", "card", "schema_version"}
"""What a manifest says of the process that wrote it; the rest follows from the receipts."""


def verify_run(folder: Path) -> Report:
    """Check a run; differences go into the report. Raises `InvalidInput` when the folder holds no finished run."""
    manifest, settings = finished_run(folder)
    report, dataset = Report(), dataset_of(settings)
    record_of = {INPUTS: dataset.item, **dataset.tables}
    sound = [e for e in manifest.files if _check_file(e, folder, record_of, report)]
    _check_strays(folder, manifest, record_of, report)
    if len(sound) == len(manifest.files):
        row_checks_of(settings)(folder, manifest, dataset.configuration(settings), report).check()
    for problem in _manifest_problems(folder, manifest, settings, dataset):
        report.problems.append(f"{MANIFEST}: {problem}")
    return report


def _manifest_problems(folder: Path, manifest: Manifest, settings: Settings, dataset: Dataset) -> Iterator[str]:
    """Books that do not balance, and whatever differs from what the receipts add up to."""
    try:
        check_balance(manifest.stages)
        expected = to_dict(manifest_of(folder, settings, dataset, seconds=manifest.seconds))
    except (CountMismatch, InvalidInput, ValueError) as error:
        yield str(error)
        return
    for name, found in to_dict(manifest).items():
        if name not in _OF_THE_PROCESS and found != expected[name]:
            yield f"{name} is not what run.json and the receipts add up to"


def _check_file(entry: FileEntry, folder: Path, record_of: Mapping[str, type], report: Report) -> bool:
    """Presence, hash, number of rows, schema."""
    path = folder / entry.path
    report.files += 1
    report.rows += entry.rows
    if not path.is_file():
        report.problems.append(f"{entry.path}: missing")
        return False
    if sha256_of(path) != entry.sha256:
        report.problems.append(f"{entry.path}: its bytes are not those of the manifest (sha256 differs)")
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
