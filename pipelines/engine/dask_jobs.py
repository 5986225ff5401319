"""Run tasks on a Dask cluster until all are done, even when workers are lost, under limits that all workers share.

The limits are a `Center` in the scheduler, whom all workers talk to anyway, and end with the job.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from trailforge.inference import Usage
from trailforge.inference.shared_limits import Center, Limits, LimitsLink, Message
from trailforge.pipelines.engine.attempts import Patience, Superseded, watching
from trailforge.pipelines.engine.cluster import connected
from trailforge.pipelines.engine.runners import telling_line
from trailforge.schemas import ClusterError, TrailforgeError

T = TypeVar("T")
_LOOK_EVERY_S = 0.2
_LOOKS_PER_SILENCE = 10
_MOST_AT_ONCE = 10_000
"""Tasks sent to the scheduler together."""
_SETTLE_EVERY_S = 2.0
_STREAM = "trailforge-limits"
"""What messages of limits are called among Dask's own."""


def run_graph(arguments: Sequence[str], tasks: Sequence[Any], patience: Patience) -> None:
    """Compute delayed values for the side effects of their functions, and wait for all of them. Raises what `run_tasks`
    raises.
    """
    with connected(arguments) as client, _cluster_errors():
        futures = client.compute(list(tasks), optimize_graph=False)
        with _watching_workers(client, futures, patience):
            _wait_for_all(client, futures)


def run_tasks(
    arguments: Sequence[str], folder: Path, function: Callable[[Any], object], items: Sequence[Any], patience: Patience
) -> None:
    """Call a function for each item on the workers of a cluster, and again for the items of a worker that is lost.

    So it may be called twice for an item, by a worker that was lost late or still hangs somewhere. Workers show
    progress in `folder`. Raises the first error of a call, or `ClusterError` where the cluster fails.
    """
    with connected(arguments) as client, _cluster_errors():
        futures = client.map(function, list(items), pure=False, batch_size=_MOST_AT_ONCE)
        watched = watching(folder, lambda: client.cancel(futures), replace(patience, silence_s=math.inf))
        with watched, _watching_workers(client, futures, patience):
            _wait_for_all(client, futures)


def _wait_for_all(client: Any, futures: Sequence[Any]) -> None:
    """The first error is raised, and nothing more is begun."""
    from distributed import as_completed

    try:
        for future in as_completed(futures):
            future.result()
    except BaseException:
        with contextlib.suppress(Exception):
            client.cancel(list(futures), force=True)
        raise


@contextlib.contextmanager
def _cluster_errors() -> Iterator[None]:
    """What Dask says of itself becomes a `ClusterError`."""
    try:
        yield
    except TrailforgeError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
            raise
        raise ClusterError(f"the cluster says: {telling_line(error)}; run the same command again") from error


