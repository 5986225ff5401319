"""Finished runs of any data set, as training meets them: a manifest and Parquet files with declared roles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from trailforge.pipelines.dataset import INPUTS, Table
from trailforge.pipelines.datasets import dataset_names, load_dataset
from trailforge.schemas import (
    CountMismatch,
    FileEntry,
    InvalidInput,
    Manifest,
    TableRole,
    from_stored,
    is_read,
    iter_parquet,
    stored_name,
    version_of,
)

Record = TypeVar("Record")

MANIFEST = "manifest.json"
TRAINED = ("sft", "questions", "corpus")
"""Roles of the tables that training reads."""


def trained_tables(dataset: str) -> dict[str, Table]:
    """The tables of a data set's runs that training reads, by name."""
    declared = load_dataset(dataset)
    tables = {INPUTS: declared.inputs, **declared.tables}
    return {name: table for name, table in tables.items() if table.role in TRAINED}


def table_of(dataset: str, role: TableRole) -> tuple[str, Table] | None:
    """A data set's table of a role, with its name; None where it has none."""
    return next(((name, table) for name, table in trained_tables(dataset).items() if table.role == role), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run whose manifest is there."""

    folder: Path
    manifest: Manifest
    manifest_sha256: str

    @property
    def dataset(self) -> str:
        """Which data set it makes."""
        return self.manifest.dataset

    def files(self, table: str) -> list[FileEntry]:
        """Files of a table, by name."""
        return [entry for entry in self.manifest.files if entry.path.startswith(f"{table}/")]

    def row_count(self, table: str) -> int:
        """Rows of a table, as the manifest says."""
        return sum(entry.rows for entry in self.files(table))

    def batches(self, table: str, record: type[Record]) -> Iterator[list[Record]]:
        """A table, row group by row group; in the order of its files' names.

        Raises `InvalidInput` for a file that is missing, unreadable or of another schema, `CountMismatch` for one that
        is not what the manifest says.
        """
        for entry in self.files(table):
            path = self.folder / entry.path
            check_hash(path, entry)
            yield from iter_parquet(path, record)

    def rows(self, table: str, record: type[Record]) -> Iterator[Record]:
        """The rows of `batches`."""
        for batch in self.batches(table, record):
            yield from batch


def open_runs(folders: Sequence[Path]) -> list[FinishedRun]:
    """Several runs in the given order. Raises `InvalidInput` as `open_run`, and for a run that is given twice."""
    if not folders:
        raise InvalidInput("no run given")
    runs = [open_run(folder) for folder in folders]
    folder_of: dict[str, Path] = {}
    for run in runs:
        if (first := folder_of.setdefault(run.manifest_sha256, run.folder)) != run.folder or runs.count(run) > 1:
            raise InvalidInput(f"the same run as {first}", file=run.folder)
    return runs


def open_run(folder: Path) -> FinishedRun:
    """A finished run. Raises `InvalidInput` when there is none, it is not finished, or another version made it."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise InvalidInput("no such folder", file=folder)
    if not path.is_file():
        begun = (folder / "run.json").is_file()
        mend = "the command that began it, given again, finishes it" if begun else "give the folder of a run"
        raise InvalidInput(f"holds no finished run (no {MANIFEST}); {mend}", file=folder)
    content = path.read_bytes()
    manifest = _parse(path, content)
    if manifest.dataset not in dataset_names():
        known = ", ".join(dataset_names())
        raise InvalidInput(f"a run of {manifest.dataset!r}; training takes runs of {known}", file=path, field="dataset")
    run = FinishedRun(folder=folder, manifest=manifest, manifest_sha256=hashlib.sha256(content).hexdigest())
    _check_versions(run)
    return run


def read_json(path: Path, record: type[Record]) -> Record:
    """A manifest of a given version. Raises `InvalidInput`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", file=path) from error
    return _revived(path, content, record)


def check_hash(path: Path, entry: FileEntry) -> None:
    """Raises `CountMismatch` when a file is not what a manifest says of it, `InvalidInput` when it cannot be read."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInput(f"named in {MANIFEST}, but cannot be read ({error.strerror})", file=path) from error
    if found != entry.sha256:
        raise CountMismatch(f"{path} is not the file that {MANIFEST} describes (another hash)")


def _parse(path: Path, content: bytes) -> Manifest:
    return _revived(path, content, Manifest)


def _revived(path: Path, content: bytes, record: type[Record]) -> Record:
    try:
        value: Any = json.loads(content)
    except ValueError as error:
        raise InvalidInput(f"not valid JSON ({error})", file=path) from error
    return from_stored(record, value, source=path)


def _check_versions(run: FinishedRun) -> None:
    """Before anything is read: the files of a table say their version too, but one file at a time."""
    stated = {version.table: version for version in run.manifest.schema_versions}
    for table, declared in trained_tables(run.dataset).items():
        found, record = stated.get(table), declared.record
        if found is not None and not is_read(record, found.record, found.version):
            raise InvalidInput(
                f"table {table} holds {found.record} {found.version}; this trailforge reads {stored_name(record)} "
                f"{version_of(record)}: make the run again with it",
                file=run.folder / MANIFEST,
                field="schema_versions",
            )
