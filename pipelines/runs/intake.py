"""Cut input files into shards of typed items in the run's folder, before any money is spent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from trailforge.inference.provider import without_keys
from trailforge.pipelines.dataset import INPUTS, DataSet, resolve
from trailforge.pipelines.engine.files import (
    output_errors,
    plain_files,
    sha256_of,
    unfinished_name,
    what_is_wrong,
    write_atomically,
    write_text,
)
from trailforge.pipelines.engine.shards import Shard, file_entry
from trailforge.pipelines.runs.accounting import stage
from trailforge.pipelines.runs.config import SHARD_SIZE, RunConfig, read_config
from trailforge.pipelines.sources import InvalidRow, read_questions
from trailforge.pipelines.sources.audited import NOT_AUDITED, Audited, check_known
from trailforge.pipelines.sources.checks import check_invalid, say_unsearched
from trailforge.pipelines.sources.demand import NOT_DEMANDED, Demand, take_by_quota
from trailforge.pipelines.sources.refused import NONE, Refusals
from trailforge.schemas import (
    Count,
    FileEntry,
    InvalidInput,
    NothingLeft,
    OutputError,
    Question,
    RejectedRow,
    SourceDocument,
    StageCount,
    from_dict,
    parse_json,
    to_dict,
    write_parquet,
)

_RETIRED = (("output", "per_turn_rows"),)
"""Settings, by section, that runs of earlier versions hold and that no class has any more."""
SETTINGS = "run.json"
INVALID_ROWS = "rejected/part-inputs.parquet"
STAGED = ".intake"
_OF_INPUTS = r"part-\d{5,}-[0-9a-f]{12}\.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run is made from and how; written to `run.json` before its first call."""

    dataset: str
    run_id: str
    config_hash: str
    config: str
    """The whole configuration as JSON."""
    sources: tuple[FileEntry, ...]
    """The input files, then the logs of people's decisions; `rows`: how many of their rows were read."""
    limit: int | None
    shards: tuple[Shard, ...]
    files: tuple[FileEntry, ...]
    """Parquet files that the intake wrote: items by shard, and invalid rows."""
    books: tuple[StageCount, ...]
    refusals: str = ""
    """Hash of the earlier decisions of people by which inputs are left out; empty when there are none."""
    tries: tuple[Count, ...] = ()
    """Number of tries that gave no item, by reason, where an intake samples its items."""
    begun_as: str = ""
    """Configuration hash of the run that this one goes on with, by which its shards are named; empty: none."""
    is_compact: bool = False
    """Whether `trailforge compact` wrote the files: the first stage's receipts then stand for all."""

    @property
    def items(self) -> int:
        """Return the number of valid items."""
        return sum(shard.rows for shard in self.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInputs:
    """What a user gives to a run: files, limits, options and exclusions."""

    dataset: str
    files: tuple[Path, ...] = ()
    limit: int | None = None
    """Number of valid items to take, the first ones; None: all."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Values of the options that this data set alone takes, by name, where they were given."""
    refused: Refusals = NONE
    """The sources that people rejected, which are left out."""
    audited: Audited = NOT_AUDITED
    """What an audit found of the questions: those that cannot be answered are left out."""
    demand: Demand = NOT_DEMANDED
    """Quotas by which questions are taken or made."""
    begun_as: str = ""
    """Configuration hash of the run that this one goes on with, for `Settings.begun_as`; empty: none."""
    shown: Callable[[Iterable[Any], str, int], Iterable[Any]] = lambda items, what, total: items
    """Wraps items that take long to make, to count them on the terminal: `(items, what they are, how many)`."""

    def left_out(self, item: Any) -> RejectedRow | None:
        """Return the row for `rejected/` of an item that earlier decisions of people or an audit leave out; None for
        any other item.
        """
        return self.refused.row_of(item) or self.audited.row_of(item)


def take_in_questions(
    inputs: RunInputs,
    folder: Path,
    config: RunConfig,
    *,
    shard_size: int = SHARD_SIZE,
    needs_paragraphs: bool = False,
    needs_decomposition: bool = False,
) -> Settings:
    """Read and check the questions of a file and cut them into shards, leaving out those that people refused; returns
    the run's settings.

    The same file, limit and configuration give the same shards. They are staged until `write_settings` moves them into
    place, so that a run that is already in the folder is unchanged. `needs_paragraphs` and `needs_decomposition` make a
    question without these an invalid row. Raises `InvalidInput` for an unreadable file or over 5 % invalid rows.
    """
    (source,) = inputs.files
    needs = {"needs_paragraphs": needs_paragraphs, "needs_decomposition": needs_decomposition}
    read = partial(read_questions, source, column_map=inputs.options.get("column_map"), **needs)
    chosen = take_by_quota(read, inputs.demand, lambda row: inputs.left_out(row) is None, inputs.limit)
    rows = [chosen if needs_paragraphs else say_unsearched(chosen, source)]
    return _Intake(inputs, (source,), folder, Question, "questions", config).take_in(rows, shard_size, inputs.limit)


def take_in_documents(inputs: RunInputs, folder: Path, config: RunConfig, *, shard_size: int = SHARD_SIZE) -> Settings:
    """Read and check the documents of all files and cut them into shards, as `take_in_questions` does with questions.
    The options `column_map`, `source`, `kind` and `labels` in `inputs` are those of `read_documents`.
    """
    from trailforge.pipelines.sources.documents import read_documents  # and with it an HTTP client

    of_readers = {name: inputs.options.get(name) for name in ("column_map", "source", "kind", "labels")}
    seen = set[str]()
    rows = (read_documents([file], seen=seen, **of_readers) for file in inputs.files)
    intake = _Intake(inputs, inputs.files, folder, SourceDocument, "documents", config)
    return intake.take_in(rows, shard_size, inputs.limit)


def take_in_rows(
    inputs: RunInputs,
    folder: Path,
    config: RunConfig,
    *,
    source: Path,
    rows: Iterable[Any],
    record: type,
    nouns: str,
    shard_size: int = SHARD_SIZE,
) -> Settings:
    """Cut rows of any record into shards, all of them, as `take_in_questions` does with questions. `source` is the file
    that represents the rows' input; `nouns` is what the rows are called. Raises `InvalidInput` when there are none.
    """
    return _Intake(inputs, (source,), folder, record, nouns, config).take_in([rows], shard_size, None)


def write_settings(folder: Path, settings: Settings) -> None:
    """Move the staged files of the intake into place, then write `run.json`: from then on the folder holds this run."""
    known = [folder / entry.path for entry in settings.files]
    with output_errors(folder):
        for path in known:
            staged = folder / STAGED / path.relative_to(folder)
            if staged.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                staged.replace(path)
        for path in taken_in(folder):
            if path not in known:  # of another run, or of an intake that was killed just here
                path.unlink(missing_ok=True)
    discard_staged(folder)
    write_text(folder / SETTINGS, json.dumps(to_dict(settings), indent=1))


def discard_staged(folder: Path) -> None:
    """Remove staged files of an intake that were not moved into place."""
    staged = folder / STAGED
    if staged.is_symlink():
        return
    for path in taken_in(staged):
        path.unlink(missing_ok=True)
    for emptied in (staged / INPUTS, (staged / INVALID_ROWS).parent, staged):
        with contextlib.suppress(OSError):  # it is not there, or not empty
            emptied.rmdir()


def taken_in(root: Path) -> list[Path]:
    """Return the files of intakes in a folder, including those that a kill left half-written."""
    aside = root / INVALID_ROWS
    return [
        path
        for folder, names in ((root / INPUTS, _OF_INPUTS), (aside.parent, re.escape(aside.name)))
        for path in plain_files(folder)
        if re.fullmatch(names, unfinished_name(path.name) or path.name)
    ]


def read_settings(folder: Path) -> Settings | None:
    """Read the settings of the run in a folder; None without one. Raises `OutputError` where they cannot be read."""
    path = folder / SETTINGS
    if not path.is_file():
        return None
    try:
        settings = from_dict(Settings, parse_json(path.read_bytes()))
        config_of(settings)
    except (OSError, TypeError, ValueError, InvalidInput, OutputError) as error:
        raise OutputError(f"{path} was not written by this trailforge ({error}); give another --out") from error
    return settings


def config_of(settings: Settings) -> dict[str, Any]:
    """Return the configuration of a run as plain values. Raises `OutputError` when it cannot be read."""
    try:
        content = parse_json(settings.config)
    except ValueError as error:
        raise OutputError(f"{SETTINGS}: its configuration is no JSON ({error}); give another --out") from error
    if not isinstance(content, dict):
        raise OutputError(f"{SETTINGS}: its configuration is no JSON object; give another --out")
    for section, name in _RETIRED:
        if isinstance(content.get(section), dict):
            content[section].pop(name, None)
    return without_keys(content)


def run_configuration(dataset: DataSet, settings: Settings) -> Any:
    """Return a run's configuration as an instance of its data set's class (`DataSet.config`). Raises `OutputError` when
    it cannot be read.
    """
    return read_config(resolve(dataset.config), config_of(settings), source="run.json")


def refuse_other_run(folder: Path, settings: Settings) -> None:
    """Raise `OutputError` when the folder holds a run with other settings, and say which."""
    earlier = read_settings(folder)
    if earlier is None or earlier.run_id == settings.run_id:
        return
    what = "other verdicts" if earlier.refusals != settings.refusals else "other input"
    if earlier.limit != settings.limit:
        what += f" (limit: {earlier.limit} -> {settings.limit})"
    if earlier.config_hash != settings.config_hash:
        what = _differences(earlier, settings)
    raise OutputError(
        f"{folder} holds a run with {what}; give another --out, or --replace to drop its rows "
        "(calls that stay the same are not paid again)"
    )


@dataclass(slots=True)
class _Intake:
    """Cuts the valid rows into shards and puts the others and the refused ones aside. `rows` come by source."""

    inputs: RunInputs
    sources: tuple[Path, ...]
    folder: Path
    record: type
    nouns: str
    config: RunConfig
    known: dict[str, FileEntry] = field(init=False)
    """Files of the run that is in the folder, by path."""
    invalid: list[InvalidRow] = field(default_factory=list)
    left_out: list[RejectedRow] = field(default_factory=list)
    unaudited: int = 0
    shards: list[Shard] = field(default_factory=list)
    files: list[FileEntry] = field(default_factory=list)
    rows_of: Counter[Path] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        earlier = read_settings(self.folder)
        self.known = {entry.path: entry for entry in earlier.files} if earlier is not None else {}

    def take_in(self, rows: Iterable[Iterable[Any]], shard_size: int, limit: int | None) -> Settings:
        discard_staged(self.folder)
        try:
            valid = self._valid(rows, limit)
            while batch := list(islice(valid, shard_size)):
                self._add(batch)
            self._check()
            return Settings(
                dataset=self.inputs.dataset,
                run_id=self._run_id(),
                config_hash=self.config.hash,
                config=json.dumps(to_dict(self.config)),
                sources=(*(self._entry_of(source) for source in self.sources), *self.inputs.refused.logs),
                limit=limit,
                shards=tuple(self.shards),
                files=tuple(self.files + self._write_invalid()),
                books=(self._books(),),
                refusals=self.inputs.refused.hash,
                begun_as=self.inputs.begun_as,
            )
        except BaseException:
            discard_staged(self.folder)
            raise

    def _valid(self, rows: Iterable[Iterable[Any]], limit: int | None) -> Iterator[Any]:
        """The first `limit` valid rows; invalid ones met on the way are put aside."""
        taken = 0
        for source, of_source in zip(self.sources, rows, strict=True):
            for row in of_source:
                if limit is not None and taken >= limit:
                    return
                self.rows_of[source] += 1
                if isinstance(row, InvalidRow):
                    self.invalid.append(row)
                elif (left_out := self.inputs.left_out(row)) is not None:
                    self.left_out.append(left_out)
                else:
                    self.unaudited += not self.inputs.audited.knows(row)
                    taken += 1
                    yield row

    def _add(self, items: list[Any]) -> None:
        content = json.dumps([to_dict(item) for item in items], sort_keys=True)
        digest = hashlib.sha256(f"{self.inputs.begun_as or self.config.hash}\0{content}".encode()).hexdigest()[:12]
        name = f"part-{len(self.shards):05d}-{digest}"
        path = f"{INPUTS}/{name}.parquet"
        entry = self.known.get(path)
        if entry is None or what_is_wrong(self.folder, entry):
            root = self.folder / STAGED
            write_atomically(root / path, lambda temporary: write_parquet(temporary, self.record, items))
            entry = file_entry(root, root / path, len(items))
        self.files.append(entry)
        self.shards.append(Shard(name=name, input=entry.path, first=self._taken, rows=entry.rows))

    def _check(self) -> None:
        read = self._taken + len(self.invalid) + len(self.left_out)
        if not read:
            raise InvalidInput(f"holds no {self.nouns}; give a file that has some", file=self.sources[0])
        if not self.shards and self.left_out:
            who = "people did not reject" if self.inputs.refused.hash else "an audit did not set aside"
            raise NothingLeft(f"holds no {self.nouns} that {who}", file=self.sources[0])
        check_known(self.unaudited, self._taken + len(self.left_out), self.sources[0])
        check_invalid(self.invalid, read, is_any_valid=bool(self.shards))

    def _write_invalid(self) -> list[FileEntry]:
        rows = [*(_rejected(row) for row in self.invalid), *self.left_out]
        if not rows:
            return []
        root = self.folder / STAGED
        write_atomically(root / INVALID_ROWS, lambda temporary: write_parquet(temporary, RejectedRow, rows))
        return [file_entry(root, root / INVALID_ROWS, len(rows))]

    def _books(self) -> StageCount:
        aside = ["invalid_input"] * len(self.invalid) + [row.reason for row in self.left_out]
        return stage("read", inputs=self._taken + len(aside), accepted=self._taken, rejected=aside)

    @property
    def _taken(self) -> int:
        return sum(shard.rows for shard in self.shards)

    def _entry_of(self, source: Path) -> FileEntry:
        return FileEntry(path=str(source), rows=self.rows_of[source], sha256=sha256_of(source))

    def _run_id(self) -> str:
        refused = [self.inputs.refused.hash] if self.inputs.refused.hash else []
        second = [self.config.hash] if self.inputs.begun_as else []
        content = ",".join([*(shard.name for shard in self.shards), *refused, *second])
        return f"{self.inputs.dataset}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


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
    old, new = _flat(config_of(earlier)), _flat(config_of(now))
    changed = [f"{k}: {old.get(k)} -> {new.get(k)}" for k in sorted(old | new) if old.get(k) != new.get(k)]
    return "other settings (" + "; ".join(changed[:5]) + ")" if changed else "other prompts or schemas"


def _flat(value: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(value, dict):
        return {prefix.rstrip("."): value}
    flat: dict[str, object] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}{key}.")
    return flat
