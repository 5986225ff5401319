"""Training sets on disk: `sft/`, `rl/` and `pairs/`, each with its splits; `rejected/`; `manifest.json`."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from trailforge.pipelines.runs import MANIFEST, RUN, check_hash
from trailforge.pipelines.sources import Audited, read_audited, split_audited, write_set_aside
from trailforge.schemas import (
    Earlier,
    FileEntry,
    GroundTruth,
    InvalidInput,
    PreferenceRow,
    Question,
    RejectedRow,
    RlRow,
    SftRow,
    StageCount,
    SupportingDocument,
    from_stored,
    iter_parquet,
    migration,
    parse_json,
)
from trailforge.training.processes import log
from trailforge.training.sets.config import TEXT_PROTOCOLS
from trailforge.training.sets.difficulty import gold_of

Record = TypeVar("Record")
Split = Literal["train", "validation"]
SPLITS: tuple[Split, ...] = ("train", "validation")
TABLES: dict[str, type] = {"sft": SftRow, "rl": RlRow, "pairs": PreferenceRow}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """The name of one of a set's tables, with its number of rows."""

    table: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetInput:
    """A run or a file of questions that the set was made from."""

    run_id: str
    """The run's id; for a file, its name."""
    dataset: str
    manifest_sha256: str
    """SHA-256 of the run's manifest; for a file, its own."""
    rows: tuple[TableRows, ...] | None = None
    """The number of rows that the set took from it, before the mixture; None in sets of earlier versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCount:
    """How many rows a split has from one data set."""

    table: str
    split: str
    dataset: str
    rows: int
    questions: int
    """Number of different questions."""
    tokens: int
    """Tokens of all rows: of conversations in `sft`, of prompts in `rl`, of both conversations in `pairs`."""
    longest: int
    """Tokens of the longest row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetManifest:
    """The description of a finished training set: the content of its `manifest.json`."""

    STORED_AS: ClassVar[str] = "SetManifest"
    SCHEMA_VERSION: ClassVar[str] = "1.3"
    EARLIER: ClassVar[Earlier] = dict.fromkeys(("1.0", "1.1", "1.2"), migration())

    inputs: tuple[SetInput, ...]
    config: str
    """The whole `ViewConfig` as JSON."""
    measured_by: str
    """The tokenizer by which rows were measured; `estimate` for `schemas.text.count_tokens`."""
    stages: tuple[StageCount, ...]
    counts: tuple[SplitCount, ...]
    files: tuple[FileEntry, ...]
    invisible: int = 0
    """Number of invisible characters that were taken out of text that no agent wrote
    (`schemas.text.remove_invisible`).
    """
    measured: str = ""
    """Agent, back end and model of the evaluation that says how hard the questions are, with a hash of what it says;
    empty: none.
    """
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSet:
    """A finished training set, opened for reading."""

    folder: Path
    manifest: SetManifest

    def files(self, table: str, split: str) -> list[Path]:
        """Return the Parquet files of a split in the order of training; none when it has no rows."""
        return [self.folder / entry.path for entry in self._entries(table, split)]

    @property
    def masks_mistakes(self) -> bool:
        """Tell whether mistaken claims are to be left out of the loss."""
        return json.loads(self.manifest.config).get("mistakes") == "mask"

    def row_count(self, table: str, split: str) -> int:
        """Return the number of rows of a split."""
        return sum(entry.rows for entry in self._entries(table, split))

    def batches(self, table: str, split: str, record: type[Record]) -> Iterator[list[Record]]:
        """Read the rows of a split in the order of training, a row group at a time. Raises `InvalidInput` as
        `iter_parquet` does, and `CountMismatch` for a file that differs from the manifest.
        """
        for entry in self._entries(table, split):
            check_hash(self.folder / entry.path, entry)
            yield from iter_parquet(self.folder / entry.path, record)

    def rows(self, table: str, split: str, record: type[Record]) -> Iterator[Record]:
        """Read the rows of a split in the order of training, one at a time."""
        for batch in self.batches(table, split, record):
            yield from batch

    def _entries(self, table: str, split: str) -> list[FileEntry]:
        return [entry for entry in self.manifest.files if entry.path.startswith(f"{table}/{split}/")]


def set_hash(folder: Path) -> str:
    """Return the SHA-256 of a set's manifest, which has the hash of every file."""
    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()


