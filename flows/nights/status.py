"""Read the progress of a nightly root's windows from their folders, without disturbing those in progress."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trailforge.flows.nights.replanning import is_begun
from trailforge.flows.nights.windows import (
    PLAN,
    DataSetFigures,
    Window,
    WindowPlan,
    folders,
    read_plan,
    read_window,
    run_folders,
)
from trailforge.flows.run_log import read_last_error
from trailforge.pipelines.engine.files import is_held
from trailforge.pipelines.runs import read_status
from trailforge.pipelines.runs.status import EVERY_S, RunStatus
from trailforge.schemas import TrailforgeError

State = Literal["complete", "running", "stopped", "unreadable"]
"""The state of a window. `stopped`: it was begun and is not complete, and no process holds its folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStatus:
    """The state of a window: the progress of its runs, and what to do next."""

    day: str
    state: State
    next: str
    """What a person should do now; empty when nothing is to be done."""
    runs: dict[str, str]
    """States of the runs that were begun, by folder; empty when the window is complete."""
    so_far: tuple[DataSetFigures, ...] = ()
    """Figures of the finished shards of its runs; empty when the window is complete."""
    last_error: str = ""
    """Time and message of the last failure in a run that has not finished since; empty when there is none."""
    window: Window | None = None
    """The complete window with its figures; None while it is not complete."""

    @property
    def made(self) -> tuple[DataSetFigures, ...]:
        """Return the figures of the window's runs: the final ones of a complete window, else those of what is finished
        so far.
        """
        return self.window.datasets if self.window else self.so_far


def read_windows(root: Path) -> list[WindowStatus]:
    """Return the windows that were begun in a root, the earliest first; an empty list for a folder that is no root."""
    return [_status(folder) for folder in folders(root) if (folder / PLAN).is_file()]


def follow_windows(root: Path) -> Iterator[list[WindowStatus]]:
    """Yield the windows of a root again and again, until no process works on any of them."""
    while True:
        yield (windows := read_windows(root))
        if all(window.state != "running" for window in windows):
            return
        time.sleep(EVERY_S)


def describe_windows(windows: Sequence[WindowStatus]) -> list[str]:
    """Write a table with a line for each window, then a line for each fault and for what to do next."""
    names = list(dict.fromkeys(made.folder for window in windows for made in window.made))
    head = ["day", "state", "documents", *names, "calls", "calls/row", "cost", "outside bands"]
    rows = [head, *(_cells(window, names) for window in windows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = ["<", "<", *[">"] * (len(head) - 2)]
    lines = [
        "  ".join(f"{c:{side}{w}}" for c, side, w in zip(row, sides, widths, strict=True)).rstrip() for row in rows
    ]
    return lines + [line for window in windows for line in _remarks(window)]


def _cells(window: WindowStatus, names: Sequence[str]) -> list[str]:
    made = {each.folder: each for each in window.made}
    calls, rows = sum(each.calls for each in window.made), sum(each.rows for each in window.made)
    books = window.window.documents if window.window else None
    return [
        window.day,
        window.state,
        f"{books.accepted:,}" if books else "",
        *("" if name not in made else "-" if made[name].skipped else f"{made[name].rows:,}" for name in names),
        f"{calls:,}",
        f"{calls / rows:,.1f}" if rows else "",
        f"{sum(each.cost for each in window.made):,.2f}",
        f"{len(window.window.breaches)}" if window.window else "",
    ]


def _remarks(window: WindowStatus) -> list[str]:
    skipped = [f"{made.folder} skipped: {made.skipped}" for made in window.made if made.skipped]
    breaches = [f"outside its band: {breach}" for breach in window.window.breaches] if window.window else []
    runs = ", ".join(f"{name} {state}" for name, state in window.runs.items())
    error = f"last error: {window.last_error}" if window.last_error else ""
    then = f"next: {window.next}" if window.next else ""
    return [f"{window.day}  {remark}" for remark in (*skipped, *breaches, runs, error, then) if remark]


def _status(folder: Path) -> WindowStatus:
    day = folder.name
    try:
        plan = read_plan(folder)
        window = read_window(folder)
        runs = {} if window else {run.name: read_status(run) for run in run_folders(folder)}
    except TrailforgeError as error:
        return WindowStatus(day=day, state="unreadable", next=str(error), runs={})
    if window is not None:
        return WindowStatus(day=day, state="complete", next="", runs={}, window=window)
    is_running = is_held(folder)
    return WindowStatus(
        day=day,
        state="running" if is_running else "stopped",
        next="wait; `trailforge status` of a run tells more" if is_running else _mend(folder, plan),
        runs={name: run.state for name, run in runs.items()},
        so_far=tuple(_made_so_far(name, run) for name, run in runs.items() if run.dataset),
        last_error=_last_error(folder, runs),
    )


def _mend(folder: Path, plan: WindowPlan) -> str:
    mend = "`trailforge nightly` for this day or a later one goes on"
    if free := [make.folder for make in plan.makes if not is_begun(folder / make.folder)]:
        mend += f"; with --day {folder.name}, {', '.join(free)} may be given other parameters"
    return mend


def _made_so_far(name: str, run: RunStatus) -> DataSetFigures:
    return DataSetFigures(
        dataset=run.dataset or "",
        folder=name,
        run_id=run.run_id or "",
        rows=sum(run.rows.values()),
        calls=run.calls,
        tokens=run.prompt_tokens + run.completion_tokens,
        cost=run.cost,
    )


def _last_error(folder: Path, runs: dict[str, RunStatus]) -> str:
    """Of all runs the latest: their lines begin with a time in one form."""
    found = [(*error, name) for name in runs if (error := read_last_error(folder / name))]
    return "{0}  {2}: {1}".format(*max(found)) if found else ""
