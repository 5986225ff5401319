"""Clusters of Dask: which one a run is given, whether it may be used, and what a run asks of its scheduler.

Dask moves the work of a lost worker to others by itself. What it leaves to its users is here: a scheduler runs what it
is sent, so an open one on a network is refused; a worker that stands still is taken from the cluster, so that its work
moves, too; and Beam's runner computes the last collection of a pipeline alone, so that several are made one.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trailforge.pipelines.engine.attempts import Patience, watching
from trailforge.pipelines.engine.runners import DASK, check_runner, dask_address, is_dask, is_local, telling_line
from trailforge.schemas import ClusterError, InvalidInput, check_packages

_OPEN = ("tcp", "ws")
_SEALED = ("tls", "wss")
_LOOKS_PER_SILENCE = 10
_MOST_PARTITIONS = 64
"""Of the collections of a stage that asks no model."""
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
    """Beam's command line for a cluster, which is begun here unless it runs. `folder`: that workers see, too."""
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
        arguments = (f"--runner={DASK}", f"--dask_client_address={address}")
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


def check_workers(arguments: Sequence[str], ledger: str) -> None:
    """Raises `ClusterError` when a scheduler cannot be used, and as `check_one_machine` for the workers it has."""
    with connected(arguments) as client:
        try:
            machines = set(client.run(machine).values())
            client.run_on_scheduler(machine)
        except Exception as error:
            raise ClusterError(
                f"the cluster cannot run what is ours ({telling_line(error)}): scheduler and workers need this "
                "environment, with trailforge in it"
            ) from error
    if not ledger and machines - {machine()}:
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
    with client:
        yield client


def run_on_dask(pipeline: Any, folder: Path, patience: Patience, *, asks_model: bool = False) -> None:
    """Run a pipeline of Beam whose options name Dask. Whatever the cluster says becomes a `ClusterError`.

    `asks_model`: its workers show progress, and end the job where nothing moves.
    """
    join_leaves(pipeline)
    try:
        job = pipeline.run()
        with contextlib.closing(job.client), contextlib.ExitStack() as stack:
            if asks_model:
                stack.enter_context(watching(folder, job.cancel, replace(patience, silence_s=math.inf)))
            stack.enter_context(_removing_silent(job.client, patience.silence_s))
            job.wait_until_finish()
    except ClusterError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise ClusterError(f"the cluster says: {telling_line(error)}; run the same command again") from error


def join_leaves(pipeline: Any) -> None:
    """Make one collection of all that nothing is made of: Beam's runner for Dask computes the last one alone."""
    from apache_beam import Flatten
    from apache_beam.pipeline import PipelineVisitor

    class Leaves(PipelineVisitor):
        def __init__(self) -> None:
            self.made: dict[Any, None] = {}
            self.used: set[Any] = set()

        def visit_transform(self, transform_node: Any) -> None:
            self.made.update(dict.fromkeys(transform_node.outputs.values()))
            self.used.update(transform_node.inputs, (side.pvalue for side in transform_node.side_inputs))

    leaves = Leaves()
    pipeline.visit(leaves)
    ends = [each for each in leaves.made if each not in leaves.used]
    if len(ends) > 1:
        _ = tuple(ends) | "All that is made" >> Flatten()


def partitions(count: int | None = None) -> str:
    """Beam's option for so many tasks; None: for a stage that asks no model."""
    return f"--dask_npartitions={max(1, _MOST_PARTITIONS if count is None else count)}"


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


def make_room(has_room: Callable[[], bool]) -> bool:
    """Let this worker of Dask begin another task beside this one, if that says so. Whether it did, or is none."""
    from distributed import get_worker, secede

    try:
        get_worker()
    except ValueError:
        return True
    if not has_room():
        return False
    secede()
    return True
