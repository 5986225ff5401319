"""Input files to shards of typed items in the run's folder, before any money is spent."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pipelines.accounting import stage
from pipelines.files import output_errors, sha256_of, write_atomically, write_text
from pipelines.shards import Shard, file_entry
from pipelines.sources import InvalidRow, read_questions
from pipelines.sources.rows import iter_rows
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
_STAGED = ".intake"
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
    source: Path,
    folder: Path,
    *,
    dataset: str,
    config_hash: str,
    config: str,
    shard_size: int,
    limit: int | None,
    needs_paragraphs: bool = False,
) -> Settings:
    """Read, check and cut the questions. Raises `InvalidInput` for an unreadable file or over 5 % invalid rows.

    The same file, limit and configuration give the same shards. They are set aside until `write_settings` puts them in
    their place, so that a run that is already in the folder stays as it is. `needs_paragraphs`: a question without any
    is an invalid row.
    """
    discard_staged(folder)
    try:
        intake = _Intake(source, folder, config_hash)
        questions = intake.valid(limit, needs_paragraphs)
        while batch := list(islice(questions, shard_size)):
            intake.add(batch)
        intake.check()
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
    except BaseException:
        discard_staged(folder)
        raise


def write_settings(folder: Path, settings: Settings) -> None:
    """Put the files of the intake in their place, then write `run.json`: from here on the folder holds this run."""
    known = [folder / entry.path for entry in settings.files]
    with output_errors(folder):
        for path in known:
            staged = folder / _STAGED / path.relative_to(folder)
            if staged.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                staged.replace(path)
        for path in [*(folder / INPUTS).glob("*.parquet"), folder / INVALID_ROWS]:
            if path not in known:  # of an intake that was killed just here
                path.unlink(missing_ok=True)
    discard_staged(folder)
    write_text(folder / SETTINGS, json.dumps(to_dict(settings), indent=1))


def discard_staged(folder: Path) -> None:
    """Forget an intake that was not put in its place."""
    shutil.rmtree(folder / _STAGED, ignore_errors=True)


def read_settings(folder: Path) -> Settings | None:
    """The settings of the run in this folder; None when there is none."""
    path = folder / SETTINGS
    if not path.is_file():
        return None
    try:
        return from_dict(Settings, json.loads(path.read_text(encoding="utf-8")))
    except (TypeError, ValueError, InvalidInput) as error:
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
    def __init__(self, source: Path, folder: Path, config_hash: str) -> None:
        self._source, self._folder, self._config_hash = source, folder, config_hash
        self.invalid: list[InvalidRow] = []
        self.shards: list[Shard] = []
        self.files: list[FileEntry] = []

    @property
    def rows_read(self) -> int:
        return sum(shard.rows for shard in self.shards) + len(self.invalid)

    def valid(self, limit: int | None, needs_paragraphs: bool) -> Iterator[Question]:
        """The first `limit` valid questions; invalid rows met on the way are put aside."""
        taken = 0
        bare: set[int] = set()
        for position, row in enumerate(read_questions(self._source)):
            if limit is not None and taken >= limit:
                break
            if isinstance(row, InvalidRow):
                self.invalid.append(row)
            elif needs_paragraphs and not row.paragraphs:
                bare.add(position)
            else:
                taken += 1
                yield row
        if bare:
            self.invalid += _without_paragraphs(self._source, bare)
            self.invalid.sort(key=lambda row: row.row)

    def add(self, questions: list[Question]) -> None:
        content = json.dumps([to_dict(q) for q in questions], sort_keys=True)
        digest = hashlib.sha256(f"{self._config_hash}\0{content}".encode()).hexdigest()[:12]
        name = f"part-{len(self.shards):05d}-{digest}"
        root, path = self._folder, f"{INPUTS}/{name}.parquet"
        if not (root / path).exists():
            root = self._folder / _STAGED
            write_atomically(root / path, lambda temporary: write_parquet(temporary, Question, questions))
        entry = file_entry(root, root / path, len(questions))
        first = sum(shard.rows for shard in self.shards)
        self.files.append(entry)
        self.shards.append(Shard(name=name, input=entry.path, first=first, rows=entry.rows))

    def check(self) -> None:
        if not self.rows_read:
            raise InvalidInput("holds no questions", file=self._source)
        if len(self.invalid) > _MOST_INVALID * self.rows_read or not self.shards:
            first = self.invalid[0]
            raise InvalidInput(
                f"{first.problem} ({len(self.invalid)} of {self.rows_read} rows are invalid; "
                f"more than {_MOST_INVALID:.0%} stops the run)",
                file=self._source,
                row=first.row,
                field=first.field,
            )

    def write_invalid(self) -> list[FileEntry]:
        if not self.invalid:
            return []
        root = self._folder / _STAGED
        rows = [_rejected(row) for row in self.invalid]
        write_atomically(root / INVALID_ROWS, lambda temporary: write_parquet(temporary, RejectedRow, rows))
        return [file_entry(root, root / INVALID_ROWS, len(rows))]

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


def _without_paragraphs(source: Path, positions: set[int]) -> list[InvalidRow]:
    """The rows at these positions, read once more for their place and text."""
    return [
        InvalidRow(
            file=str(source),
            row=row.row,
            field="paragraphs",
            problem="nothing to search: no paragraphs; search a corpus instead (retrieval.scope: corpus)",
            payload=row.text,
        )
        for position, row in enumerate(iter_rows(source))
        if position in positions and not isinstance(row, InvalidRow)
    ]


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
