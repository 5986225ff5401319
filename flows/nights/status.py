"""How the windows of a nightly root stand, read from their folders. What works in them is not disturbed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trailforge.flows.nights.replanning import is_begun
from trailforge.flows.nights.windows import PLAN, Window, folders, read_plan, read_window, run_folders
from trailforge.pipelines.engine.files import is_held
from trailforge.pipelines.runs.status import EVERY_S, read_status
from trailforge.schemas import TrailforgeError

State = Literal["complete", "running", "stopped", "unreadable"]
"""`stopped`: begun, not complete, and no process holds the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStatus:
    """How a window stands."""

    day: str
    state: State
    next: str
    """What to do now; empty when nothing is."""
    runs: dict[str, str]
    """States of the runs that were begun, by folder; empty when the window is complete."""
    window: Window | None = None
    """Its figures when it is complete."""

    @property
    def lines(self) -> list[str]:
        """For people."""
        if self.window is not None:
            return self.window.lines
        lines = [f"{self.day}: {self.state}", *(f"  {name:<18} {state}" for name, state in self.runs.items())]
        return [*lines, f"  next               {self.next}"]


def read_windows(root: Path) -> list[WindowStatus]:
    """The windows that were begun in a root, the earliest first; none for a folder that is no root."""
    return [_status(folder) for folder in folders(root) if (folder / PLAN).is_file()]


def follow_windows(root: Path) -> Iterator[list[WindowStatus]]:
    """`read_windows`, again and again, until no process works on any of them."""
    while True:
        yield (windows := read_windows(root))
        if all(window.state != "running" for window in windows):
            return
        time.sleep(EVERY_S)


def _status(folder: Path) -> WindowStatus:
    day = folder.name
    try:
        plan = read_plan(folder)
        window = read_window(folder)
        runs = {} if window else {run.name: read_status(run).state for run in run_folders(folder)}
    except TrailforgeError as error:
        return WindowStatus(day=day, state="unreadable", next=str(error), runs={})
    if window is not None:
        return WindowStatus(day=day, state="complete", next="", runs={}, window=window)
    if is_held(folder):
        return WindowStatus(day=day, state="running", next="wait; `trailforge status` of a run tells more", runs=runs)
    mend = "`trailforge nightly` for this day or a later one goes on"
    if free := [make.folder for make in plan.makes if not is_begun(folder / make.folder)]:
        mend += f"; with --day {day}, {', '.join(free)} may be given other parameters"
    return WindowStatus(day=day, state="stopped", next=mend, runs=runs)
