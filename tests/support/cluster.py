"""A cluster on loopback for tests: Beam's job service and two worker pools, in process groups of their own.

With `code`, Beam's own pools stand outside of the source tree and import what is there, nothing else of ours; without
it, workers begin with all libraries loaded, in a tenth of the time.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from tests.support.warm import Running

POOLS = 2
_READY_WITHIN_S = 300.0


class Cluster:
    """Addresses and processes."""

    def __init__(self, job_port: int, pools: list[int], folder: Path) -> None:
        """`pools`: their ports."""
        self.job_port, self._pools, self.folder = job_port, pools, folder

    @property
    def options(self) -> list[str]:
        """For the command."""
        addresses = ",".join(f"localhost:{port}" for port in self._pools)
        options = [f"job_endpoint=localhost:{self.job_port}", "environment_type=EXTERNAL"]
        options.append(f"environment_config={addresses}")
        return ["--runner", "PortableRunner", *(part for each in options for part in ("--beam-option", each))]

    def workers(self) -> list[int]:
        """Process ids of the workers that run, the youngest of each pool last: of pools without `code`."""
        started = [int(line) for path in sorted(self.folder.glob("pool-*.out")) for line in path.read_text().split()]
        return [pid for pid in started if Path(f"/proc/{pid}").exists()]

    def log(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"{path.name}:\n{path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.log")))


@contextmanager
def running(
    folder: Path, *, code: Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """A cluster whose workers import from `code`; all of it ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        pools = {_free_port(): f"pool-{number}" for number in range(POOLS)}
        for port, name in pools.items():
            stack.enter_context(_pool(port, folder, name, code, environment or {}))
        service = stack.enter_context(_warm("tests.support.job_service", [], folder, "service", {}))
        cluster = Cluster(_listening(folder / "service.out", service), list(pools), folder)
        for port in pools:
            _wait_for(port)
        stack.callback(lambda: [os.kill(pid, signal.SIGKILL) for pid in cluster.workers()])
        yield cluster


def _pool(
    port: int, folder: Path, name: str, code: Path | None, environment: Mapping[str, str]
) -> AbstractContextManager[object]:
    if code is None:
        arguments = ["serve", str(port), str(folder / "workers.log")]
        return _warm("tests.support.worker_pool", arguments, folder, name, environment)
    here = str(Path(sys.executable).parent)  # pools start whatever `python` is first on the path
    surroundings = {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(code)}
    return _cold(port, folder, name, {**os.environ, **surroundings, **environment})


@contextmanager
def _warm(
    module: str, arguments: list[str], folder: Path, name: str, environment: Mapping[str, str]
) -> Iterator[Running]:
    out, log = folder / f"{name}.out", folder / f"{name}.log"
    process = Running(arguments, {**os.environ, **environment}, out, log, module=module)
    try:
        yield process
    finally:
        process.end_group()


@contextmanager
def _cold(port: int, folder: Path, name: str, environment: Mapping[str, str]) -> Iterator[None]:
    command = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main", "--service_port", str(port)]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
        )  # fmt: skip
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def children(pid: int) -> list[int]:
    """Processes that a process has started."""
    listing = Path(f"/proc/{pid}/task")
    found = [path.read_text() for path in listing.glob("*/children")] if listing.exists() else []
    if not found and shutil.which("pgrep"):
        found = [subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout]
    return sorted({int(word) for text in found for word in text.split()})


def _listening(said: Path, process: Running) -> int:
    """The port that a process has printed."""
    deadline = time.monotonic() + _READY_WITHIN_S
    while not (text := said.read_text() if said.exists() else "").endswith("\n"):
        assert process.poll() is None and time.monotonic() < deadline, said.with_suffix(".log").read_text()
        time.sleep(0.05)
    return int(text.rpartition(":")[2])


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _READY_WITHIN_S
    while True:
        with socket.socket(socket.AF_INET) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, f"nothing listens on {port}"
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
