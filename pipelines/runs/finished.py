"""Read a run's folder: `OpenRun` for looking at a finished or running run, `FinishedRun` for reading a finished one
from end to end.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from trailforge import schemas
from trailforge.pipelines.datasets import load_dataset, with_roles
from trailforge.pipelines.runs.table_index import TableIndex, tables_of
from trailforge.schemas import (
    CountMismatch,
    FileEntry,
    InvalidInput,
    Manifest,
    StageCount,
    from_dict,
    from_stored,
    iter_parquet,
    parse_json,
)

Record = TypeVar("Record")

RUN = "run.json"
"""Name of the file that says what a run was begun with."""
MANIFEST = "manifest.json"
RECORD = b"trailforge.record"
"""Key in the metadata of a Parquet file for the name of its record in `schemas`."""


@dataclass(kw_only=True)
class OpenRun:
    """A run to look at, finished or running. Its tables are opened on first use, and what was read is not read
    again.
    """

    folder: Path
    run_id: str
    dataset: str
    config: dict[str, Any]
    """The run's settings, in the form of a preset."""
    sources: tuple[str, ...]
    """Names of the input files, as a person gave them."""
    manifest: Manifest | None
    """The run's manifest; None while the run is not finished."""
    books: tuple[StageCount, ...]
    """The counts of items by stage; for a running run, those of what is finished."""
    tables: tuple[str, ...]
    """Names of the tables that have rows."""
    _open: dict[str, TableIndex] = field(default_factory=dict)
    _places: dict[tuple[str, str], int | None] = field(default_factory=dict)
    _read: dict[tuple[str, ...], Any] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @cached_property
    def rejections(self) -> Counter[tuple[str, str]]:
        """Return the number of items that were rejected or failed, by stage and reason."""
        return Counter(
            {
                (line.name, each.reason): each.count
                for line in self.books
                for each in (*line.rejected, *line.failed)
                if each.count
            }
        )

    def table(self, name: str) -> TableIndex:
        """Return the index of a table. Raises `InvalidInput` when the run has no such table."""
        with self._lock:
            if name not in self._open:
                self._open[name] = TableIndex(self.folder, name)
            return self._open[name]

    def size(self, name: str) -> int:
        """Return the number of rows of a table; 0 when there is none."""
        return len(self.table(name)) if name in self.tables else 0

    def row(self, name: str, number: int) -> dict[str, Any]:
        """Return a row of a table as plain values."""
        with self._lock:
            found = self.table(name).row(number)
            self._places[name, found[self.key_of(name)]] = number
            return found

    def places(self, name: str, uids: Set[str]) -> dict[str, int]:
        """Return the row numbers of some uids. The table is read only for uids that were not asked for before."""
        with self._lock:
            unknown = {uid for uid in uids if (name, uid) not in self._places}
            if unknown:
                found = self.table(name).find_all(unknown, self.key_of(name))
                self._places.update({(name, uid): found.get(uid) for uid in unknown})
            return {uid: place for uid in sorted(uids) if (place := self._places[name, uid]) is not None}

    def record(self, name: str, number: int) -> Any:
        """Return a row of a table as the record of `schemas` that the table is made of."""
        return from_dict(self.record_type(name), self.row(name, number))

    def record_type(self, name: str) -> type:
        """Return the record class of a table. Raises `InvalidInput` for a table that no trailforge of this version
        wrote.
        """
        record = (self.table(name).schema.metadata or {}).get(RECORD, b"").decode()
        if not hasattr(schemas, record):
            declared = load_dataset(self.dataset).records.get(name)
            if declared is not None and declared.__name__ == record:
                return declared
            raise InvalidInput(
                f"table of {record or 'unknown'} records, which this trailforge does not know; upgrade trailforge",
                file=name,
            )
        return getattr(schemas, record)

    def count_rejected(self, name: str, column: str) -> Counter[str]:
        """Count the rejected rows that would be rows of a table, by the value of one of its text columns.

        Rejected rows of other tables do not count, nor do rows that the table has and a later stage could not use.
        """

        def read() -> Counter[str]:
            key, known = self.key_of(name), frozenset(self.table(name).schema.names)
            found = self.table("rejected").json_texts("payload", (key, column), among=known)
            kept = self.places(name, {uid for uid, _ in found})
            return Counter(value for uid, value in found if uid not in kept)

        return self.once(("count_rejected", name, column), read)

    def once(self, key: tuple[str, ...], read: Callable[[], Any]) -> Any:
        """Return the result of `read`, cached under a key after the first call; other calls do not wait while it
        runs.
        """
        with self._lock:
            if key in self._read:
                return self._read[key]
        value = read()
        with self._lock:
            return self._read.setdefault(key, value)

    def keep(self, key: tuple[str, ...], value: Any) -> None:
        """Set what `once` returns for a key from now on."""
        with self._lock:
            self._read[key] = value

    def key_of(self, name: str) -> str:
        """Return the column that identifies a row of a table: `uid`, else `id`, `document_id` or `question_id`; each
        table has one of them.
        """
        names = self.table(name).schema.names
        return next(column for column in ("uid", "id", "document_id", "question_id") if column in names)

    def find(self, name: str, value: str, column: str = "") -> int | None:
        """Return the number of the first row with a value in a column, by default that of `key_of`; None when there is
        no such row or table.
        """
        if name not in self.tables:
            return None
        return self.table(name).find(value, column or self.key_of(name))


