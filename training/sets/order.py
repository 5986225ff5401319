"""Decide the order of training: which rows are held out for validation, and in which order the others come.

Rows wait on disk (`Staged`), since they may not fit in memory; an `Entry` is what has to be known of one to place it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from trailforge.pipelines.engine import sha256_of
from trailforge.rewards import normalize_answer
from trailforge.schemas import (
    Count,
    FileEntry,
    RejectedRow,
    StageCount,
    Verdict,
    from_dict,
    to_dict,
    write_parquet,
)
from trailforge.training.sets.config import Order

Identity = tuple[str, str]
"""What makes questions of all runs the same: the whole text, options included, and the gold answer.

Ids are of one run alone, and two questions may have the same words.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What must be known of a row to place it, so that the rows themselves need not be in memory."""

    number: int
    """The number by which the row is found again."""
    uid: str
    dataset: str
    origin: str
    """Where it came from: the hash of a run's manifest, or of a file."""
    key: str
    """The `question_key` of the row's question."""
    stage: int
    """The stage of the curriculum, from 1."""
    difficulty: float
    """The difficulty, which orders the rows of a data set within a stage."""
    tokens: int


def question_key(question: str) -> str:
    """Return a key that is equal for questions that differ only in case, punctuation, articles or white space. Options
    do not count.
    """
    first = question.strip().split("\n")[0]
    return normalize_answer(first) or " ".join(question.casefold().split())


def identity_of(question: str, answer: str) -> Identity:
    """Return the identity of a question with its gold answer, ignoring case, white space, and what normalisation
    removes from the answer.
    """
    return " ".join(question.casefold().split()), normalize_answer(answer) or answer


def held_out(trained: Collection[str], others: Collection[str], share: float, seed: int) -> set[str]:
    """Choose the keys of the questions for validation: the same share of those with an SFT row (`trained`) and of those
    without (`others`), and at least one of each unless there is only one.
    """
    found: set[str] = set()
    for keys in (set(trained), set(others) - set(trained)):
        ordered = sorted(keys, key=lambda key: draw_by_lot(seed, "split", key))
        wanted = max(1, round(share * len(ordered))) if share else 0
        found.update(ordered[: max(0, min(wanted, len(ordered) - 1))])
    return found


def ordered(entries: Sequence[Entry], order: Order, seed: int) -> list[Entry]:
    """Return the rows in the order of training. `curriculum` goes stage by stage, in each from easy to hard; data sets,
    whose difficulties do not compare, alternate within a stage. Equally hard rows are in random order.
    """
    drawn = sorted(entries, key=lambda entry: (draw_by_lot(seed, "order", entry.uid), entry.uid))
    if order == "shuffled":
        return drawn
    groups: Mapping[tuple[int, str], list[Entry]] = defaultdict(list)
    for entry in drawn:
        groups[entry.stage, entry.dataset].append(entry)
    placed = [
        (stage, Fraction(2 * position + 1, 2 * len(group)), dataset, position, entry)
        for (stage, dataset), group in groups.items()
        for position, entry in enumerate(sorted(group, key=lambda entry: entry.difficulty))
    ]
    return [entry for *_, entry in sorted(placed, key=lambda place: place[:4])]


def draw_by_lot(seed: int, purpose: str, name: str) -> bytes:
    """Return random bytes that depend on nothing but seed, purpose and name."""
    return hashlib.sha256(f"{seed}\0{purpose}\0{name}".encode()).digest()


Record = TypeVar("Record")


class Staged(Generic[Record]):
    """A temporary file of rows that are read back by number, from 0 in the order of adding."""

    def __init__(self, path: Path, record: type[Record]) -> None:
        self._record = record
        self._file = path.open("w+b")
        self._starts: list[int] = []

    def __enter__(self) -> Staged[Record]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def add(self, row: Record) -> int:
        """Add a row to the file, and return its number."""
        self._starts.append(self._file.seek(0, 2))
        self._file.write(json.dumps(to_dict(row), ensure_ascii=False).encode() + b"\n")
        return len(self._starts) - 1

    def read(self, number: int) -> Record:
        """Read the row with this number."""
        self._file.seek(self._starts[number])
        return from_dict(self._record, json.loads(self._file.readline()))


class Books:
    """Counts how many rows of one table were kept, and for what reasons others were rejected, and hands these to the
    writer of `rejected/`."""

    def __init__(self, stage: str, rejected: RejectedRows) -> None:
        self.stage, self._rejected = stage, rejected
        self._accepted, self._reasons = 0, Counter[str]()

    def accept(self, count: int = 1) -> None:
        """Count rows that are kept."""
        self._accepted += count

    def reject(self, uid: str, row: object, verdict: Verdict) -> None:
        """Count a row that is not kept, and store it with the verdict."""
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
        """Return the counts as manifests store them. `inputs` was counted elsewhere, so that a mismatch is noticed."""
        reasons = tuple(Count(reason=reason, count=n) for reason, n in sorted(self._reasons.items()))
        return StageCount(name=self.stage, inputs=inputs, accepted=self._accepted, rejected=reasons)


class RejectedRows:
    """Writes the rows that a training set leaves out, with the reasons, to its folder `rejected/`."""

    def __init__(self, folder: Path, rows_per_file: int) -> None:
        self._folder, self._most = folder, rows_per_file
        self._waiting: list[RejectedRow] = []
        self.files: list[FileEntry] = []

    def add(self, row: RejectedRow) -> None:
        """Add a row to be written."""
        self._waiting.append(row)
        if len(self._waiting) >= self._most:
            self.close()

    def close(self) -> None:
        """Write the rejected rows that still wait."""
        if self._waiting:
            path = self._folder / "rejected" / f"part-{len(self.files):05d}.parquet"
            self.files.append(_write(self._folder, path, RejectedRow, self._waiting))
            self._waiting = []


def write_parts(
    folder: Path, prefix: str, record: type[Record], rows: Iterable[Record], rows_per_file: int
) -> Iterator[FileEntry]:
    """Write rows as files of equal size, in their order: `prefix/part-00000.parquet`, …"""
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
