"""Finished runs of any data set, as training meets them: a manifest and Parquet files, and nothing of the pipelines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from trailforge.pipelines.datasets import with_roles
from trailforge.schemas import (
    BundleQuestion,
    CountMismatch,
    FileEntry,
    InvalidInput,
    KgQuestion,
    Manifest,
    Question,
    SchemaVersion,
    SftRow,
    SourceDocument,
    TableRole,
    from_dict,
    iter_parquet,
    version_of,
)

Record = TypeVar("Record")

MANIFEST = "manifest.json"
RECORDS: Mapping[str, type] = MappingProxyType(
    {each.__name__: each for each in (SftRow, Question, BundleQuestion, KgQuestion, SourceDocument)}
)
"""What training reads, by the name that a manifest has for it."""


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

    def table(self, role: TableRole) -> str:
        """The table that training takes for this; empty when the run has none."""
        return next((each.table for each in self.manifest.schema_versions if each.role == role), "")

    @property
    def questions(self) -> SchemaVersion | None:
        """The table of the questions: its name, its record, and the protocol that they are asked in."""
        return next((each for each in self.manifest.schema_versions if each.role == "questions"), None)

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
    if not any(each.role for each in manifest.schema_versions):
        problem = f"a run of {manifest.dataset!r}, of whose tables none is known to be for training"
        raise InvalidInput(problem, file=path, field="dataset")
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
    return with_roles(_revived(path, content, Manifest))


def _revived(path: Path, content: bytes, record: type[Record]) -> Record:
    try:
        value: Any = json.loads(content)
    except ValueError as error:
        raise InvalidInput(f"not valid JSON ({error})", file=path) from error
    found = value.get("schema_version") if isinstance(value, dict) else None
    if found not in (version_of(record), *getattr(record, "ALSO_READ", ())):
        raise InvalidInput(
            f"{record.__name__} of schema version {found}; this trailforge reads {version_of(record)}", file=path
        )
    try:
        return from_dict(record, value)
    except InvalidInput as error:
        raise InvalidInput(error.problem, file=path, field=error.field) from error


def _check_versions(run: FinishedRun) -> None:
    """Before anything is read: the files of a table say their version too, but one file at a time."""
    for found in run.manifest.schema_versions:
        record = RECORDS.get(found.record)
        known = f"{found.record} {version_of(record)}" if record else f"no {found.record}"
        if found.role and f"{found.record} {found.version}" != known:
            raise InvalidInput(
                f"table {found.table} holds {found.record} {found.version}; this trailforge reads {known}: "
                "make the run again with it",
                file=run.folder / MANIFEST,
                field="schema_versions",
            )
