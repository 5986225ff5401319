"""Shows how far a stage is: a bar on the terminal, a line now and then where there is none."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    track,
)
from rich.text import Text

from trailforge.pipelines.engine.progress import read_progress, row_kinds
from trailforge.pipelines.engine.shards import Shard, missing_shards

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
    """Show the progress of a stage until the block ends.

    `unit`: what its items are called. `counts_items`: its workers count them as they go; else those of finished shards
    are shown. `report` gets the percentage that is done, now and then.
    """
    watch = _Watch(folder, unit, shards, counts_items, report)
    watcher = threading.Thread(target=watch.run, name="trailforge-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        watch.stop.set()
        watcher.join()


def count_shown(items: Iterable[Any], what: str, total: int) -> Iterable[Any]:
    """The items, counted on the terminal as they pass."""
    console = Console(stderr=True)
    return track(items, what, total=total, console=console, disable=not console.is_terminal)


class _Watch:
    """Looks at the run's folder again and again."""

    def __init__(
        self,
        folder: Path,
        unit: str,
        shards: Sequence[Shard],
        counts_items: bool,
        report: Callable[[float], None] | None,
    ) -> None:
        self._folder, self._unit, self._counts_items, self._report = folder, unit, counts_items, report
        self._total = sum(shard.rows for shard in shards)
        self._waiting = missing_shards(folder, shards)
        self._done_before = self._finished()
        self.stop = threading.Event()

    def run(self) -> None:
        console, is_terminal = Console(stderr=True), sys.stderr.isatty()
        bar = Progress(
            TextColumn(f"[bold]{self._unit}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        status = Text()
        next_report = next_line = time.monotonic()
        live = Live(Group(bar, status), console=console, refresh_per_second=4)
        with live if is_terminal else contextlib.nullcontext():
            task = bar.add_task(self._unit, total=self._total, completed=self._done_before)
            while True:
                is_last = self.stop.wait(_EVERY_S)
                done, status.plain = self._look()
                bar.update(task, completed=done)
                now = time.monotonic()
                if self._report and (is_last or now >= next_report):
                    self._report(min(100.0, 100 * done / max(1, self._total)))
                    next_report = now + _REPORT_EVERY_S
                if not is_terminal and (is_last or now >= next_line):
                    line = f"{self._unit} {done}/{self._total}  {status.plain}"
                    console.print(line, highlight=False, soft_wrap=True)
                    next_line = now + _LINE_EVERY_S
                if is_last:
                    return

    def _look(self) -> tuple[int, str]:
        """How many items are done, and what else there is to say."""
        if not self._counts_items:
            self._waiting = missing_shards(self._folder, self._waiting)  # so that no receipt is read twice
            return self._finished(), ""
        counters = read_progress(self._folder)
        return self._done_before + counters["items"], _status(counters)

    def _finished(self) -> int:
        return self._total - sum(shard.rows for shard in self._waiting)


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
