"""Shards, the unit of work: each is run once, by whichever worker, however often one is killed.

A shard is a file of input items. Its name holds the hash of the items and of the configuration. A worker runs the
items of all its shards on one event loop, then writes the shard's tables and, last, its *receipt* (`shards/NAME.json`).
A shard with a receipt is not run again; without one its files are made anew, from the ledger and so at no cost,
byte for byte the same. The DoFn of every pipeline is here, and so is the only place that makes an error a `failed` row.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from trailforge.inference import Prices, Usage, metering
from trailforge.pipelines.engine.attempts import Patience, Superseded, Watch, begin_attempt, is_current
from trailforge.pipelines.engine.files import sha256_of, write_atomically, write_text
from trailforge.pipelines.engine.loop import LoopThread
from trailforge.pipelines.engine.progress import ProgressFile
from trailforge.pipelines.engine.runners import check_runner, is_local, telling_line
from trailforge.pipelines.engine.worker_errors import clear_errors, note_error, noted_error
from trailforge.pipelines.runs.accounting import add_up, stage
from trailforge.schemas import (
    ITEM_ERRORS,
    ClusterError,
    FileEntry,
    InvalidInput,
    OutputError,
    RejectedRow,
    StageCount,
    TrailforgeError,
    from_dict,
    parse_json,
    read_parquet,
    to_dict,
    write_parquet,
)

RECEIPTS = "shards"
_PROGRESS_EVERY_S = 0.5
_DEFAULT_PATIENCE = Patience()
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A file of items to run."""

    name: str
    """Stem of every file the shard writes: `part-INDEX-HASH`."""
    input: str
    """Path of the items, relative to the run's folder."""
    first: int
    """Position of the first item in the whole input."""
    rows: int
    made_of: str = ""
    """Digest of the files that earlier stages made it of; empty for what was read from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a finished shard wrote."""

    shard: str
    files: tuple[FileEntry, ...]
    stages: tuple[StageCount, ...]
    usage: Usage = field(default_factory=Usage)
    shards: tuple[Shard, ...] = ()
    """That the next stage is to run, where a stage makes those of another."""
    made_of: str = ""
    """That of the shard when it was run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemResult:
    """What one item gave: rows by table, its line in the books, its cost."""

    rows: Mapping[str, Sequence[Any]]
    stages: tuple[StageCount, ...]
    usage: Usage


class Session(Protocol):
    """A worker's open connections. Lives on the worker's event loop."""

    async def run(self, item: Any, position: int) -> ItemResult:
        """Make the rows of one item. `position` is its place in the whole input, from 0."""
        ...

    def counters(self) -> dict[str, int]:
        """What the progress bar shows."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class Work(Protocol):
    """What to do with items: small, picklable, shipped to workers."""

    @property
    def item(self) -> type:
        """Record class of the items."""
        ...

    @property
    def tables(self) -> Mapping[str, type]:
        """Record class of each table that is written, by the table's name; always with `rejected`."""
        ...

    @property
    def stage(self) -> str:
        """Name of the stage in which an item can fail."""
        ...

    @property
    def items_in_flight(self) -> int:
        """Items that one worker runs at a time."""
        ...

    @property
    def prices(self) -> Prices:
        """Of the model's tokens."""
        ...

    async def open(self) -> Session:
        """Connect. Called once per worker, on its event loop."""
        ...


def run_pipeline(
    work: Work,
    folder: Path,
    shards: Sequence[Shard],
    beam_options: Sequence[str],
    patience: Patience = _DEFAULT_PATIENCE,
) -> None:
    """Run the shards that have no receipt yet. Raises the first error that stopped a worker."""
    missing = missing_shards(folder, shards)
    if not missing:
        return
    folder = folder.absolute()  # workers may stand elsewhere
    clear_errors(folder)
    do_fn = RunShards(work, str(folder), begin_attempt(folder))
    pipeline = beam.Pipeline(options=PipelineOptions(list(beam_options)))
    _ = pipeline | "Shards" >> beam.Create(missing) | "Spread" >> beam.Reshuffle() | "Run" >> beam.ParDo(do_fn)
    try:
        if is_local(beam_options):
            pipeline.run().wait_until_finish()
        else:
            check_runner(beam_options)  # it may have gone since the last try, and Beam asks it for minutes
            _run_elsewhere(pipeline, folder, patience)
    except Exception as error:
        raise noted_error(folder) or error from error


