"""Shows how far a run is: a bar on the terminal, a progress artifact in Prefect."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from trailforge.pipelines.engine.progress import read_progress, row_kinds

_EVERY_S = 0.5
_ARTIFACT_EVERY_S = 5.0
_LINE_EVERY_S = 30.0


@contextlib.contextmanager
def shown(
    folder: Path, unit: str, *, total: int, done_before: int, done: Callable[[], int] | None = None
) -> Iterator[None]:
    """Show the progress of a stage until the block ends.

    `unit`: what its items are called. `done_before`: items of shards that were finished earlier. `done`: says how many
    there are now, of a stage whose workers do not count them.
    """
    artifact = create_progress_artifact(progress=0.0, description=f"{folder.name}: {unit}")
    stop = threading.Event()
    watcher = threading.Thread(
        target=_watch,
        args=(folder, unit, total, done_before, done, artifact, stop),
        name="trailforge-progress",
        daemon=True,
    )
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def _watch(
    folder: Path,
    unit: str,
    total: int,
    done_before: int,
    now_done: Callable[[], int] | None,
    artifact: UUID | None,
    stop: threading.Event,
) -> None:
    console, is_terminal = Console(stderr=True), sys.stderr.isatty()
    bar = Progress(
        TextColumn(f"[bold]{unit}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    status = Text()
    next_artifact = next_line = time.monotonic()
    with Live(Group(bar, status), console=console, refresh_per_second=4) if is_terminal else contextlib.nullcontext():
        task = bar.add_task(unit, total=total, completed=done_before)
        while True:
            last = stop.wait(_EVERY_S)
            counters = read_progress(folder)
            done = now_done() if now_done else done_before + counters["items"]
            bar.update(task, completed=done)
            status.plain = told = _status(counters) if now_done is None else ""
            now = time.monotonic()
            if artifact and (last or now >= next_artifact):
                _update(artifact, 100 * done / max(1, total))
                next_artifact = now + _ARTIFACT_EVERY_S
            if not is_terminal and (last or now >= next_line):
                console.print(f"{unit} {done}/{total}  {told}", highlight=False, soft_wrap=True)
                next_line = now + _LINE_EVERY_S
            if last:
                return


def _status(counters: Counter[str]) -> str:
    kinds = " ".join(f"{kind} {count}" for kind, count in sorted(row_kinds(counters).items())) or "no rows yet"
    tokens = counters["prompt_tokens"] + counters["completion_tokens"]
    anew = f", {counters['damaged_calls']:,} unreadable and made again" if counters["damaged_calls"] else ""
    waits = ", waiting for a model server that fails or is too busy" if counters["servers_waited_for"] else ""
    counted = counters["disbelieved_usage"]
    guessed = f" ({counted:,} replies counted here: their usage was missing or impossible)" if counted else ""
    return (
        f"{kinds} | calls {counters['paid_calls']:,} (+{counters['ledger_hits']:,} from ledger{anew}), "
        f"{counters['in_flight']} in flight, {tokens / 1000:,.0f}k tokens{guessed}{waits}"
    )


def _update(artifact: UUID, percent: float) -> None:
    """Progress is a courtesy: a Prefect server that went away must not end the run."""
    with contextlib.suppress(Exception):
        update_progress_artifact(artifact, progress=min(100.0, percent))
