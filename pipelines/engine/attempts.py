"""Let only one attempt at a run work at a time, on however many machines, by means of files in the run's folder.

A driver begins an attempt by writing its name to `progress/attempt`. A worker of another attempt, whose driver was
killed or took it for lost, sees that and stops: it must not pay for what its successor pays for. And a driver misses a
worker whose progress file no longer changes, or that never had one while the others have nothing left to do: a runner
may wait for a dead one for ever.

Where a cluster gives the shards of a lost worker to others, the lost one may come back: it stood still, or its network
did. So a worker that begins a shard *claims* it, and writes its files only while the claim is its own.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trailforge.inference.shared_limits import LEASE_S
from trailforge.pipelines.engine.files import output_errors, write_text
from trailforge.pipelines.engine.progress import FOLDER, is_paying, live_files, read_progress
from trailforge.schemas import ClusterError

_ATTEMPT = "attempt"
_CLAIM = ".claim"
_LOOK_EVERY_S = 0.1
_LOOKS_PER_SILENCE = 20
_AGAIN = "; run the same command again"


class Superseded(Exception):
    """Raised in a worker when another attempt at the run has begun; only the worker, which then stops, sees it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a driver waits for workers, in seconds."""

    start_s: float = 900.0
    """Seconds until anything has to move: workers begin, or go on when no call is under way."""
    silence_s: float = 120.0
    """Seconds between two signs of life of one worker."""


def begin_attempt(folder: Path) -> str:
    """Begin an attempt, and return its name; workers of earlier attempts stop as soon as they notice."""
    name = uuid.uuid4().hex[:12]
    write_text(folder / FOLDER / _ATTEMPT, name)
    return name


def end_attempt(folder: Path) -> None:
    """End the attempt: all workers stop, since nothing is left to do, or nobody waits for it."""
    (folder / FOLDER / _ATTEMPT).unlink(missing_ok=True)


def await_earlier(folder: Path, tell: Callable[[str], None], lease_s: float = LEASE_S) -> None:
    """Stop the workers of earlier attempts, and wait until none can store a reply any more, so that the ledger says
    what was spent.

    Each worker reports when it leaves; a lost one can store nothing once its lease is over.
    """
    end_attempt(folder)
    seen: dict[Path, tuple[int, float]] = {}
    has_told = False
    while True:
        now = time.monotonic()
        paying = {path: changed for path, changed in live_files(folder) if is_paying(path)}
        seen = _first_seen(seen, paying, now)
        if all(now - at > lease_s for _, at in seen.values()):
            return
        if not has_told:
            tell("waiting until workers of an earlier attempt have kept what they paid for")
            has_told = True
        time.sleep(_LOOK_EVERY_S)


def _first_seen(
    before: Mapping[Path, tuple[int, float]], files: Mapping[Path, int], now: float
) -> dict[Path, tuple[int, float]]:
    """By file: its time of change, and when we first saw that."""
    kept = {path: before[path] for path, changed in files.items() if path in before and before[path][0] == changed}
    return {path: kept.get(path, (changed, now)) for path, changed in files.items()}


def claim_shard(folder: Path, shard: str) -> str:
    """Claim a shard for this caller alone, and return the claim, which `holds_claim` later checks."""
    claim, path = uuid.uuid4().hex, _claim_path(folder, shard)
    temporary = path.with_name(f"{claim[:8]}{_CLAIM}.new")
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(claim, encoding="utf-8")
        temporary.replace(path)
    return claim


def holds_claim(folder: Path, shard: str, claim: str) -> bool:
    """Tell whether a claim of a shard is still the latest. A claim that cannot be read just now counts as held."""
    try:
        return _claim_path(folder, shard).read_text(encoding="utf-8") == claim
    except FileNotFoundError:
        return False
    except OSError:
        return True


def drop_claim(folder: Path, shard: str) -> None:
    """Remove the claim of a shard that is finished, as its receipt now says."""
    with contextlib.suppress(OSError):
        _claim_path(folder, shard).unlink(missing_ok=True)


def _claim_path(folder: Path, shard: str) -> Path:
    return folder / FOLDER / f"{shard}{_CLAIM}"


def is_current(folder: Path, attempt: str) -> bool:
    """Tell whether no other attempt has begun; True when the folder cannot be read just now."""
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
    """See `_first_seen`."""

    def losses(self, folder: Path, patience: Patience) -> Iterator[str]:
        """What says that a worker is lost."""
        counters, now = read_progress(folder), time.monotonic()
        if counters != self.counters or counters["in_flight"]:
            self.counters, self.moved_at = counters, now
        self.changes = _first_seen(self.changes, dict(live_files(folder)), now)
        if any(now - seen > patience.silence_s for _, seen in self.changes.values()):
            yield f"a worker has given no sign of life for {patience.silence_s:g} s{_AGAIN}"
        if now - self.moved_at > patience.start_s:
            yield (
                f"no worker has done anything for {patience.start_s:g} s: do all workers run, can they import "
                f"trailforge, and do they see {folder}?{_AGAIN}"
            )


@contextlib.contextmanager
def watching(folder: Path, cancel: Callable[[], object], patience: Patience) -> Iterator[None]:
    """Watch the workers of a job during a `with` block; the job is cancelled when one is lost, and `ClusterError` is
    raised at the end.
    """
    losses: list[str] = []
    stop = threading.Event()

    def look() -> None:
        seen, every_s = _LastSeen(time.monotonic()), min(patience.start_s, patience.silence_s) / _LOOKS_PER_SILENCE
        while not (losses or stop.wait(every_s)):
            losses.extend(seen.losses(folder, patience))
        if losses:
            cancel()

    watcher = threading.Thread(target=look, name="trailforge-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
        if losses:
            raise ClusterError(losses[0])
