"""A cluster of Dask on loopback for tests: a scheduler and workers, each a process that can be killed or stopped.

They begin with all libraries loaded, and without the nannies that restart workers.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.warm import Running

_READY_WITHIN_S = 300.0


class DaskCluster:
    """A scheduler at one address, which may be killed and begun again, and workers that join it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self._environment = folder, {**os.environ, **environment}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.scheduler: Running | None = None
        self.workers: list[Running] = []

    @property
    def address(self) -> str:
        """Of the scheduler."""
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def options(self) -> list[str]:
        """For the command."""
        return ["--cluster", self.address]

    def start_scheduler(self) -> None:
        """At the same address as before; back when it listens."""
        arguments = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard", "--no-show"]
        self.scheduler = self._start("dask_scheduler", arguments, "scheduler")
        deadline = time.monotonic() + _READY_WITHIN_S
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self.scheduler.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def add_worker(self) -> Running:
        """One more."""
        number = len(self.workers)
        arguments = [self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
        arguments += ["--memory-limit", "0", "--local-directory", str(self.folder / f"worker-{number}")]
        self.workers.append(self._start("dask_worker", arguments, f"worker-{number}"))
        return self.workers[-1]

    def alive(self) -> list[Running]:
        """The workers that have not ended."""
        return [worker for worker in self.workers if worker.poll() is None]

    def retire(self, worker: Running) -> None:
        """Another one takes its place."""
        worker.end_group()
        self.add_worker()

    def renew(self) -> None:
        """A scheduler and two workers in the place of a lost one."""
        self.end()
        self.start_scheduler()
        for _ in range(2):
            self.add_worker()

    def end(self) -> None:
        """All of it."""
        for process in (*self.alive(), *([self.scheduler] if self.scheduler else [])):
            process.end_group()

    def log(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"{path.name}:\n{path.read_text()[-3000:]}" for path in sorted(self.folder.glob("*.log")))

    def _start(self, program: str, arguments: list[str], name: str) -> Running:
        log = self.folder / f"{name}.log"
        return Running(arguments, self._environment, log, log, module=f"distributed.cli.{program}")


@contextmanager
def running(folder: Path, *, workers: int = 2, environment: Mapping[str, str] | None = None) -> Iterator[DaskCluster]:
    """A cluster, which ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = DaskCluster(folder, environment or {})
    try:
        cluster.start_scheduler()
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.end()
