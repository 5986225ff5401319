"""Check a finished run for consistency: files, schemas, counts, and every filter and reward recomputed from the
rows.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq

from trailforge.inference.provider import unpack
from trailforge.pipelines.curated import NAME, Curator, Undo, products_of, rejected_rows, rulings_of, uid_of
from trailforge.pipelines.dataset import LEDGER, DataSet, resolve
from trailforge.pipelines.datasets import CURATE, dataset_of, is_curated, load_dataset
from trailforge.pipelines.engine.files import what_is_wrong
from trailforge.pipelines.runs.accounting import check_balance
from trailforge.pipelines.runs.finish import MANIFEST, finished_run, manifest_of
from trailforge.pipelines.runs.intake import INPUTS, Settings, run_configuration
from trailforge.schemas import (
    ContrastivePair,
    CountMismatch,
    FileEntry,
    InvalidInput,
    Manifest,
    OutputError,
    RejectedRow,
    SchemaVersion,
    Verdict,
    check_table_file,
    from_payload,
    is_read,
    iter_parquet,
    parse_json,
    to_dict,
)

T = TypeVar("T")

_OF_THE_PROCESS = {"seconds", "trailforge_version", "card", "schema_version"}
"""What a manifest says of the process that wrote it; the rest follows from the receipts."""


def verify_run(folder: Path) -> Report:
    """Check a run, and report the differences. Raises `InvalidInput` when the folder holds no finished run."""
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


def _as_stored(made: Manifest, found: Manifest, dataset: DataSet) -> tuple[SchemaVersion, ...]:
    """Tables as the manifest found says, where they are still read so: a run may be older than we."""
    stored = {each.table: each for each in found.schema_versions}
    return tuple(
        replace(each, record=old.record, version=old.version)
        if (old := stored.get(each.table)) and is_read(dataset.all_tables[each.table].record, old.record, old.version)
        else each
        for each in made.schema_versions
    )


def _manifest_problems(folder: Path, manifest: Manifest, settings: Settings, dataset: DataSet) -> Iterator[str]:
    """Books that do not balance, and whatever differs from what the receipts add up to."""
    try:
        check_balance(manifest.stages)
        made = manifest_of(folder, settings, dataset, seconds=manifest.seconds)
        expected = to_dict(replace(made, schema_versions=_as_stored(made, manifest, dataset)))
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
            verdict = ledger.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                yield f"damaged: {verdict.splitlines()[-1]}"
                return
            entries = ledger.execute("SELECT key, value FROM calls")
            damaged = [key for key, blob in entries if unpack(key, blob) is None]
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
        check_table_file(path, record_of[path.parent.name], entry.rows)
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


_MOST_SHOWN = 20
_SAID_LATER = ("right_by", "parts_at_fault", "protocol", "bad_answer", "provenance", "sft_calls")
"""Fields that rows of an earlier version do not have, though they follow from what the run holds beside them."""


def _said_later(record: type) -> dict[str, Any]:
    return {each.name: each.default for each in fields(record) if each.name in _SAID_LATER}


@dataclass(slots=True)
class Report:
    """The differences that a verification found."""

    files: int = 0
    rows: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Tell whether the verification found no difference."""
        return not self.problems


def with_reasons_of_now(row: Any, now: Mapping[str, str]) -> Any:
    """Return a row with each old name of a reason replaced by its present name (`DataSet.earlier_reasons`): the reason
    why it was rejected or is the worse one of a pair, and the names of its filters.
    """
    changes: dict[str, Any] = {}
    if any(score.name in now for score in getattr(row, "filters", ())):
        changes["filters"] = tuple(replace(score, name=now.get(score.name, score.name)) for score in row.filters)
    if isinstance(row, RejectedRow | ContrastivePair) and row.reason in now:
        changes["reason"] = now[row.reason]
    if isinstance(row, RejectedRow) and any(f'"{old}"' in row.payload for old in now):
        changes["payload"] = _payload_of_now(row.payload, now)
    return replace(row, **changes) if changes else row


