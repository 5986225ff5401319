"""Show the progress of a run: each worker writes its counters to a small file, and readers add them up.

Counters are in files and not in memory, since workers may be other processes on other machines that share only the
run's folder.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    track,
)
from rich.text import Text

from trailforge.pipelines.engine import metrics
from trailforge.pipelines.engine.files import plain_files
from trailforge.pipelines.engine.log_lines import print_line, shows_bars
from trailforge.pipelines.engine.shards import SHARD_NAMES, Shard, SupportCount, missing_shards
from trailforge.schemas import NOTICE, parse_json

FOLDER = "progress"
_BEGUN = "begun"
NAMES = rf"attempt|begun|\d+-[0-9a-f]{{8}}(\.left)?\.(json|new)|{SHARD_NAMES}\.claim|[0-9a-f]{{8}}\.claim\.new"
NAMES += f"|{metrics.NAMES}"
"""What the names of the files there match."""
SUPPORT_SOUGHT, SUPPORT_FOUND = "support_sought", "support_found"
"""Names of the counters that hold the `SupportCount` of the items that are done."""
_PAID = "paid_calls"
OPERATIONAL = frozenset(
    ("items", "prompt_tokens", "completion_tokens", _PAID, "ledger_hits", "retries", "in_flight")
) | {"damaged_calls", "disbelieved_usage", "servers_waited_for", "refused_prompts", "unknown_endings"}
OPERATIONAL |= {SUPPORT_SOUGHT, SUPPORT_FOUND}
"""Counters that are no rows. `items`: how many are done. `damaged_calls`: kept, but unreadable, and so made again."""
_LOG = logging.getLogger(__name__)
_TROUBLE = "trouble"
_LEFT = ".left.json"


class ProgressFile:
    """One worker's counters on disk, which are also its sign of life, since every write changes the file."""

    def __init__(self, run_folder: Path) -> None:
        self._path = run_folder / FOLDER / f"{os.getpid()}-{uuid.uuid4().hex[:8]}.json"
        self._last = ""

    def write(self, counters: Mapping[str, int], trouble: str = "") -> None:
        """Write the counters, or only the time where they are unchanged. A full disk does not end the run. `trouble` is
        the last error message of a server that the worker waits for.
        """
        text = json.dumps({**counters, **({_TROUBLE: trouble} if trouble else {})})
        temporary = self._path.with_suffix(".new")
        try:
            if text == self._last:
                os.utime(self._path)
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text)
            temporary.replace(self._path)
        except OSError:
            temporary.unlink(missing_ok=True)
            return
        self._last = text

    def close(self, counters: dict[str, int] | None = None) -> None:
        """Write the last counters of a worker that leaves, so that no driver takes it for lost; with None those that
        were written before.
        """
        if counters is not None:
            self.write(counters)
        with contextlib.suppress(OSError):
            self._path.rename(self._path.with_suffix(_LEFT))


_STEP = "step "


@dataclass(frozen=True, slots=True)
class Steps:
    """Counts how many items have passed each step of a stage without a model, before any shard is finished.

    It is sent to the workers with their functions; all threads of a process count together.
    """

    folder: Path
    """The run's folder."""
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def count(self, step: str, number: int = 1, *, at_once: bool = False) -> None:
        """Count that `number` more items have passed a step, such as `judged`. `at_once` writes it now and not a little
        later.
        """
        with _lock:
            here = _steps_here.setdefault(self.name, _StepsHere(ProgressFile(self.folder)))
            here.counters[_STEP + step] += number
            if at_once or step != here.step or time.monotonic() >= here.next_write:
                here.file.write(here.counters)
                here.next_write = time.monotonic() + _EVERY_S
            here.step = step


@dataclass(slots=True)
class _StepsHere:
    """What this process has counted."""

    file: ProgressFile
    counters: Counter[str] = field(default_factory=Counter)
    step: str = ""
    """The last."""
    next_write: float = 0.0


_lock = threading.Lock()
_steps_here: dict[str, _StepsHere] = {}


