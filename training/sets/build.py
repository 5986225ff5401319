"""Make a training set from runs: read and check every row once, assign it to a split and position, and write it there.

read | judge | (segments) | split by question | mix | order | write | check | manifest

Rows pass through a file on disk, and only what is needed to place them stays in memory.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
import yaml

from trailforge.pipelines.engine import new_folder, sha256_of
from trailforge.pipelines.runs import MANIFEST, FinishedRun
from trailforge.schemas import (
    CountMismatch,
    InvalidInput,
    NothingLeft,
    PreferenceRow,
    Question,
    to_dict,
)
from trailforge.training.sets.config import TEXT_PROTOCOLS, ViewConfig
from trailforge.training.sets.conversations import collect_sft, collect_wrong, count_wanted
from trailforge.training.sets.difficulty import NOT_MEASURED, Measured
from trailforge.training.sets.files import SPLITS, TABLES, SetInput, SetManifest, TableRows
from trailforge.training.sets.judging import RowJudge
from trailforge.training.sets.mixture import Mixed, Mixture, read_mixture
from trailforge.training.sets.notes import Notes, names_in, note_of, read_notes
from trailforge.training.sets.order import (
    Books,
    RejectedRows,
    Staged,
    held_out,
    question_key,
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
    table_of,
)
from trailforge.training.sets.tables import Progress, SetTable

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
    "surplus_wrong": "--keep-wrong says how many are taken",
}
"""What to change when a reason took every row."""


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
    """Make a training set from finished runs, in any mixture, and from files of `questions` in `config.protocol`.

    `column_map` is for these files, as `pipelines.sources.read_questions` takes it. `measured` says how hard an agent
    found the questions; rows record it, and `config` may select by it. Raises `InvalidInput` for a run or file that
    cannot be used, settings that do not fit, and when a table or a wanted split would be empty; `OutputError` when
    `out` exists. Then nothing is left behind.
    """
    if questions and config.protocol is None:
        raise InvalidInput(
            f"questions of a file are asked in a protocol that you name: {', '.join(TEXT_PROTOCOLS)}", field="protocol"
        )
    runs = open_runs(folders) if folders or not questions else []
    asked = {path: read_asked(path, column_map) for path in questions}
    mixture, judge = _mixture(config, runs, questions), RowJudge(config, measured)
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
            right = collect_sft(runs, sft, judge, config, tell)
            if config.keep_wrong:
                wanted = count_wanted(config.keep_wrong, right)
                collect_wrong(runs, sft, judge, wanted, config.seed, staging / "wrong")
            _collect_rl(runs, asked, rl, judge, notes, measured, config, tell)
            _collect_pairs(runs, pairs, judge, notes, tell)
            _place(tables, config, mixture)
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
        _write_texts(folder, manifest)
    return manifest


def _write_texts(folder: Path, manifest: SetManifest) -> None:
    (folder / "README.md").write_text(describe_set(manifest), encoding="utf-8")
    (folder / MANIFEST).write_text(json.dumps(to_dict(manifest), indent=1), encoding="utf-8")


def describe_set(manifest: SetManifest) -> str:
    """Return the README of a training set: its content, and the line of code that loads it. Its front matter lets
    `datasets` load each table by its name, `sft` by default.
    """
    rows = Counter[tuple[str, str]]()
    for count in manifest.counts:
        rows[count.table, count.split] += count.rows
    configs: list[dict[str, object]] = []
    for table in TABLES:
        splits = [split for split in SPLITS if rows[table, split]]
        files = [{"split": split, "path": f"{table}/{split}/*.parquet"} for split in splits]
        if files:
            configs.append({"config_name": table, "data_files": files})
    configs[0]["default"] = True
    lines = "\n".join(f"| `{table}` | {split} | {number:,} |" for (table, split), number in rows.items() if number)
    first = configs[0]["config_name"]
    return f"""---
{yaml.safe_dump({"configs": configs}, sort_keys=False)}---
# A training set of trailforge

Made of {", ".join(sorted({each.dataset for each in manifest.inputs}))}.

```python
from datasets import load_dataset

rows = load_dataset("FOLDER", "{first}")  # the path of this folder; the loss is on turns with `train`
```

| table | split | rows |
|---|---|---:|
{lines}

Rows stand in the order in which to learn them. `manifest.json` has runs, settings, books and hashes; `rejected/` has
what was left out, each row with its reason. `trailforge train sft` trains on this folder, `trailforge export` writes it
for other trainers.
"""


def check(folder: Path, manifest: SetManifest) -> None:
    """Check the files that were written. Raises `CountMismatch` when counts do not add up, or a question is in two
    splits.

    They add up when there are as many rows as were accepted, less those replaced by their segments or left out by the
    mixture.
    """
    for line in manifest.stages:
        if line.balance:
            raise CountMismatch(
                f"{line.name}: {line.balance} of {line.inputs} rows are not accounted for; report this as a defect"
            )
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
            raise CountMismatch(
                f"{table}: {found} rows were written, {expected} were accepted; report this as a defect"
            )
    if both := sorted(keys["train"] & keys["validation"]):
        raise CountMismatch(f"{len(both)} questions are in both splits, as {both[0]!r}; report this as a defect")


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


def _mixture(config: ViewConfig, runs: Sequence[FinishedRun], questions: Sequence[Path]) -> Mixture:
    given = [Mixed(path=run.folder, dataset=run.dataset, origin=run.manifest_sha256) for run in runs]
    files = [Mixed(path=path, dataset=name_of(path), origin=sha256_of(path)) for path in questions]
    return read_mixture(config.mix, [*given, *files])


def _place(tables: Sequence[SetTable], config: ViewConfig, mixture: Mixture) -> None:
    if not any(table.entries for table in tables):
        raise NothingLeft(f"no rows are left {_reasons(tables)}")
    sft, *others = ({entry.key for entry in table.entries} for table in tables)
    validation = held_out(sft, set().union(*others), config.validation_share, config.seed)
    for table in tables:
        table.place(validation, config, mixture)


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