def open_set(folder: Path) -> TrainingSet:
    """Open a training set. Raises `InvalidInput` when the folder holds none of this version."""
    if not (folder / MANIFEST).is_file():
        raise InvalidInput(f"no training set (no {MANIFEST}); `trailforge training-set` makes one of runs", file=folder)
    if (folder / RUN).is_file() or not any((folder / table).is_dir() for table in TABLES):
        raise InvalidInput("a run, and no training set; `trailforge training-set` makes one of it", file=folder)
    return TrainingSet(folder=folder, manifest=_read_manifest(folder / MANIFEST))


def _read_manifest(path: Path) -> SetManifest:
    try:
        value = parse_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror}); see its permissions", file=path) from error
    except ValueError as error:
        raise InvalidInput(f"not valid JSON ({error})", file=path) from error
    return from_stored(SetManifest, value, source=path)


Row = TypeVar("Row", SftRow, RlRow, PreferenceRow)


def rows_of(folder: Path, table: str, split: Split, record: type[Row]) -> list[Row]:
    """Read all rows of a split, in the order of training. Raises what `open_set` raises, and `InvalidInput` when there
    are none.
    """
    rows = list(open_set(folder).rows(table, split, record))
    if not rows:
        raise InvalidInput(
            f"no rows in {table}/{split}; make the set with `training-set` from runs that have some", file=folder
        )
    return rows


def held_out_questions(folder: Path) -> list[Question]:
    """Read the questions of `rl/validation`, each once, for evaluations. Where questions of two runs have one id, all
    but the first get the row's uid added to it. Raises what `rows_of` raises.
    """
    rows = {
        (row.data_source, row.question_id, row.question, row.reward_model.ground_truth.target[:1]): row
        for row in rows_of(folder, "rl", "validation", RlRow)
    }
    alike: Counter[tuple[str, str]] = Counter()
    questions = []
    for (dataset, id, text, _), row in rows.items():
        alike[dataset, id] += 1
        own = id if alike[dataset, id] == 1 else f"{id} ({row.uid})"
        questions.append(make_question(row.reward_model.ground_truth, id=own, question=text, dataset=dataset))
    return questions


def make_question(truth: GroundTruth, *, id: str, question: str, dataset: str) -> Question:
    """Return a training's question in the form that evaluations have, with the gold answers of its source. Names that
    rules made are left to the reward. For a question with options the letters are the answer.
    """
    golds = (", ".join(truth.correct_options),) if truth.correct_options else truth.given
    return Question(
        id=id,
        question=question,
        answer=golds[0],
        answer_aliases=golds[1:],
        decomposition=truth.hops,
        dataset=dataset,
        num_hops=truth.num_hops,
        supporting=tuple(SupportingDocument(title=title) for title in truth.support_titles if title),
        options=truth.options,
        correct_options=truth.correct_options,
    )


def set_aside(rows: Sequence[RlRow], audited: Audited) -> tuple[list[RlRow], list[RejectedRow]]:
    """Split off the questions that an audit found unanswerable; they are returned with the audit's reasons. Raises what
    `split_audited` raises.
    """

    def key_of(row: RlRow) -> str | None:
        return audited.key_by_words(row.question, gold_of(row.reward_model.ground_truth), row.question_id)

    return split_audited(rows, audited, key_of)


def questions_left(folder: Path, split: Split, protocol: str, audited: Path | None, out: Path) -> list[RlRow]:
    """Read the questions of a split, as `questions_of` does, without those that the audit at `audited` found to have no
    answer. These are written to the training's folder `out`, each with the reason.
    """
    rows, aside = set_aside(questions_of(folder, split, protocol), read_audited(audited))
    write_set_aside(out, aside, split)
    return rows


def questions_of(folder: Path, split: Split, protocol: str) -> list[RlRow]:
    """Read the questions of a split that are asked in a protocol, in the order of training, and print how many others
    there are.

    A prompt tells the agent how to search and how to answer, so no other grammar may read what it writes and no other
    reward may be used. Raises what `rows_of` raises, and `InvalidInput` when there are none.
    """
    rows = rows_of(folder, "rl", split, RlRow)
    asked = Counter(row.reward_model.ground_truth.protocol for row in rows)
    others = ", ".join(f"{name} {count:,}" for name, count in sorted(asked.items()) if name != protocol)
    if not asked[protocol]:
        mend = f"; `training-set --protocol {protocol}` asks them so" if protocol in TEXT_PROTOCOLS else ""
        raise InvalidInput(f"rl/{split} asks nothing in {protocol} ({others}){mend}", file=folder, field="protocol")
    if others:
        log(f"rl/{split}: {asked[protocol]:,} questions are in {protocol}; others are left out ({others})")
    return [row for row in rows if row.reward_model.ground_truth.protocol == protocol]
