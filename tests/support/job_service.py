"""A small cluster without a cluster manager: Beam's local job service, with a worker at each of several addresses.

    python -m apache_beam.runners.worker.worker_pool_main --service_port 50000     # on each machine
    python -m tests.support.job_service --port 8099                                    # where the command runs

then `--runner PortableRunner --beam-option job_endpoint=localhost:8099 --beam-option environment_type=EXTERNAL
--beam-option environment_config=one:50000,two:50000`. Beam's own service starts one worker, and never ends a job that
waits for one that died; this one starts a worker per address, and a job that is cancelled ends.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_job_api_pb2, beam_runner_api_pb2
from apache_beam.runners.portability import local_job_service
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers

_EXTERNAL = common_urns.environments.EXTERNAL.urn


class Cancelled(Exception):
    """The job was cancelled."""


class SpreadWorker(worker_handlers.ExternalWorkerHandler):  # type: ignore[misc]
    """A worker at the next of the comma-separated addresses of its environment."""

    started: dict[str, list[SpreadWorker]] = {}  # noqa: RUF012
    """By job name."""

    def __init__(self, payload: Any, state: Any, provision_info: Any, grpc_server: Any) -> None:
        workers = self.started.setdefault(provision_info.job_name, [])
        addresses = payload.endpoint.url.split(",")
        own = beam_runner_api_pb2.ExternalPayload()
        own.CopyFrom(payload)
        own.endpoint.url = addresses[len(workers) % len(addresses)].strip()
        super().__init__(own, state, provision_info, grpc_server)
        workers.append(self)

    def abort(self) -> None:
        """Make who waits for this worker wait no longer."""
        self.control_conn.abort(Cancelled())


worker_handlers.WorkerHandler.register_environment(_EXTERNAL, beam_runner_api_pb2.ExternalPayload)(SpreadWorker)


class SpreadJob(local_job_service.BeamJob):
    """A job with as many workers as addresses."""

    def _invoke_runner(self) -> fn_runner.RunnerResult:
        self.set_state(beam_job_api_pb2.JobState.RUNNING)
        self._provision_info.job_name = self._job_id  # clients call all their jobs the same
        runner = fn_runner.FnApiRunner(provision_info=self._provision_info)
        runner._num_workers = _addresses(self._pipeline_proto)
        try:
            return runner.run_via_runner_api(self._pipeline_proto, self.pipeline_options())
        finally:
            SpreadWorker.started.pop(self._job_id, None)

    def cancel(self) -> None:
        """As Beam's, and end what runs."""
        super().cancel()
        for worker in SpreadWorker.started.get(self._job_id, ()):
            worker.abort()


def _addresses(pipeline: Any) -> int:
    payloads = [
        beam_runner_api_pb2.ExternalPayload.FromString(environment.payload)
        for environment in pipeline.components.environments.values()
        if environment.urn == _EXTERNAL
    ]
    return max((payload.endpoint.url.count(",") + 1 for payload in payloads), default=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until killed. Prints the address once it listens."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    options = parser.parse_args(arguments)
    service = local_job_service.LocalJobServicer(beam_job_type=SpreadJob)
    port = service.start_grpc_server(options.port)
    print(f"listening on localhost:{port}", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        pass
    finally:
        service.stop()


if __name__ == "__main__":
    main()
