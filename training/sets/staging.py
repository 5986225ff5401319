"""Rows on their way from a run's order to the order of learning, on disk, since they may not fit in memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from trailforge.pipelines.engine.files import sha256_of
from trailforge.schemas import Count, FileEntry, RejectedRow, StageCount, Verdict, from_dict, to_dict, write_parquet

Record = TypeVar("Record")


class Staged(Generic[Record]):
    """A file of rows that are found again by number. The numbers run from 0 in the order of adding."""

    def __init__(self, path: Path, record: type[Record]) -> None:
        self._record = record
        self._file = path.open("w+b")
        self._starts: list[int] = []

    def __enter__(self) -> Staged[Record]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def add(self, row: Record) -> int:
        """The row's number."""
        self._starts.append(self._file.seek(0, 2))
        self._file.write(json.dumps(to_dict(row), ensure_ascii=False).encode() + b"\n")
        return len(self._starts) - 1

    def read(self, number: int) -> Record:
        """A row that was added."""
        self._file.seek(self._starts[number])
        return from_dict(self._record, json.loads(self._file.readline()))


class Books:
    """One line of the books, and where its rejected rows go."""

    def __init__(self, stage: str, rejected: RejectedRows) -> None:
        self.stage, self._rejected = stage, rejected
        self._accepted, self._reasons = 0, Counter[str]()

    def accept(self, count: int = 1) -> None:
        """Rows that stay."""
        self._accepted += count

    def reject(self, uid: str, row: object, verdict: Verdict) -> None:
        """A row that does not."""
        self._reasons[verdict.reason] += 1
        self._rejected.add(
            RejectedRow(
                uid=uid,
                stage=self.stage,
                reason=verdict.reason,
                score=verdict.score,
                detail=verdict.detail,
                payload=json.dumps(to_dict(row), ensure_ascii=False),
            )
        )

    def line(self, inputs: int) -> StageCount:
        """As manifests hold it; `inputs` was counted elsewhere, so that the line can fail to balance."""
        reasons = tuple(Count(reason=reason, count=n) for reason, n in sorted(self._reasons.items()))
        return StageCount(name=self.stage, inputs=inputs, accepted=self._accepted, rejected=reasons)


class RejectedRows:
    """Writes `rejected/`."""

    def __init__(self, folder: Path, rows_per_file: int) -> None:
        self._folder, self._most = folder, rows_per_file
        self._waiting: list[RejectedRow] = []
        self.files: list[FileEntry] = []

    def add(self, row: RejectedRow) -> None:
        """Keep a row."""
        self._waiting.append(row)
        if len(self._waiting) >= self._most:
            self.close()

    def close(self) -> None:
        """Write what waits."""
        if self._waiting:
            path = self._folder / "rejected" / f"part-{len(self.files):05d}.parquet"
            self.files.append(_write(self._folder, path, RejectedRow, self._waiting))
            self._waiting = []


def write_parts(
    folder: Path, prefix: str, record: type[Record], rows: Iterable[Record], rows_per_file: int
) -> Iterator[FileEntry]:
    """Rows as files of equal size, in their order: `prefix/part-00000.parquet`, …"""
    batch: list[Record] = []
    number = 0
    for row in rows:
        batch.append(row)
        if len(batch) == rows_per_file:
            yield _write(folder, folder / prefix / f"part-{number:05d}.parquet", record, batch)
            batch, number = [], number + 1
    if batch:
        yield _write(folder, folder / prefix / f"part-{number:05d}.parquet", record, batch)


def _write(folder: Path, path: Path, record: type[Record], rows: list[Record]) -> FileEntry:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_parquet(path, record, rows)
    return FileEntry(path=path.relative_to(folder).as_posix(), rows=len(rows), sha256=sha256_of(path))
