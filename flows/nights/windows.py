"""Define a window of days: which documents it takes from files that grow, and the folder in which its data is made.

    ROOT/2026-11-20/  plan.json  verdicts/  documents.jsonl.gz  taken.json
                      bundles/  questions.jsonl.gz  mcts/  kg/  window.json     (the runs that the plan names)

`plan.json` comes first and `window.json` last. Documents and people's decisions on earlier runs are copied: a window
that is killed and finished nights later has those that it began with, whatever became of the files.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any, TypeVar

from trailforge.curation import COPIES, copy_logs
from trailforge.flows.given import check_named
from trailforge.flows.nights.makes import PlannedDataSet
from trailforge.pipelines.engine import sha256_of, write_atomically, write_text
from trailforge.pipelines.runs import stage
from trailforge.pipelines.sources import read_documents
from trailforge.rows import InvalidRow
from trailforge.schemas import (
    FileEntry,
    InvalidInput,
    OutputError,
    SourceDocument,
    StageCount,
    from_dict,
    parse_json,
    to_dict,
)

PLAN, TAKEN, DONE = "plan.json", "taken.json", "window.json"
DOCUMENTS, QUESTIONS, VERDICTS = "documents.jsonl.gz", "questions.jsonl.gz", COPIES
FILES = frozenset({PLAN, TAKEN, DONE, DOCUMENTS, QUESTIONS})
UNDATED, TOO_EARLY, TOO_LATE, REPEATED, INVALID = "undated", "too_early", "too_late", "repeated", "invalid_input"
_MOST_INVALID = 0.05
_READINGS = 5
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """Everything that decides the data of a window: the content of `plan.json`, as the window was begun."""

    day: str
    """The window's day as an ISO date. Documents of this day are in the next window."""
    window_days: int
    """Number of days before `day` whose documents are taken."""
    documents: tuple[str, ...]
    """Files of documents, or patterns of files."""
    makes: tuple[PlannedDataSet, ...]
    """The data sets, in the order in which they are made."""
    kg: str
    """Folder of the knowledge graph; empty: there is none."""
    model_name: str | None
    benchmarks: tuple[str, ...]
    most_documents: int | None
    most_questions: int | None
    distractors: int
    """Number of other documents that a question's paragraphs have beside its own."""
    seed: int
    verdicts: tuple[str, ...] = ()
    """Folders of runs, logs of people's decisions on them, or patterns of either."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a day that is none, or a window without days."""
        if self.window_days < 1:
            raise InvalidInput("has to be 1 or more", field="window_days")
        if self.distractors < 0:
            raise InvalidInput("has to be 0 or more", field="distractors")
        _date(self.day)

    @property
    def first_day(self) -> str:
        """Return the first day whose documents are taken, as an ISO date."""
        return (_date(self.day) - timedelta(days=self.window_days)).isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenDocuments:
    """What a window took from its source files: the content of `taken.json`."""

    books: StageCount
    """Counts of all rows of the files, with the reasons why some were left out."""
    sources: tuple[FileEntry, ...]
    """The files of documents; `rows`: how many documents of each were taken."""
    verdicts: tuple[FileEntry, ...] = ()
    """The logs of people's decisions; `rows`: decisions in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSetFigures:
    """The figures of one data set of a window."""

    dataset: str
    folder: str
    """Name of the run's folder, in the window's folder."""
    skipped: str = ""
    """Why the data set was left out, and then all figures are 0; empty: it was made."""
    run_id: str = ""
    rows: int = 0
    """Number of accepted rows."""
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A complete window: the content of `window.json`, which is written last."""

    day: str
    first_day: str
    documents: StageCount
    questions: StageCount
    datasets: tuple[DataSetFigures, ...]
    breaches: tuple[str, ...]
    """Lines on the figures outside of their bands."""