def _payload_of_now(payload: str, now: Mapping[str, str]) -> str:
    """A payload that is no row stays as it is, to be reported where it is read."""
    with contextlib.suppress(ValueError, TypeError, InvalidInput):
        content = parse_json(payload)
        scores = content.get("filters") if isinstance(content, dict) else None
        if isinstance(scores, list) and all(isinstance(score, dict) for score in scores):
            told = (score.get("name") for score in scores)
            content["filters"] = [
                {**score, "name": now[name]} if name in now else score for score, name in zip(scores, told, strict=True)
            ]
            return json.dumps(content, ensure_ascii=False)
    return payload


class RowChecks(ABC):
    """Recomputes what can be derived in a run's rows, file by file, and reports differences; memory holds the rows of
    one file name at a time.

    A data set counts in `accepted` what it finds of each stage, and every row of `rejected/`; `check_books` compares
    that with the manifest. Rows of a curated data set are checked as the run made them, and then that people's
    decisions lead to what is there.
    """

    def __init__(self, folder: Path, manifest: Manifest, config: Any, report: Report) -> None:
        self.folder, self.manifest, self.config, self.report = folder, manifest, config, report
        self.accepted: Counter[str] = Counter()
        self._rejected: Counter[tuple[str, str]] = Counter()
        self._undo = Undo(folder)
        self._now = load_dataset(manifest.dataset).earlier_reasons

    @abstractmethod
    def check(self) -> None:
        """Check all files, and add what is found to the report."""

    def names(self) -> list[str]:
        """Return the names of the run's files, each once: those of one shard have the same name in every table."""
        emptied = {row.file for row in self._undo.rows if row.file}
        return sorted({Path(entry.path).name for entry in self.manifest.files} | emptied)

    def rows(self, table: str, name: str, record: type) -> Iterator[Any]:
        """Yield the rows of a file as the run made them, with each reason by its present name; none when the table has
        no such file.
        """
        return (with_reasons_of_now(row, self._now) for row in self._made(table, name, record))

    def _made(self, table: str, name: str, record: type) -> Iterator[Any]:
        return self._undo.original(table, name, record, self.stored_rows(table, name, record))

    def stored_rows(self, table: str, name: str, record: type) -> Iterator[Any]:
        """Yield the rows of a file as they are in it, without those that people rejected and with those that they
        fixed. Ends at the first row that cannot be read, which is reported.
        """
        path = self.folder / table / name
        if not path.exists():
            return
        try:
            for batch in iter_parquet(path, record):
                yield from batch
        except InvalidInput as error:
            if str(error) not in self.report.problems:
                self.report.problems.append(str(error))

    def check_made(self, table: str, name: str, made: Iterable[Any], record: type, differs: str, missing: str) -> None:
        """Compare the rows of a file with those that follow from other tables. `differs` and `missing` are what to
        report of a row.
        """
        expected = {row.uid: row for row in made}
        rows = list(self.rows(table, name, record))
        unsaid = self._unsaid(table, name, rows)
        for row in rows:
            wanted = expected.pop(row.uid, None)
            if wanted is not None:
                wanted = replace(wanted, **unsaid)
            if row != wanted:
                self.problem(name, row.uid, differs)
        for uid in expected:
            self.problem(name, uid, missing)

    def _unsaid(self, table: str, name: str, rows: Sequence[Any]) -> dict[str, Any]:
        """What rows of an earlier version do not say of themselves yet, with what stands in its place. Its files have
        no such columns; those that curation wrote again have them, and nothing in them."""
        optional = _said_later(type(rows[0])) if rows else {}
        silent = {each: held for each, held in optional.items() if all(getattr(row, each) == held for row in rows)}
        if silent and not self._undo.rows:
            columns = pq.read_schema(self.folder / table / name).names
            return {each: held for each, held in silent.items() if each not in columns}
        return silent

    def rejected_episodes(self, name: str, stage: str, record: type[T]) -> Iterator[tuple[T, Verdict, dict[str, Any]]]:
        """Yield the episodes that a stage rejected in a file, each with its verdict and the values of fields that its
        version did not store yet, which are not compared. A row that holds no episode is reported.
        """
        for row in self.rows("rejected", name, RejectedRow):
            if row.stage != stage:
                continue
            try:
                content = parse_json(row.payload)
                episode: Any = from_payload(record, content)
            except (ValueError, TypeError, InvalidInput) as error:
                self.problem(name, row.uid, f"this rejected row holds no episode ({error})")
                continue
            if uid_of(episode) != row.uid:
                self.problem(name, row.uid, f"this rejected row holds another episode, {uid_of(episode)}")
            unsaid = {each: held for each, held in _said_later(record).items() if each not in content}
            yield episode, Verdict(keep=False, reason=row.reason, score=row.score, detail=row.detail), unsaid

    def left_out(self, name: str, stage: str) -> set[str]:
        """Return the ids of the items that a stage rejected or failed, as a file of `rejected/` has them."""
        return {row.uid for row in self.rows("rejected", name, RejectedRow) if row.stage == stage}

    def count_rejected(self, name: str) -> None:
        """Count a file of `rejected/` by stage and reason."""
        for row in self.rows("rejected", name, RejectedRow):
            self._rejected[row.stage, row.reason] += 1

    def problem(self, name: str, uid: str, text: str) -> None:
        """Report a difference in a row of a file; only the first twenty are kept."""
        if len(self.report.problems) < _MOST_SHOWN:
            self.report.problems.append(f"{name}, {uid}: {text}")

    def check_books(self) -> None:
        """Compare the counts of what was found with those of the manifest's stages."""
        if self._undo.rows:
            self._check_curation()
        for stage_name in self.accepted.keys() - {line.name for line in self.manifest.stages}:
            if self.accepted[stage_name]:
                self.report.problems.append(f"stage {stage_name}: {self.accepted[stage_name]} rows, not in the books")
        for line in self.manifest.stages:
            counted = self.accepted.get(line.name)
            if counted is not None and counted != line.accepted:
                self.report.problems.append(f"stage {line.name}: {line.accepted} accepted, {counted} rows found")
            told: Counter[str] = Counter()
            for count in (*line.rejected, *line.failed):
                told[self._now.get(count.reason, count.reason)] += count.count
            for reason, count in told.items():
                found = self._rejected.pop((line.name, reason), 0)
                if found != count:
                    self.report.problems.append(f"stage {line.name}: {count} x {reason}, {found} rows in rejected/")
        for (stage_name, reason), found in self._rejected.items():
            self.report.problems.append(f"rejected/: {found} rows of {stage_name}/{reason} that no stage counts")

    def _check_curation(self) -> None:
        """What stands in the tables and in `rejected/` follows from what the run made and what people decided."""
        try:
            dataset = self.manifest.dataset
            curator = Curator(dataset, rulings_of(self._undo.rows))
            expected = [*curator.sources]
            self.accepted[CURATE] = 0
            for table, product in products_of(dataset).items():
                for name in self.names():
                    standing = self.stored_rows(table, name, product.record)
                    for row, change in curator.curate(table, name, self._made(table, name, product.record)):
                        expected += [change] if change is not None else []
                        if row is not None:
                            self.accepted[CURATE] += 1
                            if row != next(standing, None):
                                self.problem(name, uid_of(row), "this row is not what people left of what the run made")
        except InvalidInput as error:
            self.report.problems.append(f"{CURATE}: {error}")
            return
        if expected != self._undo.rows:
            self.problem(NAME, "curated", "this is not what follows from the decisions that are told there")
        if list(self._made("rejected", f"{NAME}.parquet", RejectedRow)) != rejected_rows(expected):
            self.problem(NAME, "rejected", "they are not the rows that people rejected, and what was made of them")
