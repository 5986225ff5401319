"""Open Dask clusters: which one a run uses, whether it may be used, and what a run asks of its scheduler.

Dask moves the work of a lost worker to others by itself. This module does what Dask leaves to its users: a scheduler
runs what it is sent, so an open one on a network is refused; and a worker that stands still is taken from the
cluster, so that its work moves, too.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import platform
import shutil
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trailforge.pipelines.engine.files import output_errors
from trailforge.pipelines.engine.runners import DASK, check_runner, dask_address, is_dask, is_local, telling_line
from trailforge.schemas import ClusterError, InvalidInput, check_packages

_OPEN = ("tcp", "ws")
_SEALED = ("tls", "wss")
_OF_OUR_OWN = {
    "distributed.scheduler.allowed-failures": 20,  # workers may die more often than three times in a long run
    "distributed.worker.multiprocessing-method": "forkserver",  # what all import is imported once
}
"""Configuration of a scheduler that begins with the run."""
KEYS = "cluster-keys"
"""Name of the folder in a run's folder with the keys by which the jobs of its cluster know each other."""
_keys: set[Path] = set()
"""The folders of keys that this process has made."""
PRELOADED = ("trailforge.pipelines.engine.pipeline",)
"""What each worker of a cluster on this machine loads first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlace:
    """A cluster as the user names it: exactly one of `address`, `workers` and `slurm` is set."""

    address: str = ""
    """Address of a scheduler that runs."""
    workers: int = 0
    """Number of processes on this machine, which begin and end with the run."""
    slurm: Path | None = None
    """YAML file with the options of dask-jobqueue's `SLURMCluster`, and with `workers`, the number of jobs."""
    insecure: bool = False
    """Whether a scheduler without TLS on a network is allowed on purpose."""


def read_cluster(text: str, runner: Sequence[str], *, insecure: bool = False) -> ClusterPlace | None:
    """Return the cluster that a run is to use; None when another runner does. `text` is the user's `--cluster` as
    `parse_cluster` reads it, empty where none was given; `runner` is Beam's command line, which without `--runner` is
    that of this process. Raises `InvalidInput`.
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
    """Read `tcp://host:8786`, `local:4` or `slurm.yaml`. Raises `InvalidInput`, also for a scheduler on a network
    without encryption unless `insecure`.
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
    """Give the command line of a cluster, which is started for the `with` block unless it runs already. Workers must
    see `folder`, too.
    """
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its page is at another port, which nobody looks at
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
        workers = options.pop("workers")
        if type(workers) is not int or workers < 1:
            raise ValueError(f"{workers!r} is no number of jobs")
    except (yaml.YAMLError, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"expected options of SLURMCluster, and workers: N ({error})", file=file) from None
    options = {"scheduler_options": {"dashboard_address": "127.0.0.1:8787"}, **options}
    with contextlib.ExitStack() as stack:
        if not insecure:
            security = stack.enter_context(_keys_in(folder / KEYS))
            options = {"security": security, "protocol": "tls://", **options}
        try:
            cluster: Any = stack.enter_context(SLURMCluster(**options))
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"dask-jobqueue says: {error}", file=file) from None
        stack.enter_context(config.set(client_keys(cluster.security) if cluster.security else {}))
        cluster.adapt(minimum_jobs=workers, maximum_jobs=workers)
        yield cluster.scheduler_address


@contextlib.contextmanager
def _keys_in(folder: Path) -> Iterator[Any]:
    """New keys of a cluster in files that last as long as the block, and that nobody else reads. Those of an earlier
    cluster that was killed go."""
    from distributed.security import Security

    made = Security.temporary()
    with output_errors(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        _keys.add(folder)
        files = {"cert.pem": made.tls_ca_file, "key.pem": made.tls_worker_key}
        for name, text in files.items():
            (folder / name).touch(mode=0o600)
            (folder / name).write_text(text, encoding="ascii")
    certificate, key = (str(folder / name) for name in files)
    roles = ("scheduler", "worker", "client")
    places = {f"tls_{role}_{what}": path for role in roles for what, path in (("cert", certificate), ("key", key))}
    try:
        yield Security(require_encryption=True, tls_ca_file=certificate, **places)
    finally:
        remove_keys()


def remove_keys() -> None:
    """Remove the key files of this process's clusters, which end with it."""
    while _keys:
        shutil.rmtree(_keys.pop(), ignore_errors=True)


def client_keys(security: Any) -> dict[str, str]:
    """Return the Dask configuration with which clients of this process talk to a cluster with that `Security`."""
    places = {"ca-file": "tls_ca_file", "client.cert": "tls_client_cert", "client.key": "tls_client_key"}
    keys = {name: getattr(security, attribute) for name, attribute in places.items()}
    return {f"distributed.comm.tls.{name}": value for name, value in keys.items() if value}


def machine() -> str:
    """Return a name of this machine that stays the same until it restarts."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


def check_one_machine(of_driver: str, ledger: str) -> None:
    """Raise `InvalidInput` when the worker that calls this is on another machine than the driver and the ledger is not
    shared. `of_driver` is what `machine` returned in the driver; `ledger` is the URL of a shared ledger, empty for a
    file in the run's folder.
    """
    if not ledger and machine() != of_driver:
        raise InvalidInput(
            f"{platform.node()} is another machine than the command's, and SQLite's file is for one: name a ledger in "
            "PostgreSQL (docs/operator.md, The ledger)",
            field="ledger",
        )


def check_workers(arguments: Sequence[str], ledger: str, *, asks_model: bool) -> None:
    """Check that Dask's scheduler answers and, where `asks_model`, that its workers can use the ledger. `arguments` are
    Beam's command line, and without a Dask runner nothing is checked; `ledger` is the URL of a shared ledger, empty for
    a file in the run's folder. Raises `ClusterError`, and `InvalidInput` where workers are on several machines and the
    ledger is not shared.
    """
    if not is_dask(arguments):
        return
    with connected(arguments) as client:
        try:
            machines = set(client.run(machine).values())
            client.run_on_scheduler(machine)
        except Exception as error:
            raise ClusterError(
                f"the cluster cannot run the code of trailforge ({telling_line(error)}): its scheduler and workers "
                "need this environment, with trailforge in it"
            ) from error
    if asks_model and not ledger and machines - {machine()}:
        raise InvalidInput(
            "workers are on other machines than the command, and SQLite's file is for one: name a ledger in PostgreSQL "
            "(docs/operator.md, The ledger)",
            field="ledger",
        )


@contextlib.contextmanager
def connected(arguments: Sequence[str]) -> Iterator[Any]:
    """Open a client of the scheduler for a `with` block."""
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