def run_folders(folder: Path) -> list[Path]:
    """List the begun runs of a window, as its plan names them; none where the plan cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        named = [folder / make["folder"] for make in parse_json((folder / PLAN).read_bytes())["makes"]]
        return [run for run in named if run.is_dir()]
    return []


def unfinished_windows(root: Path, *, before: str) -> list[Path]:
    """List the windows that were begun and are not complete, for days before `before`, the earliest first."""
    begun = [folder for folder in folders(root) if folder.name < before and (folder / PLAN).is_file()]
    return [folder for folder in begun if not (folder / DONE).is_file()]


def read_plan(folder: Path) -> WindowPlan:
    """Read the plan with which a window was begun. Raises `OutputError` where no plan can be read."""
    plan = read_record(folder / PLAN, WindowPlan)
    if plan is None:
        raise OutputError(f"{folder} holds no window (no plan.json); give the folder of a day of a nightly root")
    return plan


def folders(root: Path) -> list[Path]:
    """List the folders of a root that are named like a day, the earliest first."""
    found = sorted(root.iterdir()) if root.is_dir() else []
    return [folder for folder in found if folder.is_dir() and _is_day(folder.name)]


def read_window(folder: Path) -> Window | None:
    """Read the complete window in a folder; None when it is not complete."""
    return read_record(folder / DONE, Window)


def take(folder: Path, plan: WindowPlan) -> TakenDocuments:
    """Copy the documents of the window's days into its folder, unless that is done, and return the counts.

    People's decisions on earlier runs are copied, too. All files are read again when one has changed meanwhile. Raises
    `InvalidInput` for a pattern without files, for a file that cannot be read or keeps changing, and when over 5 % of
    all rows are invalid.
    """
    done = read_record(folder / TAKEN, TakenDocuments)
    if done is not None:
        return done
    verdicts = copy_logs(plan.verdicts, folder / VERDICTS)
    files = find_files(plan.documents)
    for _ in range(_READINGS):
        before = [_version(file) for file in files]
        choice, sources = _chosen(files, plan)
        changed = [file for file, version in zip(files, before, strict=True) if version != _version(file)]
        if not changed:
            break
    else:
        problem = f"changed each of {_READINGS} times while it was read; write elsewhere and rename when it is whole"
        raise InvalidInput(problem, file=changed[0])
    choice.check()
    write_lines(folder / DOCUMENTS, choice.documents)
    taken = TakenDocuments(books=choice.books, sources=sources, verdicts=verdicts)
    write_text(folder / TAKEN, json.dumps(to_dict(taken), indent=1))
    return taken


def _chosen(files: Iterable[Path], plan: WindowPlan) -> tuple[Choice, tuple[FileEntry, ...]]:
    choice = Choice(_date(plan.first_day), _date(plan.day))
    for file in files:
        choice.add(file, read_documents([file]))
    entries = (FileEntry(path=str(file), rows=count, sha256=sha256_of(file)) for file, count in choice.rows_of.items())
    return choice, tuple(entries)


def _version(file: Path) -> tuple[int, ...]:
    """Changes with the content; empty for a file that is not there, which the reading reports."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


def find_files(patterns: Iterable[str]) -> list[Path]:
    """Return the files that names and patterns (`*`, `?`, `[…]`, `**`) stand for, each once, sorted by name."""
    patterns, found = [*patterns], dict[str, None]()
    check_named(patterns)
    for pattern in patterns:
        names = sorted(glob.glob(pattern, recursive=True)) if glob.has_magic(pattern) else [pattern]
        if not names:
            raise InvalidInput(
                "no file matches this name or pattern; see where the files are", file=pattern, field="documents"
            )
        found |= dict.fromkeys(names)
    return [Path(name) for name in found]


@dataclass(slots=True)
class Choice:
    """Chooses the documents of the days from `first` to the one before `day`, and counts why others are left out.

    A document without a date is left out, since it would be in every window. So is one that came before.
    """

    first: date
    day: date
    documents: list[SourceDocument] = field(default_factory=list)
    rows_of: dict[Path, int] = field(default_factory=dict)
    """Number of documents that were taken, by file."""
    _left_out: list[str] = field(default_factory=list)
    _invalid: list[InvalidRow] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def add(self, file: Path, rows: Iterable[SourceDocument | InvalidRow]) -> None:
        """Choose among the rows of a file, and count those that are left out."""
        before = len(self.documents)
        for row in rows:
            reason = self._against(row)
            if reason:
                self._left_out.append(reason)
            elif isinstance(row, SourceDocument):
                self.documents.append(row)
        self.rows_of[file] = len(self.documents) - before

    @property
    def books(self) -> StageCount:
        """Return the counts of all rows: taken, and left out by reason."""
        count = len(self.documents)
        return stage("window", inputs=count + len(self._left_out), accepted=count, rejected=self._left_out)

    def check(self) -> None:
        """Raise `InvalidInput` when too many rows are invalid."""
        rows = self.books.inputs
        if len(self._invalid) > _MOST_INVALID * rows:
            first = self._invalid[0]
            problem = f"{first.problem} ({len(self._invalid)} of {rows} rows are invalid; at most {_MOST_INVALID:.0%})"
            raise InvalidInput(problem, file=first.file, row=first.row, field=first.field)

    def _against(self, row: SourceDocument | InvalidRow) -> str:
        if isinstance(row, InvalidRow):
            self._invalid.append(row)
            return INVALID
        if row.id in self._seen:
            return REPEATED
        self._seen.add(row.id)
        if row.published is None:
            return UNDATED
        published = date.fromisoformat(row.published)
        return TOO_EARLY if published < self.first else TOO_LATE if published >= self.day else ""


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write records as JSON Lines in gzip. The same records give the same bytes."""

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
            packed.writelines(f"{json.dumps(to_dict(row), ensure_ascii=False)}\n".encode() for row in rows)

    write_atomically(path, write)


def finish(folder: Path, window: Window) -> None:
    """Write `window.json`, which marks a window as complete."""
    write_text(folder / DONE, json.dumps(to_dict(window), indent=1))


def read_record(path: Path, record: type[R]) -> R | None:
    """Read a record from a file of a window; None where there is no file. Raises `OutputError` for one that cannot
    be read."""
    try:
        return from_dict(record, parse_json(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, TypeError, ValueError, InvalidInput) as error:
        raise OutputError(f"{path} was not written by this trailforge ({error}); move it away") from error


def _date(day: str) -> date:
    try:
        return date.fromisoformat(day)
    except ValueError:
        raise InvalidInput(f"expected a day as 2026-11-20, found {day[:40]!r}", field="day") from None


def _is_day(name: str) -> bool:
    try:
        return date.fromisoformat(name).isoformat() == name
    except ValueError:
        return False
