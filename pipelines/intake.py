"""Input files to shards of typed items in the run's folder, before any money is spent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pipelines.accounting import stage
from pipelines.files import sha256_of, write_atomically, write_text
from pipelines.shards import Shard, file_entry
from pipelines.sources import InvalidRow, read_questions
from schemas import (
    FileEntry,
    InvalidInput,
    OutputError,
    Question,
    RejectedRow,
    StageCount,
    from_dict,
    to_dict,
    write_parquet,
)

SETTINGS = "run.json"
INPUTS = "inputs"
INVALID_ROWS = "rejected/part-inputs.parquet"
_MOST_INVALID = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run is about, written before its first call: `run.json`."""

    dataset: str
    run_id: str
    config_hash: str
    config: str
    """The whole configuration as JSON."""
    source: FileEntry
    """The input file; `rows`: how many of its rows were read."""
    limit: int | None
    shards: tuple[Shard, ...]
    files: tuple[FileEntry, ...]
    """Parquet files of the intake: items by shard, and invalid rows."""
    books: tuple[StageCount, ...]

    @property
    def items(self) -> int:
        """Valid items."""
        return sum(shard.rows for shard in self.shards)


def take_in_questions(
    source: Path, folder: Path, *, dataset: str, config_hash: str, config: str, shard_size: int, limit: int | None
) -> Settings:
    """Read, check and cut the questions. Raises `InvalidInput` for an unreadable file or over 5 % invalid rows.

    The same file, limit and configuration give the same shards. Nothing of an earlier run is touched here but
    equal files.
    """
    intake = _Intake(folder, config_hash)
    questions = _valid(source, limit, intake.invalid)
    while batch := list(islice(questions, shard_size)):
        intake.add(batch)
    intake.check(source)
    return Settings(
        dataset=dataset,
        run_id=intake.run_id(dataset),
        config_hash=config_hash,
        config=config,
        source=FileEntry(path=str(source), rows=intake.rows_read, sha256=sha256_of(source)),
        limit=limit,
        shards=tuple(intake.shards),
        files=tuple(intake.files + intake.write_invalid()),
        books=(intake.books(),),
    )


def write_settings(folder: Path, settings: Settings) -> None:
    """Write `run.json`."""
    write_text(folder / SETTINGS, json.dumps(to_dict(settings), indent=1))


def read_settings(folder: Path) -> Settings | None:
    """The settings of the run in this folder; None when there is none."""
    path = folder / SETTINGS
    if not path.is_file():
        return None
    try:
        return from_dict(Settings, json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, InvalidInput) as error:
        raise OutputError(f"{path} was not written by this trailforge ({error}); give another --out") from error


def refuse_other_run(folder: Path, settings: Settings) -> None:
    """Raise `OutputError` when the folder holds a run with other settings, and say which."""
    earlier = read_settings(folder)
    if earlier is None or earlier.run_id == settings.run_id:
        return
    what = "other questions" if earlier.config_hash == settings.config_hash else _differences(earlier, settings)
    raise OutputError(
        f"{folder} holds a run with {what}; give another --out, or --replace to drop its rows "
        "(calls that stay the same are not paid again)"
    )


class _Intake:
    def __init__(self, folder: Path, config_hash: str) -> None:
        self._folder, self._config_hash = folder, config_hash
        self.invalid: list[InvalidRow] = []
        self.shards: list[Shard] = []
        self.files: list[FileEntry] = []

    @property
    def rows_read(self) -> int:
        return sum(shard.rows for shard in self.shards) + len(self.invalid)

    def add(self, questions: list[Question]) -> None:
        content = json.dumps([to_dict(q) for q in questions], sort_keys=True)
        digest = hashlib.sha256(f"{self._config_hash}\0{content}".encode()).hexdigest()[:12]
        name = f"part-{len(self.shards):05d}-{digest}"
        path = self._folder / INPUTS / f"{name}.parquet"
        if not path.exists():
            write_atomically(path, lambda temporary: write_parquet(temporary, Question, questions))
        entry = file_entry(self._folder, path, len(questions))
        first = sum(shard.rows for shard in self.shards)
        self.files.append(entry)
        self.shards.append(Shard(name=name, input=entry.path, first=first, rows=entry.rows))

    def check(self, source: Path) -> None:
        if not self.rows_read:
            raise InvalidInput("holds no questions", file=source)
        if len(self.invalid) > _MOST_INVALID * self.rows_read or not self.shards:
            first = self.invalid[0]
            raise InvalidInput(
                f"{first.problem} ({len(self.invalid)} of {self.rows_read} rows are invalid; "
                f"more than {_MOST_INVALID:.0%} stops the run)",
                file=source,
                row=first.row,
                field=first.field,
            )

    def write_invalid(self) -> list[FileEntry]:
        path = self._folder / INVALID_ROWS
        if not self.invalid:
            path.unlink(missing_ok=True)
            return []
        rows = [_rejected(row) for row in self.invalid]
        write_atomically(path, lambda temporary: write_parquet(temporary, RejectedRow, rows))
        return [file_entry(self._folder, path, len(rows))]

    def books(self) -> StageCount:
        accepted = self.rows_read - len(self.invalid)
        return stage(
            "read",
            inputs=self.rows_read,
            accepted=accepted,
            rejected=["invalid_input"] * len(self.invalid),
        )

    def run_id(self, dataset: str) -> str:
        names = ",".join(shard.name for shard in self.shards)
        return f"{dataset}-{hashlib.sha256(names.encode()).hexdigest()[:12]}"


def _valid(source: Path, limit: int | None, invalid: list[InvalidRow]) -> Iterator[Question]:
    """The first `limit` valid questions; invalid rows met on the way are put aside."""
    taken = 0
    for row in read_questions(source):
        if limit is not None and taken >= limit:
            return
        if isinstance(row, InvalidRow):
            invalid.append(row)
        else:
            taken += 1
            yield row


def _rejected(row: InvalidRow) -> RejectedRow:
    where = f"field {row.field!r}: " if row.field else ""
    return RejectedRow(
        uid=f"{row.file}:{row.row}",
        stage="read",
        reason="invalid_input",
        score=0.0,
        detail=f"{row.file}, row {row.row}, {where}{row.problem}",
        payload=row.payload,
    )


def _differences(earlier: Settings, now: Settings) -> str:
    """The settings that differ, as `section.name: old -> new`."""
    old, new = _flat(json.loads(earlier.config)), _flat(json.loads(now.config))
    changed = [f"{k}: {old.get(k)} -> {new.get(k)}" for k in sorted(old | new) if old.get(k) != new.get(k)]
    return "other settings (" + "; ".join(changed[:5]) + ")" if changed else "other prompts or schemas"


def _flat(value: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(value, dict):
        return {prefix.rstrip("."): value}
    flat: dict[str, object] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}{key}.")
    return flat