def live_files(run_folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files of workers that have not left, with the time of their last change in ns of their machine's
    clock.
    """
    for path in (run_folder / FOLDER).glob("*.json"):
        if not path.name.endswith(_LEFT):
            with contextlib.suppress(OSError):
                yield path, path.stat().st_mtime_ns


def is_paying(path: Path) -> bool:
    """Tell whether a progress file is of a worker that calls a model."""
    return _PAID in _read(path)


def read_progress(run_folder: Path) -> Counter[str]:
    """Return the counters, summed over all workers."""
    total: Counter[str] = Counter()
    for written in _written(run_folder):
        total.update({name: count for name, count in written.items() if isinstance(count, int)})
    return total


def read_trouble(run_folder: Path) -> str:
    """Return the last error message of a server that a worker waits for; empty when none waits."""
    return next((str(written[_TROUBLE]) for written in _written(run_folder) if written.get(_TROUBLE)), "")


def _written(run_folder: Path) -> Iterator[dict[str, Any]]:
    return map(_read, (run_folder / FOLDER).glob("*.json"))


def _read(path: Path) -> dict[str, Any]:
    """Empty for a file that has gone, or holds something else."""
    try:
        written = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return written if isinstance(written, dict) else {}


def row_kinds(counters: Counter[str]) -> Counter[str]:
    """Return the counters of rows, by kind."""
    return Counter(
        {name: count for name, count in counters.items() if name not in OPERATIONAL and not name.startswith(_STEP)}
    )


def describe_steps(counters: Counter[str]) -> str:
    """Say how many items have taken which steps, as `Steps` counted them."""
    return ", ".join(f"{name.removeprefix(_STEP)} {n:,}" for name, n in counters.items() if name.startswith(_STEP))


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """When the counting process began, and which shards were finished before it."""

    at: float
    """Time in seconds since 1970."""
    finished: frozenset[str]
    """Names of the shards that were finished."""


def begin_progress(run_folder: Path, finished: Iterable[str]) -> None:
    """Remove the counters of earlier processes, and store which shards they had finished. A full disk does not stop the
    run.
    """
    folder = run_folder / FOLDER
    for path in plain_files(folder):
        if re.fullmatch(NAMES, path.name):
            path.unlink(missing_ok=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _BEGUN).write_text(json.dumps({"at": time.time(), "finished": sorted(finished)}))
    except OSError:
        return


def read_begun(run_folder: Path) -> Begun | None:
    """Read what `begin_progress` stored; None when there is nothing."""
    try:
        note = parse_json((run_folder / FOLDER / _BEGUN).read_bytes())
        return Begun(at=float(note["at"]), finished=frozenset(note["finished"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


_EVERY_S = 0.5
_REPORT_EVERY_S = 5.0
_LINE_EVERY_S = 30.0


@contextlib.contextmanager
def show_progress(
    folder: Path,
    unit: str,
    shards: Sequence[Shard],
    *,
    counts_items: bool,
    report: Callable[[float], None] | None = None,
) -> Iterator[None]:
    """Show the progress of a stage during a `with` block.

    `unit` is what its items are called. `counts_items` says that workers count items as they go; else those of finished
    shards are shown. `report` receives the percentage done.
    """
    watch = _Watch(folder, unit, shards, counts_items, report)
    watcher = threading.Thread(target=watch.run, name="trailforge-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        watch.stop.set()
        watcher.join()


@dataclass(slots=True)
class _Lines:
    """What stands in a file in the place of a bar: a line now and then, and none that says what the last one did."""

    last: str = ""
    next_at: float = 0.0

    def tell(self, line: str, done: int, total: int, *, at_once: bool) -> None:
        now = time.monotonic()
        if line != self.last and (at_once or now >= self.next_at):
            print_line("progress", line, done=done, total=total)
            self.last, self.next_at = line, now + _LINE_EVERY_S


def count_shown(items: Iterable[Any], what: str, total: int) -> Iterable[Any]:
    """Yield the items, and count them on the terminal."""
    console = Console(stderr=True)
    return track(items, what, total=total, console=console, disable=not shows_bars())


@contextlib.contextmanager
def show_parts() -> Iterator[Callable[[str, int, int], None]]:
    """Show work in parts: the `with` block calls the function it gets with a part's name, how much is done, and of how
    much.

    On a terminal each part has a bar; elsewhere a line is printed when a part begins and then, while it progresses,
    every half minute.
    """
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not shows_bars()) as bars:
        tasks: dict[str, TaskID] = {}
        lines = _Lines()

        def report(name: str, done: int, total: int) -> None:
            shown, is_new = name.replace("_", " "), name not in tasks
            if is_new:
                tasks[name] = bars.add_task(shown, total=total)
            bars.update(tasks[name], completed=done)
            if not shows_bars():
                lines.tell(f"{shown} {done:,}/{total:,}", done, total, at_once=is_new)

        yield report


@dataclass(slots=True)
class _Watch:
    """Looks at the run's folder again and again."""

    folder: Path
    unit: str
    waiting: Sequence[Shard]
    """That are not finished; at first all."""
    counts_items: bool
    report: Callable[[float], None] | None
    total: int = 0
    done_before: int = 0
    enough: int = 0
    """Questions that were searched for in vain, of which it is said: as many as the first shard has."""
    has_warned: bool = False
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.total = sum(shard.rows for shard in self.waiting)
        self.done_before = self._finished()
        self.enough = next((shard.rows for shard in self.waiting), 0)

    def run(self) -> None:
        is_terminal = shows_bars()
        bar = Progress(
            TextColumn(f"[bold]{self.unit}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        status = Text()
        next_report, lines = time.monotonic(), _Lines()
        live = Live(Group(bar, status), console=Console(stderr=True), refresh_per_second=4)
        with live if is_terminal else contextlib.nullcontext():
            task = bar.add_task(self.unit, total=self.total, completed=self.done_before)
            while True:
                is_last = self.stop.wait(_EVERY_S)
                done, status.plain, counters = self._look(is_last=is_last)
                bar.update(task, completed=done)
                now = time.monotonic()
                if is_last or now >= next_report:
                    self._report(done, counters)
                    next_report = now + _REPORT_EVERY_S
                if not is_terminal:
                    line = f"{self.unit} {done}/{self.total}  {status.plain}"
                    lines.tell(line, done, self.total, at_once=is_last)
                if is_last:
                    return

    def _report(self, done: int, counters: Counter[str]) -> None:
        """Tell those who look from elsewhere."""
        if self.report:
            self.report(min(100.0, 100 * done / max(1, self.total)))
        labels = {"folder": str(self.folder), "stage": self.unit}
        path = self.folder / FOLDER / metrics.METRICS
        metrics.write_metrics(path, labels, done, self.total, counters, row_kinds(counters))

    def _look(self, *, is_last: bool) -> tuple[int, str, Counter[str]]:
        counters = read_progress(self.folder)
        if not self.counts_items:
            return self._finished(), describe_steps(counters), counters
        self._warn(SupportCount(questions=counters[SUPPORT_SOUGHT], found=counters[SUPPORT_FOUND]), is_last=is_last)
        return self.done_before + counters["items"], _status(counters, read_trouble(self.folder)), counters

    def _warn(self, support: SupportCount, *, is_last: bool) -> None:
        """Say once that searches are in vain."""
        if support.warning and not self.has_warned and (is_last or support.questions >= self.enough):
            self.has_warned = True
            _LOG.log(NOTICE, "%s", support.warning)

    def _finished(self) -> int:
        """Items of finished shards. No receipt is read twice."""
        self.waiting = missing_shards(self.folder, self.waiting)
        return self.total - sum(shard.rows for shard in self.waiting)


def _status(counters: Counter[str], trouble: str = "") -> str:
    kinds = " ".join(f"{kind} {count}" for kind, count in sorted(row_kinds(counters).items())) or "no rows yet"
    tokens = counters["prompt_tokens"] + counters["completion_tokens"]
    anew = f", {counters['damaged_calls']:,} unreadable and made again" if counters["damaged_calls"] else ""
    waits = ", waiting for a model server that fails or is too busy" if counters["servers_waited_for"] else ""
    waits += f" ({trouble})" if waits and trouble else ""
    refused = f", {counters['refused_prompts']:,} prompts refused" if counters["refused_prompts"] else ""
    unknown = f", {counters['unknown_endings']:,} replies of unknown end" if counters["unknown_endings"] else ""
    counted = counters["disbelieved_usage"]
    guessed = f" ({counted:,} replies counted here: their usage was missing or impossible)" if counted else ""
    return (
        f"{kinds} | calls {counters['paid_calls']:,} (+{counters['ledger_hits']:,} from ledger{anew}), "
        f"{counters['in_flight']} in flight, {tokens / 1000:,.0f}k tokens{guessed}{refused}{unknown}{waits}"
    )
