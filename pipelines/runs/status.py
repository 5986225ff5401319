"""Read from a run's folder how far the run is, without disturbing one in progress."""

from __future__ import annotations

import shlex
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from trailforge.inference import Usage
from trailforge.inference.ledgers import SqliteLedger
from trailforge.pipelines.dataset import LEDGER, DataSet
from trailforge.pipelines.datasets import dataset_names, dataset_of, load_dataset
from trailforge.pipelines.engine.files import is_held
from trailforge.pipelines.engine.progress import read_begun, read_progress, row_kinds
from trailforge.pipelines.engine.shards import Receipt, finished_receipt
from trailforge.pipelines.engine.worker_errors import read_notes
from trailforge.pipelines.runs.accounting import add_up
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.pipelines.runs.finished import no_run
from trailforge.pipelines.runs.intake import Settings, read_settings
from trailforge.pipelines.runs.stages import PlannedStage, planned_stages
from trailforge.schemas import (
    DECISIONS_LOG,
    PATTERNS_LOG,
    InvalidInput,
    PromptRefused,
    StageCount,
    TrailforgeError,
    read_columns,
)

State = Literal["empty", "reading", "running", "stopped", "finished"]
"""The state of a run. `reading`: a process takes the questions in. `stopped`: the run was begun and is not finished,
and no process holds the folder."""

_BEFORE_A_RUN = {".lock", ".intake", "ledger"}
_LOGS = (Path(DECISIONS_LOG).name, Path(PATTERNS_LOG).name)
"""Of what people decided: inputs of a run, too."""
EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What the process that holds the folder has done since it began, and how fast."""

    seconds: float
    items: int
    items_per_minute: float
    seconds_left: float | None
    """Seconds until this stage ends at the present pace; None before its first item."""
    in_flight: int
    paid_calls: int
    ledger_hits: int
    retries: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """The status of a run: its progress, and what it has made and spent. Before there is a run, all figures are 0."""

    folder: str
    state: State
    next: str
    """What a person should do now."""
    is_held: bool
    """Whether a process holds the folder."""
    run_id: str | None = None
    dataset: str | None = None
    sources: tuple[str, ...] = ()
    """Names of the input files."""
    stage: str = ""
    """Name of the first stage that is not finished, or of the last; the figures of shards and items are those of
    this stage."""
    unit: str = "items"
    """What the stage's items are called."""
    shards: int = 0
    shards_done: int = 0
    items: int = 0
    items_done: int = 0
    """Number of items of finished shards; while the run goes on, with all that this process did."""
    rows: dict[str, int] = field(default_factory=dict)
    """Number of rows by kind, of finished shards and of what this process did. Of candidates only those that were
    selected count."""
    candidates: int = 0
    """Number of rows that single filters accepted and from which some will be selected; 0 once that is done."""
    put_aside: dict[str, int] = field(default_factory=dict)
    """Rejected and failed items of finished shards and of the intake, by `stage/reason`."""
    refused: int = 0
    """Number of these items that were not made because a server refused a prompt: `--redo refused` asks for them
    again."""
    calls: int = 0
    """Number of calls behind the rows of finished shards; tokens and cost are theirs."""
    calls_by_purpose: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    calls_kept: int | None = 0
    """Number of replies in the ledger; None when it cannot be read."""
    errors: tuple[str, ...] = ()
    """The errors that ended workers of the last try."""
    pace: Pace | None = None
    """The pace of the process that holds the folder; None when none does."""


def read_status(folder: Path) -> RunStatus:
    """Read how far the run in a folder is. Raises `InvalidInput` when there is no such folder, or it holds no run."""
    if not folder.is_dir():
        raise InvalidInput("no such run folder", file=folder)
    held, settings = is_held(folder), read_settings(folder)
    if settings is None:
        if not held and {path.name for path in folder.iterdir()} - _BEFORE_A_RUN:
            raise no_run(folder)
        state: State = "reading" if held else "empty"
        return RunStatus(
            folder=str(folder), state=state, next=_next(state, folder), is_held=held, calls_kept=_kept(folder)
        )
    return _status(folder, settings, held)