@contextlib.contextmanager
def _watching_workers(client: Any, futures: Sequence[Any], patience: Patience) -> Iterator[None]:
    """In the block, workers that give no sign of life for too long are taken from the cluster; when it has had none for
    too long, the futures are cancelled. Raises `ClusterError` at the end that says so, whatever the block raised."""
    stop, has_none, seen = threading.Event(), threading.Event(), dict[str, tuple[float, float]]()

    def look() -> None:
        had_at, every_s = time.monotonic(), min(patience.start_s, patience.silence_s) / _LOOKS_PER_SILENCE
        while not (has_none.is_set() or stop.wait(every_s)):
            with contextlib.suppress(Exception):  # of a scheduler that is lost, whoever waits for the job is told
                workers, now = client.scheduler_info()["workers"], time.monotonic()
                had_at = now if workers else had_at
                for address in _silent(workers, seen, patience.silence_s, now):
                    client.run_on_scheduler(_remove, address=address)
                if now - had_at > patience.start_s:
                    has_none.set()
                    client.cancel(list(futures), force=True)

    watcher = threading.Thread(target=look, name="trailforge-silent", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        if has_none.is_set():
            lacking = f"the cluster has had no worker for {patience.start_s:g} s"
            raise ClusterError(f"{lacking}; start some, then run the same command again")


def _silent(workers: Any, seen: dict[str, tuple[float, float]], silence_s: float, now: float) -> list[str]:
    """Addresses of workers last heard of so long ago. `seen`: by address, when that was by the scheduler's clock, and
    when it was learned."""
    for address, info in workers.items():
        if seen.get(address, (None,))[0] != info["last_seen"]:
            seen[address] = (info["last_seen"], now)
    return [address for address in workers if now - seen[address][1] > silence_s]


async def _remove(address: str, dask_scheduler: Any) -> None:
    await dask_scheduler.remove_worker(address, stimulus_id=f"trailforge-silent-{time.time()}", close=True)


def wait_here(running: Future[T], has_room: Callable[[], bool]) -> T:
    """Wait, within a Dask task, for the result of work in this process; another task may begin while there is room for
    it. Raises `Superseded` when the worker leaves the cluster, or the result is no longer wanted: errors of the work
    are then dropped.
    """
    from distributed import secede

    is_alone = True
    while not wait([running], _LOOK_EVERY_S).done:
        if is_leaving() or _is_unwanted():
            running.cancel()
            raise Superseded
        if is_alone and has_room():
            secede()
            is_alone = False
    return running.result()


def is_leaving() -> bool:
    """Tell whether the Dask worker that runs this task is leaving the cluster, as it does when the scheduler is
    lost.
    """
    from distributed import get_worker
    from distributed.core import Status

    return get_worker().status in (Status.closing, Status.closed, Status.failed)


def _is_unwanted() -> bool:
    """Whether the scheduler has taken this task back: the command was killed, or has failed."""
    from dask.context import thread_state
    from distributed import get_worker

    worker: Any = get_worker()
    task = worker.state.tasks.get(thread_state.key)
    return task is None or task.state == "cancelled"


@contextlib.contextmanager
def holding_limits(
    arguments: Sequence[str], run: str, limits: Limits, look_up: Callable[[Sequence[str]], Mapping[str, Usage | None]]
) -> Iterator[None]:
    """Let the scheduler hold these limits for all workers of a run during a `with` block. `run` is the name of the
    attempt, under which workers find them (`open_link`). `look_up` returns, for keys of calls, the usage of each that
    is in the ledger, and None for the others.
    """
    stop = threading.Event()

    def settle_lost() -> None:
        while not stop.wait(_SETTLE_EVERY_S):
            with contextlib.suppress(Exception):  # of a scheduler that is lost, whoever waits for the job is told
                if keys := client.run_on_scheduler(_find_orphans, run=run):
                    client.run_on_scheduler(_resolve_orphans, run=run, kept=dict(look_up(keys)))

    with connected(arguments) as client:
        client.run_on_scheduler(_begin_center, run=run, limits=limits, client=client.id)
        settling = threading.Thread(target=settle_lost, name="trailforge-orphans", daemon=True)
        if limits.caps:
            settling.start()
        try:
            yield
        finally:
            stop.set()
            with contextlib.suppress(Exception):
                client.run_on_scheduler(_end_center, run=run)


class _Centers:
    """The centers in a scheduler, by the runs whose limits they hold."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self.by_run: dict[str, Center] = {}
        self._clients: dict[str, str] = {}

    def add(self, run: str, limits: Limits, client: str) -> None:
        """A client of the scheduler begins a run."""

        def send(worker: str, messages: list[Message]) -> None:
            if worker in self._scheduler.stream_comms:
                self._scheduler.worker_send(worker, {"op": _STREAM, "run": run, "messages": messages})

        self.by_run[run], self._clients[run] = Center(limits, send), client

    def end(self, run: str) -> None:
        """A run has ended."""
        if (center := self.by_run.pop(run, None)) is not None:
            center.close()
        self._clients.pop(run, None)

    def handle(self, worker: str, run: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """A worker says something; of no interest when its run has ended."""
        if (center := self.by_run.get(run)) is not None:
            center.handle(worker, messages)

    def lose(self, worker: str) -> None:
        """A worker has gone."""
        for center in self.by_run.values():
            center.lose(worker)

    def lose_client(self, client: str) -> None:
        """A client has gone, and with it the runs that it began."""
        for run in [run for run, by in self._clients.items() if by == client]:
            self.end(run)


def _centers(scheduler: Any) -> _Centers:
    """Those of this scheduler, which tells them who is lost and passes on what workers say."""
    from distributed.diagnostics.plugin import SchedulerPlugin

    class Plugin(SchedulerPlugin):
        name = _STREAM

        def __init__(self) -> None:
            self.centers = _Centers(scheduler)

        def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
            self.centers.lose(worker)

        def remove_client(self, scheduler: Any, client: str) -> None:
            self.centers.lose_client(client)

    if _STREAM not in scheduler.plugins:
        plugin = Plugin()
        scheduler.add_plugin(plugin)
        scheduler.stream_handlers[_STREAM] = plugin.centers.handle
    return scheduler.plugins[_STREAM].centers


def _begin_center(run: str, limits: Limits, client: str, dask_scheduler: Any) -> None:
    _centers(dask_scheduler).add(run, limits, client)


def _end_center(run: str, dask_scheduler: Any) -> None:
    _centers(dask_scheduler).end(run)


def _find_orphans(run: str, dask_scheduler: Any) -> list[str]:
    return _centers(dask_scheduler).by_run[run].orphans()


def _resolve_orphans(run: str, kept: Mapping[str, Usage | None], dask_scheduler: Any) -> None:
    _centers(dask_scheduler).by_run[run].resolve(kept)


_links: dict[str, tuple[LimitsLink, asyncio.AbstractEventLoop]] = {}
"""Of this worker, by run."""


def open_link(run: str, limits: Limits, loop: asyncio.AbstractEventLoop) -> LimitsLink:
    """Open a worker's link to the limits that `holding_limits` holds under the name `run`, for a client on that event
    loop. Call it in a Dask task.
    """
    from distributed import get_worker

    worker: Any = get_worker()

    def send_now(messages: list[Message]) -> None:
        with contextlib.suppress(Exception):  # of a scheduler that is lost, so that this worker leaves, too
            worker.batched_stream.send({"op": _STREAM, "run": run, "messages": messages})

    link = LimitsLink(limits, lambda messages: worker.loop.add_callback(send_now, messages))
    _links[run] = (link, loop)
    worker.stream_handlers[_STREAM] = _receive
    return link


def close_link(run: str) -> None:
    """Close a worker's link to a run's limits."""
    _links.pop(run, None)


def _receive(run: str, messages: Sequence[Mapping[str, Any]]) -> None:
    if run in _links:
        link, loop = _links[run]
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(link.receive, messages)
