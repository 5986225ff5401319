"""A cluster on loopback for tests: Beam's job service and two worker pools, in process groups of their own.

The pools stand outside of the source tree and import what `code` holds, nothing else of ours.
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
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
POOLS = 2
_READY_WITHIN_S = 60.0


class Cluster:
    """Addresses and processes."""

    def __init__(
        self,
        service: subprocess.Popen[bytes],
        job_port: int,
        pools: list[tuple[subprocess.Popen[bytes], int]],
        folder: Path,
    ) -> None:
        self.service, self.job_port, self._pools, self.folder = service, job_port, pools, folder

    @property
    def options(self) -> list[str]:
        """For the command."""
        addresses = ",".join(f"localhost:{port}" for _, port in self._pools)
        options = [f"job_endpoint=localhost:{self.job_port}", "environment_type=EXTERNAL"]
        options.append(f"environment_config={addresses}")
        return ["--runner", "PortableRunner", *(part for each in options for part in ("--beam-option", each))]

    def workers(self) -> list[int]:
        """Process ids of the workers that run."""
        return [pid for pool, _ in self._pools for pid in children(pool.pid)]

    def log(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"{path.name}:\n{path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.log")))


@contextmanager
def running(folder: Path, *, code: Path = ROOT, environment: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A cluster whose workers import from `code`; all of it ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        pools = []
        for number in range(POOLS):
            port = _free_port()
            command = ["-m", "apache_beam.runners.worker.worker_pool_main", "--service_port", str(port)]
            pool = stack.enter_context(_process(command, folder, f"pool-{number}", code, environment or {}))
            pools.append((pool, port))
        service = stack.enter_context(_process(["-m", "tests.support.job_service"], folder, "service", code, {}))
        port = _listening(folder / "service.out", service)
        for pool, pool_port in pools:
            _wait_for(pool_port, pool)
        yield Cluster(service, port, pools, folder)


@contextmanager
def _process(
    command: list[str], folder: Path, name: str, code: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    here = str(Path(sys.executable).parent)  # pools start whatever `python` is first on the path
    surroundings = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(code)}
    with (folder / f"{name}.out").open("wb") as out, (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=folder, env=surroundings | dict(environment), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=out, stderr=log,
        )  # fmt: skip
    try:
        yield process
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


def _listening(said: Path, process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + _READY_WITHIN_S
    while not (text := said.read_text()).endswith("\n"):
        assert process.poll() is None and time.monotonic() < deadline, said.with_suffix(".log").read_text()
        time.sleep(0.05)
    return int(text.rpartition(":")[2])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_WITHIN_S
    while True:
        with socket.socket(socket.AF_INET) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None and time.monotonic() < deadline, f"nothing listens on {port}"
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