def follow(folder: Path, *, every_s: float = EVERY_S) -> Iterator[RunStatus]:
    """Read a run's status again and again, until no process holds its folder."""
    while True:
        status = read_status(folder)
        yield status
        if not status.is_held:
            return
        time.sleep(every_s)


def books_so_far(folder: Path, settings: Settings) -> tuple[StageCount, ...]:
    """Return the counts by stage of the finished part of a run."""
    stages = planned_stages(dataset_of(settings), folder, settings)
    return _added_up(settings, _receipts_so_far(folder, stages).values())


def describe_status(status: RunStatus) -> list[str]:
    """Describe a status in lines for people."""
    lines = [f"{status.folder}: {status.state}"]
    if status.run_id:
        lines[0] += f", {status.run_id} of {', '.join(status.sources)}"
        lines += [
            f"  stage      {status.stage}",
            f"  shards     {status.shards_done:,} of {status.shards:,}",
            f"  {status.unit:<10} {status.items_done:,} of {status.items:,}",
            f"  rows       {_counts(status.rows)}",
            *([f"  candidates {status.candidates:,}, to select from"] if status.candidates else []),
            f"  put aside  {_counts(status.put_aside) or 'none'}",
            *([f"  refused    {status.refused:,} by the server; --redo refused asks again"] if status.refused else []),
        ]
    kept = "cannot be read" if status.calls_kept is None else f"holds {status.calls_kept:,}"
    tokens = status.prompt_tokens + status.completion_tokens
    cost = f", cost {status.cost:,.2f}" if status.cost else ""
    lines.append(f"  calls      {status.calls:,} behind finished shards ({tokens:,} tokens{cost}); the ledger {kept}")
    lines += [f"  purposes   {_counts(status.calls_by_purpose)}"] if status.calls_by_purpose else []
    lines += [f"  pace       {_pace(status.pace)}"] if status.pace else []
    lines += [f"  error      {message}" for message in status.errors]
    return [*lines, f"  next       {status.next}"]


def _status(folder: Path, settings: Settings, held: bool) -> RunStatus:
    dataset = dataset_of(settings)
    stages = planned_stages(dataset, folder, settings)
    finished = _receipts_so_far(folder, stages)
    missing = {each.name for each in stages if any(shard.name not in finished for shard in each.shards or ())}
    stage = next((each for each in stages if each.name in missing), stages[-1])
    shards = stage.shards or ()
    manifest = read_manifest(folder)
    is_finished = manifest is not None and manifest.run_id == settings.run_id
    state: State = "finished" if is_finished else "running" if held else "stopped"
    begun = read_begun(folder) if state == "running" else None
    counters = read_progress(folder) if begun else Counter[str]()
    before = {name: each for name, each in finished.items() if begun is None or name in begun.finished}
    items = sum(shard.rows for shard in shards)
    done = sum(shard.rows for shard in shards if shard.name in before) + counters["items"]
    live = row_kinds(counters)
    kinds = sum((_kinds(folder, r, dataset) for r in before.values()), Counter() if dataset.candidates else live)
    is_selected = any(each.name == dataset.counted and each.shards and each.name not in missing for each in stages)
    usage = sum((receipt.usage for receipt in finished.values()), start=Usage())
    books = _added_up(settings, finished.values())
    return RunStatus(
        folder=str(folder),
        state=state,
        next=_next(state, folder, settings),
        is_held=held,
        run_id=settings.run_id,
        dataset=settings.dataset,
        sources=tuple(source.path for source in settings.sources),
        stage=stage.name,
        unit=stage.unit,
        shards=len(shards),
        shards_done=sum(shard.name in finished for shard in shards),
        items=items,
        items_done=done,
        rows=dict(sorted(kinds.items())),
        candidates=0 if is_selected else _candidates(dataset, before) + live.total() * bool(dataset.candidates),
        refused=sum(e.count for b in books for e in b.rejected + b.failed if e.reason == PromptRefused.reason),
        put_aside={f"{line.name}/{each.reason}": each.count for line in books for each in line.rejected + line.failed},
        calls=usage.calls,
        calls_by_purpose={each.purpose: each.calls for each in usage.by_purpose},
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost=usage.cost,
        calls_kept=_kept(folder),
        errors=() if is_finished else tuple(dict.fromkeys(map(str, read_notes(folder)))),
        pace=_measure_pace(counters, begun.at, items - done) if begun else None,
    )


