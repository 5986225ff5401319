"""Runs to a training set: read and judge every row once, place them, write them in their place.

read | judge | (segments) | split by question | mix | order | write | check | manifest

Rows pass through a file on disk, and only what is needed to place them stays in memory.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from trailforge.pipelines.engine.files import new_folder, sha256_of
from trailforge.pipelines.runs.finished import MANIFEST, FinishedRun
from trailforge.schemas import (
    CountMismatch,
    FileEntry,
    InvalidInput,
    NothingLeft,
    PreferenceRow,
    Question,
    RlRow,
    SftRow,
    StageCount,
    Verdict,
    to_dict,
)
from trailforge.training.sets.config import TEXT_PROTOCOLS, ViewConfig
from trailforge.training.sets.difficulty import NOT_MEASURED, Measured
from trailforge.training.sets.files import SPLITS, TABLES, SetInput, SetManifest, SplitCount, TableRows
from trailforge.training.sets.judging import SPLIT, Row, RowJudge, segments, without_invisible
from trailforge.training.sets.notes import Notes, names_in, note_of, read_notes
from trailforge.training.sets.order import (
    Books,
    Entry,
    RejectedRows,
    Staged,
    held_out,
    mixed,
    ordered,
    question_key,
    write_parts,
)
from trailforge.training.sets.runs import (
    asked_rows,
    difficulties,
    name_of,
    open_runs,
    paid_by,
    question_count,
    read_asked,
    rl_rows,
    stage_of,
    table_of,
)

_MENDS = {
    "too_long": "--max-tokens sets the longest row, --long-rows segments cuts rows into turns",
    "contaminated": "a --benchmark asks the same",
    "reflective": "--reflective takes them, without --leave-out",
    "provoked": "--errors all takes them",
    "known_from_memory": "--known-share 1 takes them",
    "gold_not_stated": "--unstated mark takes them",
    "not_measured": "--measured has to be an evaluation of these questions",
    "outside_pass_rate": "--pass-rate says which are taken",
    "outside_calls": "--calls says which are taken",
}
"""What to change when a reason took every row."""
Progress = Callable[[str, int, int], None]
"""Told what is being done, how many rows are done, and of how many."""


def make_training_set(
    folders: Sequence[Path],
    out: Path,
    config: ViewConfig,
    *,
    questions: Sequence[Path] = (),
    column_map: Mapping[str, str] | None = None,
    measured: Measured = NOT_MEASURED,
    progress: Progress | None = None,
) -> SetManifest:
    """Make a training set of finished runs of any data sets, in any mixture, and of files of `questions` to learn on,
    which are asked in `config.protocol`. `column_map`: of these files, as `pipelines.sources.read_questions` takes it.
    `measured`: how hard an agent found the questions, which rows say, and by which `config` may choose.

    Raises `InvalidInput` for a run or file that cannot be used, settings that do not fit, and when a table or a wanted
    split would hold nothing; `OutputError` when `out` is taken. Then nothing is left behind.
    """
    if questions and config.protocol is None:
        raise InvalidInput(
            f"questions of a file are asked in a protocol that you name: {', '.join(TEXT_PROTOCOLS)}", field="protocol"
        )
    runs = open_runs(folders) if folders or not questions else []
    asked = {path: read_asked(path, column_map) for path in questions}
    judge = RowJudge(config, measured)
    with new_folder(out) as folder:
        staging = folder / ".staged"
        staging.mkdir()
        rejected = RejectedRows(folder, config.rows_per_file)
        tell = progress or (lambda what, done, total: None)
        with ExitStack() as opened:
            staged = {name: opened.enter_context(Staged(staging / name, record)) for name, record in TABLES.items()}
            tables = [
                SetTable(name=name, record=record, staged=staged[name], books=rejected)
                for name, record in TABLES.items()
            ]
            sft, rl, pairs = tables
            notes = read_notes(runs)
            _collect_sft(runs, sft, judge, tell)
            _collect_rl(runs, asked, rl, judge, notes, measured, config, tell)
            _collect_pairs(runs, pairs, judge, notes, tell)
            _place(tables, config)
            files = [file for table in tables for file in table.write(folder, config, tell)]
        rejected.close()
        shutil.rmtree(staging)
        manifest = SetManifest(
            inputs=_inputs(runs, asked, tables),
            config=json.dumps(to_dict(config)),
            measured_by=judge.measured_by,
            stages=tuple(line for table in tables for line in table.lines),
            counts=tuple(count for table in tables for count in table.counts()),
            files=(*files, *rejected.files),
            invisible=sum(table.invisible for table in tables),
            measured=measured.name,
        )
        check(folder, manifest)
        (folder / MANIFEST).write_text(json.dumps(to_dict(manifest), indent=1), encoding="utf-8")
    return manifest


@dataclass(slots=True, kw_only=True)
class SetTable:
    """A table of `TABLES` in the making."""

    name: str
    record: type
    staged: Staged[Any]
    books: RejectedRows
    entries: list[Entry] = field(default_factory=list)
    """Of the rows that stay."""
    lines: list[StageCount] = field(default_factory=list)
    splits: dict[str, list[Entry]] = field(default_factory=dict)
    """The rows in the order of learning."""
    invisible: int = 0
    """Characters that were taken out of its rows."""
    taken: Counter[str] = field(default_factory=Counter)
    """Rows by where they came from: the hash of a run's manifest, or of a file."""

    def clean(self, row: Row) -> Row:
        """The row as it is judged and kept: see `without_invisible`."""
        cleaned, removed = without_invisible(row)
        self.invisible += removed
        return cleaned

    def add(
        self,
        row: SftRow | RlRow | PreferenceRow,
        source: tuple[str, str],
        curriculum: tuple[int, float],
        tokens: int,
    ) -> None:
        """Take a row. `source`: its data set, and where it came from, as in `taken`."""
        dataset, origin = source
        self.taken[origin] += 1
        self.entries.append(
            Entry(
                number=self.staged.add(row),
                uid=row.uid,
                dataset=dataset,
                key=question_key(row.question),
                stage=curriculum[0],
                difficulty=curriculum[1],
                tokens=tokens,
            )
        )

    def place(self, validation: set[str], config: ViewConfig) -> None:
        """Split, mix and order the rows. Raises `InvalidInput` for a wanted split that would hold nothing."""
        trained = [entry for entry in self.entries if entry.key not in validation]
        kept, left = mixed(trained, config.mix, config.seed)
        if config.mix:
            books = Books(f"{self.name}_mix", self.books)
            books.accept(len(kept))
            for entry in left:
                verdict = Verdict(
                    keep=False, reason="mixture", score=1.0, detail=f"more {entry.dataset} than its share"
                )
                books.reject(entry.uid, self.staged.read(entry.number), verdict)
            self.lines.append(books.line(len(trained)))
        held = [entry for entry in self.entries if entry.key in validation]
        self.splits = {"train": kept, "validation": held} if config.validation_share else {"train": kept}
        for split, entries in self.splits.items():
            if not entries and self.entries and self.name != "pairs":  # which few questions have
                raise InvalidInput(
                    f"{self.name}/{split} would be empty: {len(self.entries)} rows of "
                    f"{len({entry.key for entry in self.entries})} questions; change the validation share or the mix"
                )
            self.splits[split] = ordered(entries, config.order, config.seed)

    def write(self, folder: Path, config: ViewConfig, tell: Progress) -> Iterator[FileEntry]:
        """The rows as files."""
        total = sum(map(len, self.splits.values()))
        done = 0
        for split, entries in self.splits.items():
            rows = (self.staged.read(entry.number) for entry in entries)
            for file in write_parts(folder, f"{self.name}/{split}", self.record, rows, config.rows_per_file):
                done += file.rows
                tell(f"writing {self.name}", done, total)
                yield file

    def counts(self) -> Iterator[SplitCount]:
        """What the splits hold."""
        for split, entries in self.splits.items():
            for dataset in sorted({entry.dataset for entry in entries}):
                own = [entry for entry in entries if entry.dataset == dataset]
                yield SplitCount(
                    table=self.name,
                    split=split,
                    dataset=dataset,
                    rows=len(own),
                    questions=len({entry.key for entry in own}),
                    tokens=sum(entry.tokens for entry in own),
                    longest=max(entry.tokens for entry in own),
                )


