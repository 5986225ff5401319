"""Beam's pool of workers, which begin with the libraries loaded (`tests.support.warm`), in a tenth of the time.

    python -m tests.support.worker_pool serve PORT LOG

prints the process id of each worker that it starts.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.sdk_worker import SdkHarness
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer

from tests.support.warm import Running


class Worker(Running):
    """With what Beam's pool does to its processes."""

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """`kill -9`."""
        self.send_signal(signal.SIGKILL)


class Pool(BeamFnExternalWorkerPoolServicer):
    """Beam's, but for how a worker is started."""

    log: Path
    """What workers say is appended to it."""

    def StartWorker(self, start_worker_request: Any, unused_context: object) -> Any:
        """By its name, for the one at an address."""
        address, name = start_worker_request.control_endpoint.url, start_worker_request.worker_id
        worker = Worker(["work", address, name], os.environ, self.log, self.log, module="tests.support.worker_pool")
        self._worker_processes[name] = worker  # pyright: ignore[reportArgumentType] of which it asks no more
        print(worker.pid, flush=True)
        return beam_fn_api_pb2.StartWorkerResponse()


if __name__ == "__main__":
    role, where, what = sys.argv[1:]
    if role == "work":
        os.chdir("/")  # a worker elsewhere knows nothing of where the command stands
        SdkHarness(where, worker_id=what).run()
    else:
        Pool.log = Path(what)
        _, server = Pool.start(use_process=True, port=int(where))
        server.wait_for_termination()