def _receipts_so_far(folder: Path, stages: Iterable[PlannedStage]) -> dict[str, Receipt]:
    """By shard, of those that are finished."""
    receipts = {shard.name: finished_receipt(folder, shard) for stage in stages for shard in stage.shards or ()}
    return {name: receipt for name, receipt in receipts.items() if receipt is not None}


def _next(state: State, folder: Path, settings: Settings | None = None) -> str:
    at = shlex.quote(str(folder))
    if state == "stopped" and settings is not None:
        command = load_dataset(settings.dataset).command
        return (
            f"run the same command again (trailforge {command} … {_given(settings)} --out {at} …): "
            "it goes on from here and pays for no answered call twice"
        )
    commands = sorted(name.replace("_", "-") for name in dataset_names())
    return {
        "empty": f"start a run: trailforge {'|'.join(commands)} … --out {at}",
        "reading": "wait: the input is being read",
        "running": "wait; however it is stopped, the same command goes on",
        "finished": f"trailforge verify {at}; trailforge show {at}",
    }[state]


def _given(settings: Settings) -> str:
    """The input as the command takes it."""
    dataset = dataset_of(settings)
    paths = [Path(each.path) for each in settings.sources if not each.path.endswith(_LOGS)]
    given = (str(path.parent if dataset.takes_folder else path) for path in paths)
    return " ".join(f"{dataset.option} {shlex.quote(path)}" for path in given)


def _candidates(dataset: DataSet, finished: Mapping[str, Receipt]) -> int:
    entries = [entry for receipt in finished.values() for entry in receipt.files]
    return sum(entry.rows for entry in entries if entry.path.startswith(f"{dataset.candidates}/"))


def _kinds(folder: Path, receipt: Receipt, dataset: DataSet) -> Counter[str]:
    table, columns = dataset.rows, dataset.tables[dataset.rows].kind
    record = dataset.tables[table].record
    paths = (entry.path for entry in receipt.files)
    return sum((_kinds_in(folder / p, record, *columns) for p in paths if p.startswith(f"{table}/")), Counter())


@cache
def _kinds_in(path: Path, record: type, *columns: str) -> Counter[str]:
    """Of a file, which does not change once its shard is finished."""
    rows = read_columns(path, record, columns).to_pylist()
    return Counter(next(row[c] for c in columns if row[c]) for row in rows)


def _added_up(settings: Settings, receipts: Iterable[Receipt]) -> tuple[StageCount, ...]:
    return add_up([settings.books, *(receipt.stages for receipt in receipts)])


def _kept(folder: Path) -> int | None:
    if not (folder / LEDGER).is_file():
        return 0
    try:
        with closing(SqliteLedger(folder / LEDGER)) as ledger:
            return ledger.entries()
    except (TrailforgeError, sqlite3.Error):
        return None


def _measure_pace(counters: Counter[str], begun_at: float, missing: int) -> Pace:
    seconds, items = max(0.0, time.time() - begun_at), counters["items"]
    return Pace(
        seconds=round(seconds, 1),
        items=items,
        items_per_minute=round(60 * items / seconds, 2) if seconds else 0.0,
        seconds_left=round(missing * seconds / items, 1) if items else None,
        in_flight=counters["in_flight"],
        paid_calls=counters["paid_calls"],
        ledger_hits=counters["ledger_hits"],
        retries=counters["retries"],
        tokens=counters["prompt_tokens"] + counters["completion_tokens"],
    )


def _pace(pace: Pace) -> str:
    left = "not known yet" if pace.seconds_left is None else f"about {_duration(pace.seconds_left)} left"
    return (
        f"{pace.items_per_minute:,.1f} a minute, {left}; since {_duration(pace.seconds)}: "
        f"{pace.paid_calls:,} calls paid, {pace.ledger_hits:,} from the ledger, {pace.in_flight:,} in flight, "
        f"{pace.retries:,} tried again, {pace.tokens:,} tokens"
    )


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if seconds >= 90 else f"{seconds:.0f} s"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
