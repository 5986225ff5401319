"""How far a run is: each worker writes its counters to a small file, whoever wants to know adds them up.

Files and not memory, since workers may be other processes on other machines that share only the run's folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trailforge.pipelines.engine.files import plain_files
from trailforge.schemas import parse_json

FOLDER = "progress"
_BEGUN = "begun"
NAMES = r"attempt|begun|\d+-[0-9a-f]{8}(\.left)?\.(json|new)"
"""What the names of the files there match."""
OPERATIONAL = frozenset(
    ("items", "prompt_tokens", "completion_tokens", "paid_calls", "ledger_hits", "retries", "in_flight")
) | {"damaged_calls", "disbelieved_usage", "servers_waited_for"}
"""Counters that are no rows. `items`: how many are done. `damaged_calls`: kept, but unreadable, and so made again."""
_LEFT = ".left.json"


class ProgressFile:
    """One worker's counters on disk, and its sign of life: the file changes at every write."""

    def __init__(self, run_folder: Path) -> None:
        self._path = run_folder / FOLDER / f"{os.getpid()}-{uuid.uuid4().hex[:8]}.json"
        self._last = ""

    def write(self, counters: dict[str, int]) -> None:
        """Replace the file, or its time. Progress is a courtesy: a full disk must not end the run here."""
        text = json.dumps(counters, sort_keys=True)
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

    def close(self, counters: dict[str, int]) -> None:
        """The last counters of a worker that leaves: nobody has to miss it."""
        self.write(counters)
        with contextlib.suppress(OSError):
            self._path.rename(self._path.with_suffix(_LEFT))


def live_files(run_folder: Path) -> Iterator[tuple[Path, int]]:
    """Files of the workers that have not left, and when each changed last, in ns of its machine's clock."""
    for path in (run_folder / FOLDER).glob("*.json"):
        if not path.name.endswith(_LEFT):
            with contextlib.suppress(OSError):
                yield path, path.stat().st_mtime_ns


def read_progress(run_folder: Path) -> Counter[str]:
    """The sum over all workers."""
    total: Counter[str] = Counter()
    for path in (run_folder / FOLDER).glob("*.json"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            counters = parse_json(path.read_bytes()).items()
            total.update({name: count for name, count in counters if isinstance(count, int)})
    return total


def row_kinds(counters: Counter[str]) -> Counter[str]:
    """The counters that are rows, by kind."""
    return Counter({name: count for name, count in counters.items() if name not in OPERATIONAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """When the process that counts now began, and what others had finished before it."""

    at: float
    """Seconds since 1970."""
    finished: frozenset[str]
    """Names of shards."""


def begin_progress(run_folder: Path, finished: Iterable[str]) -> None:
    """Forget the counters of earlier processes, and note which shards they had finished. A courtesy, as all here."""
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
    """The note of `begin_progress`; None when there is none."""
    try:
        note = parse_json((run_folder / FOLDER / _BEGUN).read_bytes())
        return Begun(at=float(note["at"]), finished=frozenset(note["finished"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
