"""Clusters of Dask: which one a run is given, whether it may be used, and what a run asks of its scheduler.

Dask moves the work of a lost worker to others by itself. What it leaves to its users is here: a scheduler runs what it
is sent, so an open one on a network is refused; and a worker that stands still is taken from the cluster, so that its
work moves, too.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import math
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from trailforge.pipelines.engine.attempts import Patience, Superseded, watching
from trailforge.pipelines.engine.runners import DASK, check_runner, dask_address, is_dask, is_local, telling_line
from trailforge.schemas import ClusterError, InvalidInput, TrailforgeError, check_packages

T = TypeVar("T")
_LOOK_EVERY_S = 0.2
_OPEN = ("tcp", "ws")
_SEALED = ("tls", "wss")
_LOOKS_PER_SILENCE = 10
_MOST_AT_ONCE = 10_000
"""Tasks sent to the scheduler together."""
_OF_OUR_OWN = {
    "distributed.scheduler.allowed-failures": 20,  # workers may die more often than three times in a long run
    "distributed.worker.multiprocessing-method": "forkserver",  # what all import is imported once
}
"""Configuration of a scheduler that begins with the run."""
PRELOADED = ("trailforge.pipelines.engine.pipeline",)
"""What each worker of a cluster on this machine begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlace:
    """A cluster as somebody names it: just one of the fields is set."""

    address: str = ""
    """Of a scheduler that runs."""
    workers: int = 0
    """Processes on this machine, which begin and end with the run."""
    slurm: Path | None = None
    """YAML with the options of dask-jobqueue's `SLURMCluster`, and `workers`: how many jobs."""
    insecure: bool = False
    """Without TLS on a network, on purpose."""


def read_cluster(text: str, runner: Sequence[str], *, insecure: bool = False) -> ClusterPlace | None:
    """The cluster that a run is to use; None: another runner does. Raises `InvalidInput`.

    `runner`: its command line, which without `--runner` is that of this process.
    """
    if not text:
        if is_dask(runner):
            raise InvalidInput("needs --cluster: tls://HOST:PORT, local:N or a YAML file", field="--runner dask")
        return None
    if len(runner) > 1 or not (is_dask(runner) or is_local(runner)):
        raise InvalidInput("goes with --runner dask, and no --beam-option", field="--cluster")
    place = parse_cluster(text, insecure=insecure)
    check_packages(("distributed", *(("dask_jobqueue",) if place.slurm else ())), "a cluster")
    return place


def parse_cluster(text: str, *, insecure: bool = False) -> ClusterPlace:
    """`tcp://host:8786`, `local:4` or `slurm.yaml`. Raises `InvalidInput`, also for an open scheduler on a network.

    `insecure`: such a one is wanted.
    """
    kind, _, count = text.partition(":")
    if kind == "local":
        workers = int(count) if count.isdecimal() else 0
        if not workers and count:
            raise InvalidInput(f"{text!r}: expected local:N, with N workers", field="--cluster")
        return ClusterPlace(workers=workers or os.cpu_count() or 1)
    if text.endswith((".yaml", ".yml")):
        if not Path(text).is_file():
            raise InvalidInput("is not there", file=text, field="--cluster")
        return ClusterPlace(slurm=Path(text), insecure=insecure)
    return ClusterPlace(address=_checked_address(text, insecure=insecure))


def _checked_address(text: str, *, insecure: bool) -> str:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
        parts = urlsplit("")
    if parts.scheme not in (*_OPEN, *_SEALED) or not host or not port:
        raise InvalidInput(f"{text!r}: expected tls://HOST:PORT, local:N or a YAML file", field="--cluster")
    if parts.scheme in _OPEN and not insecure and not _is_loopback(host):
        raise InvalidInput(
            f"{text} is an open scheduler on a network: it and its workers run what anybody sends them. Give them TLS "
            "(docs/operator.md, On several machines), or add --insecure where nobody else reaches that network",
            field="--cluster",
        )
    return text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextlib.contextmanager
def open_cluster(place: ClusterPlace, folder: Path) -> Iterator[tuple[str, ...]]:
    """The command line of a cluster, which is begun here unless it runs. `folder`: that workers see, too."""
    from dask import config

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what is lost is told in a line of ours
    with contextlib.ExitStack() as stack:
        if place.address:
            address = place.address
        elif place.slurm is not None:
            address = stack.enter_context(_slurm(place.slurm, folder, insecure=place.insecure))
        else:
            stack.enter_context(config.set(_OF_OUR_OWN))
            address = stack.enter_context(_workers_here(place.workers))
        arguments = (f"--runner={DASK}", f"--scheduler={address}")
        check_runner(arguments)
        yield arguments


@contextlib.contextmanager
def _workers_here(count: int) -> Iterator[str]:
    from distributed import LocalCluster
    from distributed.utils import get_mp_context

    get_mp_context().set_forkserver_preload(["distributed", *PRELOADED])
    options: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": None, "memory_limit": 0}
    cluster: Any = LocalCluster(n_workers=count, threads_per_worker=1, silence_logs=logging.CRITICAL, **options)
    with cluster:
        yield cluster.scheduler_address