def _run_elsewhere(pipeline: beam.Pipeline, folder: Path, patience: Patience) -> None:
    """Hand a pipeline to a cluster and watch its workers. Whatever the cluster says becomes a `ClusterError`."""
    try:
        job = pipeline.run()
        with Watch(folder, job, patience) as watch:
            try:
                job.wait_until_finish()
            finally:
                watch.raise_loss()
    except ClusterError:
        raise
    except Exception as error:
        what = telling_line(error)
        raise ClusterError(f"the runner says: {what}; see its log, then run the same command again") from error


class RunShards(beam.DoFn):
    """Runs shards: all of a bundle at once on one event loop, so that the server does not idle at a shard's end."""

    def __init__(self, work: Work, folder: str, attempt: str = "") -> None:
        """`attempt`: stop when another one begins; without a name, never."""
        self._work, self._folder, self._attempt = work, Path(folder), attempt

    def setup(self) -> None:
        """Start the loop. The session opens with the first bundle, whose errors Beam reports."""
        self._loop = LoopThread()
        self._worker: _Worker | None = None

    def start_bundle(self) -> None:
        """Open the session if need be."""
        self._running: list[Future[str]] = []
        if self._worker is None:
            self._worker = self._noting(_Worker.open(self._work, self._folder, self._attempt))

    def process(self, shard: Shard) -> None:
        """Submit a shard."""
        assert self._worker is not None
        self._running.append(self._loop.submit(self._worker.run(shard)))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Wait for the bundle's shards. An error cancels the others: the ledger keeps what they paid for."""
        assert self._worker is not None
        names = self._noting(_all_or_error([asyncio.wrap_future(f, loop=self._loop.loop) for f in self._running]))
        for name in names:
            yield WindowedValue(name, MIN_TIMESTAMP, (GlobalWindow(),))

    def teardown(self) -> None:
        """Close the session and stop the loop."""
        if self._worker is not None:
            self._loop.call(self._worker.close())
        self._loop.stop()

    def _noting(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run on the loop; a typed error is noted in the run's folder, since runners pass on its text at best."""
        try:
            return self._loop.call(coroutine)
        except TrailforgeError as error:
            note_error(self._folder, error)
            raise


class _Worker:
    """An open session with its limits and its progress file."""

    def __init__(self, work: Work, folder: Path, attempt: str, session: Session) -> None:
        self._work, self._folder, self._attempt, self._session = work, folder, attempt, session
        self._items = asyncio.Semaphore(work.items_in_flight)
        self._shards = asyncio.Semaphore(work.items_in_flight + 1)
        self._running: set[asyncio.Task[Any]] = set()
        self._is_superseded = False
        self._progress = ProgressFile(folder)
        self._reporter = asyncio.create_task(self._report())

    @classmethod
    async def open(cls, work: Work, folder: Path, attempt: str) -> _Worker:
        return cls(work, folder, attempt, await work.open())

    async def close(self) -> None:
        self._reporter.cancel()
        self._progress.close(self._session.counters())
        await self._session.close()

    async def run(self, shard: Shard) -> str:
        """Run a shard's items and write its files; its name when done. Raises `Superseded` for another attempt."""
        running = asyncio.create_task(self._run(shard))
        self._running.add(running)
        try:
            return await running
        except asyncio.CancelledError:
            if self._is_superseded:
                raise Superseded from None
            raise
        finally:
            self._running.discard(running)

    async def _run(self, shard: Shard) -> str:
        async with self._shards:
            self._check_attempt()
            items = read_parquet(self._folder / shard.input, self._work.item)
            running = [asyncio.ensure_future(self._item(item, shard.first + n)) for n, item in enumerate(items)]
            results = await _all_or_error(running)
            self._check_attempt()
            await asyncio.to_thread(write_shard, self._work, self._folder, shard, results)
        return shard.name

    def _check_attempt(self) -> None:
        self._is_superseded |= bool(self._attempt) and not is_current(self._folder, self._attempt)
        if self._is_superseded:
            raise Superseded

    async def _item(self, item: Any, position: int) -> ItemResult:
        async with self._items:
            with metering() as spent:
                try:
                    return await self._session.run(item, position)
                except ITEM_ERRORS as error:
                    return _failed(self._work, item, error, spent.usage(self._work.prices))

    async def _report(self) -> None:
        """Counters and a sign of life, as long as no other attempt begins: then nothing more is to be paid for."""
        with contextlib.suppress(Superseded):
            while True:
                self._check_attempt()
                self._progress.write(self._session.counters())
                await asyncio.sleep(_PROGRESS_EVERY_S)
        for running in self._running:
            running.cancel()
        await self._session.close()


def write_shard(work: Work, folder: Path, shard: Shard, results: Sequence[ItemResult]) -> None:
    """Write the shard's tables, then its receipt. Tables without rows are not written."""
    rows_of = {table: [row for result in results for row in result.rows.get(table, ())] for table in work.tables}
    files = [write_table(folder, table, shard.name, work.tables[table], rows) for table, rows in rows_of.items()]
    receipt = Receipt(
        shard=shard.name,
        files=tuple(entry for entry in files if entry is not None),
        stages=add_up(result.stages for result in results),
        usage=sum((result.usage for result in results), start=Usage()),
        made_of=shard.made_of,
    )
    write_receipt(folder, receipt)


def write_table(folder: Path, table: str, name: str, record: type, rows: Sequence[Any]) -> FileEntry | None:
    """Write a shard's rows of a table; without rows there is no file."""
    path = folder / table / f"{name}.parquet"
    if not rows:
        path.unlink(missing_ok=True)  # of an earlier try
        return None
    write_atomically(path, lambda temporary: write_parquet(temporary, record, rows))
    return file_entry(folder, path, len(rows))


def write_receipt(folder: Path, receipt: Receipt) -> None:
    """Say that a shard is finished."""
    write_text(folder / RECEIPTS / f"{receipt.shard}.json", json.dumps(to_dict(receipt), indent=1))


def missing_shards(folder: Path, shards: Sequence[Shard]) -> list[Shard]:
    """Those that are not finished."""
    return [shard for shard in shards if finished_receipt(folder, shard) is None]


def finished_receipt(folder: Path, shard: Shard) -> Receipt | None:
    """The receipt of a shard; None when it is not finished, or was made of other files. Raises as `load_receipt`."""
    if not receipt_path(folder, shard).exists():
        return None
    receipt = read_receipt(folder, shard)
    return receipt if receipt.made_of == shard.made_of or "" in (receipt.made_of, shard.made_of) else None


def read_receipt(folder: Path, shard: Shard) -> Receipt:
    """The receipt of a shard that was run. Raises as `load_receipt`."""
    return load_receipt(receipt_path(folder, shard))


def load_receipt(path: Path) -> Receipt:
    """A receipt. Raises `OutputError` for one that cannot be read."""
    try:
        return from_dict(Receipt, parse_json(path.read_bytes()))
    except (OSError, ValueError, TypeError, InvalidInput) as error:
        raise OutputError(f"{path} is no receipt ({error}); the same command again makes its shard again") from error


def receipt_path(folder: Path, shard: Shard) -> Path:
    """Where a shard's receipt stands once it is finished."""
    return folder / RECEIPTS / f"{shard.name}.json"


def file_entry(folder: Path, path: Path, rows: int) -> FileEntry:
    """A file's line in receipt and manifest."""
    return FileEntry(path=path.relative_to(folder).as_posix(), rows=rows, sha256=sha256_of(path))


def _failed(work: Work, item: Any, error: TrailforgeError, usage: Usage) -> ItemResult:
    row = RejectedRow(
        uid=item.id if hasattr(item, "id") else item.uid,  # rows that another stage made have a uid
        stage=work.stage,
        reason=error.reason,
        score=0.0,
        detail=str(error),
        payload=json.dumps(to_dict(item), ensure_ascii=False),
    )
    line = stage(work.stage, inputs=1, accepted=0, failed=(error.reason,))
    return ItemResult(rows={"rejected": [row]}, stages=(line,), usage=usage)


async def _all_or_error(futures: Sequence[asyncio.Future[T]]) -> list[T]:
    """All results in order; the first error cancels the rest and is raised as it is."""
    try:
        return list(await asyncio.gather(*futures))
    except BaseException:
        for future in futures:
            future.cancel()
        await asyncio.gather(*futures, return_exceptions=True)
        raise