def check(folder: Path, manifest: SetManifest) -> None:
    """Raise `CountMismatch` when books do not balance, or a question stands in two splits: of the files, not of memory.

    Rows = accepted, less those that made room for their segments or the mixture.
    """
    for line in manifest.stages:
        if line.balance:
            raise CountMismatch(f"{line.name}: {line.balance} of {line.inputs} rows are not accounted for")
    keys: dict[str, set[str]] = {split: set() for split in SPLITS}
    for table in TABLES:
        found = 0
        for file in manifest.files:
            if file.path.startswith(f"{table}/"):
                questions = pq.read_table(folder / file.path, columns=["question"]).column("question").to_pylist()
                keys[file.path.split("/")[1]].update(map(question_key, questions))
                found += len(questions)
        lines = [line for line in manifest.stages if line.name.startswith(table)]
        mixed_out = sum(line.inputs - line.accepted for line in lines if line.name.endswith("_mix"))
        expected = sum(line.accepted for line in lines if not line.name.endswith("_mix")) - mixed_out
        if found != expected:
            raise CountMismatch(f"{table}: {found} rows were written, {expected} were accepted")
    if both := sorted(keys["train"] & keys["validation"]):
        raise CountMismatch(f"{len(both)} questions are in both splits, as {both[0]!r}")