@contextlib.contextmanager
def _slurm(file: Path, folder: Path, *, insecure: bool) -> Iterator[str]:
    """Jobs of Slurm, which are replaced when one ends; with keys that last as long as the cluster, unless it is open
    on purpose."""
    import yaml
    from dask import config
    from dask_jobqueue.slurm import SLURMCluster

    try:
        options = yaml.safe_load(file.read_text(encoding="utf-8"))
        workers = int(options.pop("workers"))
    except (yaml.YAMLError, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"expected options of SLURMCluster, and workers: N ({error})", file=file) from None
    if not insecure:
        options = {"security": True, "shared_temp_directory": str(folder), "protocol": "tls://", **options}
    try:
        cluster = SLURMCluster(**options)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"dask-jobqueue says: {error}", file=file) from None
    keys = cluster.security.get_tls_config_for_role("client") if cluster.security else {}
    named = {"tls_ca_file": "ca-file", "tls_client_cert": "client.cert", "tls_client_key": "client.key"}
    given = {f"distributed.comm.tls.{named[name]}": value for name, value in keys.items() if name in named}
    with cluster, config.set(given):
        cluster.adapt(minimum_jobs=workers, maximum_jobs=workers)
        yield cluster.scheduler_address


def machine() -> str:
    """This machine, as long as it runs."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


def check_one_machine(of_driver: str, ledger: str) -> None:
    """Raises `InvalidInput` on another machine than the driver's, unless the ledger is one that machines share."""
    if not ledger and machine() != of_driver:
        raise InvalidInput(
            f"{platform.node()} is another machine than the command's, and SQLite's file is for one: name a ledger in "
            "PostgreSQL (docs/operator.md, The ledger)",
            field="ledger",
        )


def check_workers(arguments: Sequence[str], ledger: str, *, asks_model: bool) -> None:
    """Raises `ClusterError` when a scheduler cannot be used, and as `check_one_machine` for the workers it has."""
    if not is_dask(arguments):
        return
    with connected(arguments) as client:
        try:
            machines = set(client.run(machine).values())
            client.run_on_scheduler(machine)
        except Exception as error:
            raise ClusterError(
                f"the cluster cannot run what is ours ({telling_line(error)}): scheduler and workers need this "
                "environment, with trailforge in it"
            ) from error
    if asks_model and not ledger and machines - {machine()}:
        raise InvalidInput(
            "workers are on other machines than the command, and SQLite's file is for one: name a ledger in PostgreSQL "
            "(docs/operator.md, The ledger)",
            field="ledger",
        )


@contextlib.contextmanager
def connected(arguments: Sequence[str]) -> Iterator[Any]:
    """A client of the scheduler, for the block."""
    from distributed import Client

    address = dask_address(arguments)
    try:
        client = Client(address, set_as_default=False)
    except Exception as error:
        raise ClusterError(
            f"no scheduler of Dask at {address} ({telling_line(error)}); start it, then run the same command again"
        ) from error
    with client, client.as_current():
        yield client


def run_graph(arguments: Sequence[str], tasks: Sequence[Any]) -> None:
    """Compute some delayed values for what their functions do, and wait for all. Raises as `run_tasks`."""
    with connected(arguments) as client, _cluster_errors(), _removing_silent(client, Patience().silence_s):
        _wait_for_all(client, client.compute(list(tasks), optimize_graph=False))


def run_tasks(
    arguments: Sequence[str], folder: Path, function: Callable[[Any], object], items: Sequence[Any], patience: Patience
) -> None:
    """Call a function for each item on the workers of a cluster, again for those of a worker that is lost.

    It may have been called before for an item, by a worker that was lost only then, or still stands still somewhere.
    Workers show progress in `folder`. Raises the first error of a call, or `ClusterError` where the cluster fails.
    """
    with connected(arguments) as client, _cluster_errors():
        futures = client.map(function, list(items), pure=False, batch_size=_MOST_AT_ONCE)
        watched = watching(folder, lambda: client.cancel(futures), replace(patience, silence_s=math.inf))
        with watched, _removing_silent(client, patience.silence_s):
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
def _removing_silent(client: Any, silence_s: float) -> Iterator[None]:
    """In the block, workers that give no sign of life for so long are taken from the cluster."""
    stop, seen = threading.Event(), dict[str, tuple[float, float]]()

    def look() -> None:
        while not stop.wait(silence_s / _LOOKS_PER_SILENCE):
            with contextlib.suppress(Exception):  # of a scheduler that is lost, whoever waits for the job is told
                for address in _silent(client.scheduler_info()["workers"], seen, silence_s, time.monotonic()):
                    client.run_on_scheduler(_remove, address=address)

    watcher = threading.Thread(target=look, name="trailforge-silent", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()


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
    """The result of what runs in this process, in a task of Dask. Another task may begin while there is room for it.

    Raises `Superseded` when the worker leaves the cluster: then whatever goes wrong here is nobody's matter.
    """
    from distributed import secede

    is_alone = True
    while not wait([running], _LOOK_EVERY_S).done:
        if is_leaving():
            running.cancel()
            raise Superseded
        if is_alone and has_room():
            secede()
            is_alone = False
    return running.result()


def is_leaving() -> bool:
    """Whether the worker of Dask whose task this is leaves the cluster, as it does when the scheduler is lost."""
    from distributed import get_worker
    from distributed.core import Status

    return get_worker().status in (Status.closing, Status.closed, Status.failed)