def open_run(folder: Path) -> OpenRun:
    """Open the run of a folder in its present state; while it is not finished it has no counts by stage. Raises
    `InvalidInput` when the folder holds none.
    """
    if not folder.is_dir():
        raise InvalidInput("no such run folder", file=folder)
    path = folder / RUN
    if not path.is_file():
        raise no_run(folder)
    try:
        content = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"not JSON ({error}); the command of the run writes it again", file=path) from error
    if not isinstance(content, dict) or not isinstance(content.get("dataset"), str):
        raise InvalidInput("names no data set; run the command that made it again", file=path, field="dataset")
    manifest = read_manifest(folder)
    return OpenRun(
        folder=folder,
        run_id=content.get("run_id", ""),
        dataset=content["dataset"],
        config=json.loads(content.get("config", "{}")),
        sources=tuple(each["path"] for each in content.get("sources", ())),
        manifest=manifest,
        books=manifest.stages if manifest else (),
        tables=tuple(tables_of(folder)),
    )


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of a finished run; None when the run is not finished."""
    return read_finished(folder).manifest if (folder / MANIFEST).is_file() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run with a manifest, whose tables can be read as records from the first row to the last."""

    folder: Path
    manifest: Manifest
    manifest_sha256: str

    @property
    def dataset(self) -> str:
        """Return the name of the data set that the run makes."""
        return self.manifest.dataset

    def files(self, table: str) -> list[FileEntry]:
        """Return the files of a table, by name."""
        return [entry for entry in self.manifest.files if entry.path.startswith(f"{table}/")]

    def row_count(self, table: str) -> int:
        """Return the number of rows of a table, as the manifest says."""
        return sum(entry.rows for entry in self.files(table))

    def batches(self, table: str, record: type[Record]) -> Iterator[list[Record]]:
        """Read a table as lists of records, one row group after the other, in the order of its files' names.

        Raises `InvalidInput` for a file that is missing, unreadable or of another schema, `CountMismatch` for one that
        is not what the manifest says.
        """
        for entry in self.files(table):
            check_hash(self.folder / entry.path, entry)
            yield from iter_parquet(self.folder / entry.path, record)

    def rows(self, table: str, record: type[Record]) -> Iterator[Record]:
        """Read the rows that `batches` gives, one by one."""
        for batch in self.batches(table, record):
            yield from batch


def read_finished(folder: Path) -> FinishedRun:
    """Open the finished run of a folder. Raises `InvalidInput` when there is none, or it is not finished."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise InvalidInput("no such folder", file=folder)
    if not path.is_file():
        begun = (folder / RUN).is_file()
        mend = "the command that began it, given again, finishes it" if begun else "give the folder of a run"
        raise InvalidInput(f"holds no finished run (no {MANIFEST}); {mend}", file=folder)
    try:
        content = path.read_bytes()
        value = parse_json(content)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"not valid JSON ({error}); the command of the run writes it again", file=path) from error
    if _is_of_training_set(value):
        raise no_run(folder)
    manifest = with_roles(from_stored(Manifest, value, source=path))
    return FinishedRun(folder=folder, manifest=manifest, manifest_sha256=hashlib.sha256(content).hexdigest())


def no_run(folder: Path) -> InvalidInput:
    """Return the error for a folder without `run.json`. A training set also has a `manifest.json`, by whose fields it
    is recognised; then the error says which commands read it.
    """
    with contextlib.suppress(OSError, ValueError):
        if _is_of_training_set(parse_json((folder / MANIFEST).read_bytes())):
            problem = "a training set, and no run; `trailforge train`, `export` and `evaluate` read it"
            return InvalidInput(problem, file=folder)
    return InvalidInput(f"not a run folder (no {RUN}); give the --out of a command that makes data", file=folder)


def _is_of_training_set(manifest: Any) -> bool:
    """By what manifests of these alone have: by which tokenizer rows were measured."""
    return isinstance(manifest, dict) and "measured_by" in manifest and "dataset" not in manifest


def check_hash(path: Path, entry: FileEntry) -> None:
    """Raise `CountMismatch` when a file differs from its entry in a manifest, `InvalidInput` when it cannot be read."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInput(
            f"named in {MANIFEST}, but cannot be read ({error.strerror}); restore it, or make the run again", file=path
        ) from error
    if found != entry.sha256:
        raise CountMismatch(
            f"{path} is not the file that {MANIFEST} describes (another hash); restore it, or make the run again"
        )


def stamp_of(folder: Path) -> tuple[tuple[str, int], ...]:
    """Return a value that changes whenever a run's folder gets new files: the times of its folders and its manifest."""
    paths = [folder / MANIFEST, folder / RUN, *(each for each in folder.glob("*") if each.is_dir())]
    ours = (each for each in paths if each.name not in {"ledger", "curation", "progress"} and each.exists())
    return tuple(sorted((each.name, each.stat().st_mtime_ns) for each in ours))