def _collect_sft(runs: Sequence[FinishedRun], table: SetTable, judge: RowJudge, tell: Progress) -> None:
    books, of_segments = Books("sft", table.books), Books("sft_segments", table.books)
    made = 0
    having = [run for run in runs if run.files("sft")]
    total = sum(run.row_count("sft") for run in having)
    done = 0
    for run in having:
        known = difficulties(run)
        for batch in run.batches("sft", SftRow):
            for row in map(table.clean, batch):
                curriculum = known.get(row.question_id, (stage_of(row.num_hops), float(row.num_hops)))
                verdict, tokens = judge.conversation(row)
                if verdict is None:
                    books.accept()
                    table.add(row, (run.dataset, run.manifest_sha256), curriculum, tokens)
                    continue
                books.reject(row.uid, row, verdict)
                for segment in segments(row) if verdict.reason == SPLIT else ():
                    made += 1
                    against, tokens = judge.segment(segment)
                    if against is None:
                        of_segments.accept()
                        table.add(segment, (run.dataset, run.manifest_sha256), curriculum, tokens)
                    else:
                        of_segments.reject(segment.uid, segment, against)
            done += len(batch)
            tell("reading sft", done, total)
    table.lines.append(books.line(total))
    if made:
        table.lines.append(of_segments.line(made))


def _collect_rl(
    runs: Sequence[FinishedRun],
    files: Mapping[Path, Sequence[Question]],
    table: SetTable,
    judge: RowJudge,
    notes: Notes,
    measured: Measured,
    config: ViewConfig,
    tell: Progress,
) -> None:
    books, marked = Books("rl", table.books), False
    total = sum(map(question_count, runs)) + sum(map(len, files.values()))
    of_runs = ((run.manifest_sha256, row) for run in runs for row in rl_rows(run, config.protocol, names_in(notes)))
    of_files = (
        (sha256_of(path), row)
        for path, asked in files.items()
        for row in asked_rows(path, asked, config.protocol or "")
    )
    for done, (origin, read) in enumerate(chain(of_runs, of_files), start=1):
        made = measured.mark(paid_by(table.clean(read), config.reward))
        marked = marked or bool(made.measured_by)
        note = note_of(notes, made)
        row = replace(made, known_share=note.known_share, gold_stated=note.gold_stated)
        verdict, tokens = judge.question(row, note)
        if verdict is None:
            books.accept()
            table.add(row, (row.data_source, origin), (row.curriculum_stage, row.difficulty), tokens)
        else:
            books.reject(row.uid, row, verdict)
        tell("reading questions", done, total)
    if measured.cell and total and not marked:
        raise InvalidInput("none of these questions was measured: evaluate them", field="--measured")
    table.lines.append(books.line(total))


def _collect_pairs(runs: Sequence[FinishedRun], table: SetTable, judge: RowJudge, notes: Notes, tell: Progress) -> None:
    """Of runs that have pairs; a training set without any has no line for them."""
    books = Books("pairs", table.books)
    declared = {run.dataset: found for run in runs if (found := table_of(run.dataset, "pairs"))}
    having = [run for run in runs if run.dataset in declared]
    total = sum(run.row_count(declared[run.dataset][0]) for run in having)
    done = 0
    for run in having:
        name, where = declared[run.dataset]
        known = difficulties(run)
        truths = {row.question_id: row.reward_model.ground_truth for row in rl_rows(run, None, names_in(notes))}
        for stored in run.rows(name, where.record):
            row: PreferenceRow = table.clean(stored.preference(run.dataset, where.protocol))
            verdict, tokens = judge.pair(row, truths.get(row.question_id))
            if verdict is None:
                books.accept()
                table.add(row, (run.dataset, run.manifest_sha256), known.get(row.question_id, (1, 0.0)), tokens)
            else:
                books.reject(row.uid, row, verdict)
            done += 1
            tell("reading pairs", done, total)
    if total:
        table.lines.append(books.line(total))


def _place(tables: Sequence[SetTable], config: ViewConfig) -> None:
    if not any(table.entries for table in tables):
        raise NothingLeft(f"no rows are left {_reasons(tables)}")
    sft, *others = ({entry.key for entry in table.entries} for table in tables)
    validation = held_out(sft, set().union(*others), config.validation_share, config.seed)
    for table in tables:
        table.place(validation, config)


def _reasons(tables: Sequence[SetTable]) -> str:
    """What took the rows, most first."""
    counts: Counter[str] = Counter()
    for line in (line for table in tables for line in table.lines):
        counts.update({count.reason: count.count for count in line.rejected})
    if not counts:
        return "(the runs hold none)"
    told = ", ".join(f"{count:,} {reason}" for reason, count in counts.most_common())
    mends = (_MENDS[reason] for reason, _ in counts.most_common(1) if reason in _MENDS)
    return "; ".join([f"({', '.join(sorted(counts))}): {told}", *mends])


def _inputs(runs: Sequence[FinishedRun], files: Iterable[Path], tables: Sequence[SetTable]) -> tuple[SetInput, ...]:
    """Runs and files with what the tables took of each."""
    named = [(run.manifest.run_id, run.dataset, run.manifest_sha256) for run in runs]
    named += [(path.name, name_of(path), sha256_of(path)) for path in files]
    return tuple(
        SetInput(
            run_id=run_id,
            dataset=dataset,
            manifest_sha256=digest,
            rows=tuple(TableRows(table=table.name, rows=table.taken[digest]) for table in tables),
        )
        for run_id, dataset, digest in named
    )
