"""One attempt at a run at a time, on however many machines, by files in the run's folder.

A driver begins an attempt by writing its name to `progress/attempt`. A worker of another attempt, whose driver was
killed or took it for lost, sees that and stops: it must not pay for what its successor pays for. And a driver misses a
worker whose progress file no longer changes, or that never had one while the others have nothing left to do: a runner
may wait for a dead one for ever.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol

from trailforge.pipelines.engine.files import write_text
from trailforge.pipelines.engine.progress import FOLDER, live_files, read_progress
from trailforge.schemas import ClusterError

_ATTEMPT = "attempt"
_LOOKS_PER_SILENCE = 20
_AGAIN = "; run the same command again"


class Superseded(Exception):
    """Another attempt at the run has begun. Of no interest to anybody but the worker that stops."""


class Job(Protocol):
    """What Beam gives back for a pipeline that was started."""

    def cancel(self) -> object:
        """Ask for an end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a driver waits, in seconds."""

    start_s: float = 900.0
    """For anything to move: workers to begin, or to go on when no call is under way."""
    silence_s: float = 120.0
    """Between two signs of life of one worker."""


def begin_attempt(folder: Path) -> str:
    """From here on workers of earlier attempts stop. The name of the new one."""
    name = uuid.uuid4().hex[:12]
    write_text(folder / FOLDER / _ATTEMPT, name)
    return name


def is_current(folder: Path, attempt: str) -> bool:
    """Whether no other attempt has begun. A folder that cannot be read just now says nothing."""
    try:
        return (folder / FOLDER / _ATTEMPT).read_text(encoding="utf-8") == attempt
    except FileNotFoundError:
        return False
    except OSError:
        return True


@dataclass(slots=True)
class _LastSeen:
    """What a watch knows of the workers, by their progress files."""

    moved_at: float
    """When a counter changed last, or a call was under way."""
    counters: Counter[str] = field(default_factory=Counter)
    changes: dict[Path, tuple[int, float]] = field(default_factory=dict)
    """By file: its time of change, and when we first saw that."""

    def look(self, folder: Path, now: float) -> tuple[float, float]:
        """Seconds in which nothing has moved, and in which one worker has been silent."""
        counters = read_progress(folder)
        if counters != self.counters or counters["in_flight"]:
            self.counters, self.moved_at = counters, now
        found: dict[Path, tuple[int, float]] = {}
        for path, changed in live_files(folder):
            before = self.changes.get(path)
            found[path] = before if before is not None and before[0] == changed else (changed, now)
        self.changes = found
        return now - self.moved_at, max((now - seen for _, seen in found.values()), default=0.0)


class Watch:
    """Cancels a job that has lost a worker. A context manager; `raise_loss` tells, after its end, of which."""

    def __init__(self, folder: Path, job: Job, patience: Patience) -> None:
        self._folder, self._job, self._patience = folder, job, patience
        self._loss = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trailforge-watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def raise_loss(self) -> None:
        """Raise `ClusterError` if a worker was lost."""
        if self._loss:
            raise ClusterError(self._loss)

    def _run(self) -> None:
        seen, patience = _LastSeen(time.monotonic()), self._patience
        every_s = min(patience.start_s, patience.silence_s) / _LOOKS_PER_SILENCE
        while not self._stop.wait(every_s):
            still_s, silent_s = seen.look(self._folder, time.monotonic())
            if silent_s > patience.silence_s:
                self._loss = f"a worker has given no sign of life for {patience.silence_s:g} s{_AGAIN}"
            elif still_s > patience.start_s:
                self._loss = (
                    f"no worker has done anything for {patience.start_s:g} s: do all workers run, can they import "
                    f"trailforge, and do they see {self._folder}?{_AGAIN}"
                )
            if self._loss:
                self._job.cancel()
                return
