"""How a run stands, read from its folder. A run in progress is not disturbed."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq

from inference import SqliteLedger, Usage
from pipelines.accounting import add_up
from pipelines.files import is_held
from pipelines.finish import read_manifest
from pipelines.intake import Settings, read_settings
from pipelines.mcts_trajectories import DATASET, LEDGER
from pipelines.progress import read_begun, read_progress
from pipelines.shards import ERRORS, Receipt, read_receipt, receipt_path
from schemas import InvalidInput, TrailforgeError

State = Literal["empty", "reading", "running", "stopped", "finished"]
"""`reading`: a process takes the questions in. `stopped`: begun, not finished, and no process holds the folder."""

KINDS = ("correct", "retrieval", "reasoning", "decomposition")
_BEFORE_A_RUN = {".lock", ".intake", "ledger"}
_EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What the process that holds the folder has done since it began."""

    seconds: float
    questions: int
    questions_per_minute: float
    seconds_left: float | None
    """None before its first question."""
    in_flight: int
    paid_calls: int
    ledger_hits: int
    retries: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """How a run stands. Before there is a run, all figures are 0."""

    folder: str
    state: State
    next: str
    """What to do now."""
    is_held: bool
    """Whether a process holds the folder."""
    run_id: str | None = None
    source: str | None = None
    """The file of questions."""
    shards: int = 0
    shards_done: int = 0
    questions: int = 0
    questions_done: int = 0
    """Of finished shards; while it runs, all that this process answered too."""
    rows: dict[str, int] = field(default_factory=dict)
    """Accepted rows by kind, counted as the questions are."""
    put_aside: dict[str, int] = field(default_factory=dict)
    """Rejected and failed items of finished shards and of the intake, by `stage/reason`."""
    calls: int = 0
    """Behind the rows of finished shards, as the tokens and the cost are."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    calls_kept: int | None = 0
    """In the ledger; None when it cannot be read."""
    errors: tuple[str, ...] = ()
    """That ended workers of the last try."""
    pace: Pace | None = None
    """None when it does not run."""


def read_status(folder: Path) -> RunStatus:
    """How the run in this folder stands. Raises `InvalidInput` when there is no such folder, or it holds no run."""
    if not folder.is_dir():
        raise InvalidInput("no such run folder", file=folder)
    held, settings = is_held(folder), read_settings(folder)
    if settings is None:
        if not held and {path.name for path in folder.iterdir()} - _BEFORE_A_RUN:
            raise InvalidInput("not a run folder (no run.json)", file=folder)
        state: State = "reading" if held else "empty"
        return RunStatus(
            folder=str(folder), state=state, next=_next(state, folder), is_held=held, calls_kept=_kept(folder)
        )
    return _status(folder, settings, held)


def follow(folder: Path, *, every_s: float = _EVERY_S) -> Iterator[RunStatus]:
    """How it stands, again and again, until no process holds the folder."""
    while True:
        status = read_status(folder)
        yield status
        if not status.is_held:
            return
        time.sleep(every_s)


def told(status: RunStatus) -> list[str]:
    """The status in lines."""
    lines = [f"{status.folder}: {status.state}" + (f", {status.run_id} of {status.source}" if status.run_id else "")]
    if status.run_id:
        lines += [
            f"  shards     {status.shards_done:,} of {status.shards:,}",
            f"  questions  {status.questions_done:,} of {status.questions:,}",
            f"  rows       {_counts(status.rows)}",
            f"  put aside  {_counts(status.put_aside) or 'none'}",
        ]
    kept = "cannot be read" if status.calls_kept is None else f"holds {status.calls_kept:,}"
    tokens = status.prompt_tokens + status.completion_tokens
    cost = f", cost {status.cost:,.2f}" if status.cost else ""
    lines.append(f"  calls      {status.calls:,} behind finished shards ({tokens:,} tokens{cost}); the ledger {kept}")
    lines += [f"  pace       {_pace(status.pace)}"] if status.pace else []
    lines += [f"  error      {message}" for message in status.errors]
    return [*lines, f"  next       {status.next}"]


def _status(folder: Path, settings: Settings, held: bool) -> RunStatus:
    receipts = [read_receipt(folder, s) for s in settings.shards if receipt_path(folder, s).exists()]
    manifest = read_manifest(folder)
    is_finished = manifest is not None and manifest.run_id == settings.run_id
    state: State = "finished" if is_finished else "running" if held else "stopped"
    begun = read_begun(folder) if state == "running" else None
    counters = read_progress(folder) if begun else Counter[str]()
    before = [receipt for receipt in receipts if begun is None or receipt.shard in begun.finished]
    rows_of = {shard.name: shard.rows for shard in settings.shards}
    done = sum(rows_of[receipt.shard] for receipt in before) + counters["questions"]
    kinds = sum((_kinds(folder, receipt) for receipt in before), Counter({k: counters[k] for k in KINDS}))
    usage = sum((receipt.usage for receipt in receipts), start=Usage())
    return RunStatus(
        folder=str(folder),
        state=state,
        next=_next(state, folder, settings),
        is_held=held,
        run_id=settings.run_id,
        source=settings.source.path,
        shards=len(settings.shards),
        shards_done=len(receipts),
        questions=settings.items,
        questions_done=done,
        rows={kind: kinds[kind] for kind in KINDS},
        put_aside=_put_aside(settings, receipts),
        calls=usage.calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost=usage.cost,
        calls_kept=_kept(folder),
        errors=() if is_finished else _errors(folder),
        pace=_pace_of(counters, begun.at, settings.items - done) if begun else None,
    )


def _next(state: State, folder: Path, settings: Settings | None = None) -> str:
    if state == "stopped" and settings is not None:
        return (
            f"run the same command again (--questions {settings.source.path} --out {folder} …): it goes on from here "
            "and pays for no answered call twice"
        )
    return {
        "empty": f"start a run: trailforge mcts-trajectories --questions FILE --out {folder}",
        "reading": "wait: the questions are being read",
        "running": "wait; however it is stopped, the same command goes on",
        "finished": f"trailforge verify {folder}; trailforge show {folder}",
    }[state]


def _kinds(folder: Path, receipt: Receipt) -> Counter[str]:
    """Rows by kind of a finished shard."""
    paths = (entry.path for entry in receipt.files)
    return sum((_kinds_in(folder / p) for p in paths if p.startswith(f"{DATASET}/")), Counter())


@cache
def _kinds_in(path: Path) -> Counter[str]:
    """Of a file, which does not change once its shard is finished."""
    columns = pq.read_table(path, columns=["kind", "reflection_error"]).to_pydict()
    return Counter(error or kind for kind, error in zip(columns["kind"], columns["reflection_error"], strict=True))


def _put_aside(settings: Settings, receipts: Iterable[Receipt]) -> dict[str, int]:
    books = add_up([settings.books, *(receipt.stages for receipt in receipts)])
    return {f"{line.name}/{each.reason}": each.count for line in books for each in line.rejected + line.failed}


def _kept(folder: Path) -> int | None:
    if not (folder / LEDGER).is_file():
        return 0
    ledger = SqliteLedger(folder / LEDGER)
    try:
        return ledger.entries()
    except (TrailforgeError, sqlite3.Error):
        return None
    finally:
        ledger.close()


def _errors(folder: Path) -> tuple[str, ...]:
    noted = []
    for path in sorted((folder / ERRORS).glob("*.json")):
        try:
            noted.append(json.loads(path.read_text(encoding="utf-8"))["message"])
        except (OSError, ValueError, KeyError):
            continue
    return tuple(dict.fromkeys(noted))


def _pace_of(counters: Counter[str], begun_at: float, missing: int) -> Pace:
    seconds, questions = max(0.0, time.time() - begun_at), counters["questions"]
    return Pace(
        seconds=round(seconds, 1),
        questions=questions,
        questions_per_minute=round(60 * questions / seconds, 2) if seconds else 0.0,
        seconds_left=round(missing * seconds / questions, 1) if questions else None,
        in_flight=counters["in_flight"],
        paid_calls=counters["paid_calls"],
        ledger_hits=counters["ledger_hits"],
        retries=counters["retries"],
        tokens=counters["prompt_tokens"] + counters["completion_tokens"],
    )


def _pace(pace: Pace) -> str:
    left = "not known yet" if pace.seconds_left is None else f"about {_duration(pace.seconds_left)} left"
    return (
        f"{pace.questions_per_minute:,.1f} questions a minute, {left}; since {_duration(pace.seconds)}: "
        f"{pace.paid_calls:,} calls paid, {pace.ledger_hits:,} from the ledger, {pace.in_flight:,} in flight, "
        f"{pace.retries:,} tried again, {pace.tokens:,} tokens"
    )


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if seconds >= 90 else f"{seconds:.0f} s"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
