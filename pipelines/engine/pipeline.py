"""Run the items of shards, each shard exactly once, on any worker, however often one is killed.

A worker runs the items of all its shards on one event loop and writes each shard when its last item is done. The
DoFn of every pipeline is in this module, which alone turns an error into a `failed` row.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from trailforge.inference import ClientConfig, LoopThread, ModelClient, Usage, all_or_error, metering, usage_of
from trailforge.inference.shared_limits import LimitsLink
from trailforge.pipelines.curated import uid_of
from trailforge.pipelines.engine.attempts import (
    Patience,
    Superseded,
    begin_attempt,
    claim_shard,
    drop_claim,
    end_attempt,
    holds_claim,
    is_current,
    watching,
)
from trailforge.pipelines.engine.beam_work import spread_elements
from trailforge.pipelines.engine.cluster import check_one_machine, machine
from trailforge.pipelines.engine.dask_jobs import (
    close_link,
    holding_limits,
    is_leaving,
    open_link,
    run_tasks,
    wait_here,
)
from trailforge.pipelines.engine.files import writing_by_leave
from trailforge.pipelines.engine.model_stage import ModelWork, failed_row
from trailforge.pipelines.engine.progress import SUPPORT_FOUND, SUPPORT_SOUGHT, ProgressFile
from trailforge.pipelines.engine.runners import check_runner, has_one_worker, is_dask, is_local, telling_line
from trailforge.pipelines.engine.shards import (
    ItemResult,
    Shard,
    SupportCount,
    finish_shard,
    finished_receipt,
    missing_shards,
)
from trailforge.pipelines.engine.worker_errors import clear_errors, note_error, noted_error
from trailforge.pipelines.runs.accounting import add_up, stage
from trailforge.schemas import ITEM_ERRORS, ClusterError, PromptRefused, TrailforgeError, read_parquet, to_dict

_PROGRESS_EVERY_S = 0.5
_DEFAULT_PATIENCE = Patience()
T = TypeVar("T")


def run_pipeline(
    work: ModelWork,
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
    attempt = begin_attempt(folder)
    try:
        if is_dask(beam_options):
            _run_on_dask(work, folder, attempt, missing, beam_options, patience)
        else:
            pipeline = beam.Pipeline(options=PipelineOptions(list(beam_options)))
            spread = spread_elements(pipeline, "Shards", missing, "Spread", is_alone=has_one_worker(beam_options))
            _ = spread | "Run" >> beam.ParDo(RunShards(work, str(folder), attempt))
            if is_local(beam_options):
                pipeline.run().wait_until_finish()
            else:
                check_runner(beam_options)  # it may have gone since the last try, and Beam asks it for minutes
                _run_elsewhere(pipeline, folder, patience)
        _check_finished(folder, shards)
    except Exception as error:
        raise noted_error(folder) or error from error
    finally:
        if not is_local(beam_options):
            end_attempt(folder)


def _run_on_dask(
    work: ModelWork, folder: Path, attempt: str, shards: Sequence[Shard], arguments: Sequence[str], patience: Patience
) -> None:
    """A task for each shard. Limits on calls hold over all workers."""
    config: ClientConfig = work.config.client
    limits = config.limits(asyncio.run(_read_spent(work)) if config.caps else Usage())
    with holding_limits(arguments, attempt, limits, lambda keys: asyncio.run(_look_up(work, keys))):
        run = partial(run_shard_here, work, folder, attempt, machine())
        run_tasks(arguments, folder, run, shards, patience)


async def _read_spent(work: ModelWork) -> Usage:
    async with aclosing(work.ledger()) as ledger:
        return await ledger.spent()


async def _look_up(work: ModelWork, keys: Sequence[str]) -> dict[str, Usage | None]:
    """What calls have used, of those that are in the ledger."""
    async with aclosing(work.ledger()) as ledger:
        found = {key: await ledger.find(key) for key in keys}
    return {key: reply and usage_of(reply) for key, reply in found.items()}


def _run_elsewhere(pipeline: beam.Pipeline, folder: Path, patience: Patience) -> None:
    """Hand a pipeline to a cluster and watch its workers. Whatever the cluster says becomes a `ClusterError`."""
    try:
        job = pipeline.run()
        with watching(folder, job.cancel, patience):
            job.wait_until_finish()
    except ClusterError:
        raise
    except Exception as error:
        what = telling_line(error)
        raise ClusterError(f"the runner says: {what}; see its log, then run the same command again") from error


def _check_finished(folder: Path, shards: Sequence[Shard]) -> None:
    """A runner that says it is done has to have done all."""
    if missing := missing_shards(folder, shards):
        raise ClusterError(
            f"the runner reports success, but {len(missing)} of {len(shards)} shards have no receipt (the first: "
            f"{missing[0].name}); run the same command again, and report it if it comes again"
        )


class RunShards(beam.DoFn):
    """Runs shards: all those of a Beam bundle at once on one event loop, so that the server is not idle at a shard's
    end.
    """

    def __init__(self, work: ModelWork, folder: str, attempt: str = "") -> None:
        """`attempt`: stop when another one begins; without a name, never."""
        self._work, self._folder, self._attempt = work, Path(folder), attempt

    def setup(self) -> None:
        """Start the event loop. The client opens with the first bundle, whose errors Beam reports."""
        self._loop = LoopThread("loop")
        self._worker: _Worker | None = None

    def start_bundle(self) -> None:
        """Open the client, unless it is open."""
        self._running: list[Future[str]] = []
        if self._worker is None:
            self._worker = self._noting(_Worker.open(self._work, self._folder, self._attempt))

    def process(self, shard: Shard) -> None:
        """Start the items of a shard on the event loop."""
        assert self._worker is not None
        self._running.append(asyncio.run_coroutine_threadsafe(self._worker.run_shard(shard), self._loop.loop))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Wait for the bundle's shards. An error cancels the others: the ledger keeps what they paid for."""
        assert self._worker is not None
        names = self._noting(all_or_error([asyncio.wrap_future(f, loop=self._loop.loop) for f in self._running]))
        for name in names:
            yield WindowedValue(name, MIN_TIMESTAMP, (GlobalWindow(),))

    def teardown(self) -> None:
        """Close the client and stop the event loop."""
        if self._worker is not None:
            self._loop.call(self._worker.close())
        self._loop.end()

    def _noting(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run on the loop; a typed error is noted in the run's folder, since runners pass on its text at best."""
        try:
            return self._loop.call(coroutine)
        except TrailforgeError as error:
            note_error(self._folder, error)
            raise


@dataclass(frozen=True, slots=True)
class _Shared:
    """What the tasks of one attempt share in a worker process of Dask, until the attempt ends."""

    loop: LoopThread
    worker: _Worker


_shared: dict[tuple[Path, str], _Shared] = {}
"""By folder and attempt."""
_opening = threading.Lock()


def run_shard_here(work: ModelWork, folder: Path, attempt: str, of_driver: str, shard: Shard) -> str:
    """Run a shard in a Dask task, as `RunShards` does, and return its name. `attempt` is the attempt that the worker
    belongs to (`begin_attempt`); `of_driver` is the machine of the run's command (`machine`).
    """
    try:
        check_one_machine(of_driver, work.config.ledger)
        here = _share(work, folder, attempt)
        return wait_here(here.loop.soon(here.worker.run_shard(shard)), here.worker.has_room)
    except TrailforgeError as error:
        if is_leaving():
            raise Superseded from error
        note_error(folder, error)
        raise


def _share(work: ModelWork, folder: Path, attempt: str) -> _Shared:
    """What is shared here; whoever comes first opens it."""
    with _opening:
        here = _shared.get((folder, attempt))
        if here is None:
            for key in [key for key, each in _shared.items() if each.worker.has_ended]:
                close_link(key[1])
                _shared.pop(key).loop.end()
            loop = LoopThread("loop")
            link = open_link(attempt, work.config.client.limits(Usage()), loop.loop)
            try:
                here = _shared[folder, attempt] = _Shared(loop, loop.call(_Worker.open(work, folder, attempt, link)))
            except BaseException:
                loop.end()
                raise
        return here


class _Worker:
    """A client and what all items share, with limits and a progress file. Lives on the worker's event loop."""

    has_ended = False
    """It has seen that its attempt is over."""

    def __init__(self, work: ModelWork, folder: Path, attempt: str, client: ModelClient, context: object) -> None:
        self._work, self._folder, self._attempt = work, folder, attempt
        self._client, self._context = client, context
        in_flight = work.config.schedule.questions_in_flight
        self._items, self._shards = asyncio.Semaphore(in_flight), asyncio.Semaphore(in_flight + 1)
        self._running: dict[asyncio.Task[Any], tuple[str, str]] = {}
        """What runs a shard; its name, and our claim on it once there is one."""
        self._done: Counter[str] = Counter()
        self._is_superseded = False
        self._progress = ProgressFile(folder)
        self._reporter = asyncio.create_task(self._report())

    @classmethod
    async def open(cls, work: ModelWork, folder: Path, attempt: str, link: LimitsLink | None = None) -> _Worker:
        """Fails at once when ledger, model, or what items need besides is not there. `link`: see `ModelWork.client`."""
        client = await (work.client() if link is None else work.client(link))
        try:
            context = work.stage.open_context(work, client)
        except BaseException:
            await client.aclose()
            raise
        return cls(work, folder, attempt, client, context)

    async def close(self) -> None:
        self._reporter.cancel()
        await self._client.aclose()
        self._progress.close(self._counters())

    def has_room(self) -> bool:
        """Whether items of another shard would not have to wait for their turn. For any thread."""
        return not self._items.locked()

    async def run_shard(self, shard: Shard) -> str:
        """Run a shard's items and write its files; its name when done. Raises `Superseded` for another attempt."""
        this = asyncio.current_task()
        assert this is not None
        self._running[this] = (shard.name, "")
        try:
            async with self._shards:
                self._check_attempt()
                if finished_receipt(self._folder, shard) is not None:
                    return shard.name  # of a worker that was lost after it had finished
                claim = claim_shard(self._folder, shard.name)
                self._running[this] = (shard.name, claim)
                items = read_parquet(self._folder / shard.input, self._work.stage.item)
                results = await all_or_error([asyncio.ensure_future(self._run_item(item)) for item in items])
                # A prompt may have been refused for a time only: its item is run once more, after all others.
                for number in [n for n, result in enumerate(results) if has_refused_prompt(result)]:
                    results[number] = await asyncio.ensure_future(self._run_item(items[number]))
                    if has_refused_prompt(results[number]):
                        self._count(results[number])
                self._client.check_replies()
                self._check_attempt()
                with writing_by_leave(partial(self._check_claim, shard.name, claim)):
                    await asyncio.to_thread(write_shard, self._work, self._folder, shard, results)
                self._running[this] = (shard.name, "")
                drop_claim(self._folder, shard.name)
                self._progress.write(self._counters(), self._client.trouble)
            return shard.name
        except asyncio.CancelledError:
            if self._is_superseded or self._has_lost(*self._running[this]):
                raise Superseded from None
            raise
        finally:
            self._running.pop(this, None)

    async def _run_item(self, item: Any) -> ItemResult:
        work = self._work
        async with self._items:
            with metering() as spent:
                try:
                    result = await work.stage.run_item(item, self._context, work.config)
                    if work.stage.settle is not None:
                        result = await work.stage.settle(item, result, self._context, work.config)
                except ITEM_ERRORS as error:
                    result = _failed_result(work, item, error, spent.usage(work.config.model.prices))
        if not has_refused_prompt(result):
            self._count(result)
        return result

    def _count(self, result: ItemResult) -> None:
        self._done["items"] += 1
        self._done["prompt_tokens"] += result.usage.prompt_tokens
        self._done["completion_tokens"] += result.usage.completion_tokens
        self._done[SUPPORT_SOUGHT] += result.support.questions
        self._done[SUPPORT_FOUND] += result.support.found
        self._done.update(self._work.stage.kinds(result))

    def _counters(self) -> dict[str, int]:
        return dict(self._done) | self._client.figures

    def _check_attempt(self) -> None:
        self._is_superseded |= bool(self._attempt) and not is_current(self._folder, self._attempt)
        if self._is_superseded:
            raise Superseded

    def _check_claim(self, shard: str, claim: str) -> None:
        """Raises `Superseded` when another worker has begun the shard: ours stood still, and was given up."""
        if self._has_lost(shard, claim):
            raise Superseded

    def _has_lost(self, shard: str, claim: str) -> bool:
        return bool(claim) and not holds_claim(self._folder, shard, claim)

    async def _report(self) -> None:
        """Counters and a sign of life, as long as no other attempt begins: then nothing more is to be paid for. Nor is
        it for a shard that another worker has begun."""
        with contextlib.suppress(Superseded):
            while True:
                self._check_attempt()
                for running, (shard, claim) in list(self._running.items()):
                    if self._has_lost(shard, claim):
                        running.cancel()
                self._progress.write(self._counters(), self._client.trouble)
                await asyncio.sleep(_PROGRESS_EVERY_S)
        self.has_ended = True
        for running in self._running:
            running.cancel()
        await self._client.aclose()
        self._progress.close()


def write_shard(work: ModelWork, folder: Path, shard: Shard, results: Sequence[ItemResult]) -> None:
    """Write the shard's tables, then its receipt. Tables without rows are not written."""
    rows = {table: [row for result in results for row in result.rows.get(table, ())] for table in work.stage.tables}
    stages = add_up(result.stages for result in results)
    usage = sum((result.usage for result in results), start=Usage())
    support = sum((result.support for result in results), start=SupportCount())
    finish_shard(folder, shard, rows, stages, usage=usage, support=support)


def has_refused_prompt(result: ItemResult) -> bool:
    """Tell whether a server refused a prompt of the item, so that something of it was not made."""
    return any(row.reason == PromptRefused.reason for row in result.rows.get("rejected", ()))


def _failed_result(work: ModelWork, item: Any, error: TrailforgeError, usage: Usage) -> ItemResult:
    name = work.stage.name
    row = failed_row(name, uid_of(item), error, to_dict(item))
    line = stage(name, inputs=1, accepted=0, failed=(error.reason,))
    return ItemResult(rows={"rejected": [row]}, stages=(line,), usage=usage)
