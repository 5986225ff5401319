"""The server that a run starts for a packaged model: the plug-in `embedded` of the group `trailforge.servers`."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from typing import IO

from trailforge.inference.packaged import PACKAGED_MODELS, SMOLLM2
from trailforge.inference.server import ServerProcess
from trailforge.schemas import InvalidInput

_READY_WITHIN_S = 120.0
_STOP_WITHIN_S = 5.0
_QUIET_THREADS = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
"""Without these OpenMP's threads spin, and two servers on one machine bring each other to a halt."""


class EmbeddedServer:
    """llama.cpp's OpenAI-compatible server on a free loopback port. A context manager; ready when entered."""

    def __init__(self, model: str = SMOLLM2.name, *, slots: int = 8) -> None:
        if model not in PACKAGED_MODELS:
            raise InvalidInput(
                f"no embedded model {model!r}; there are {', '.join(PACKAGED_MODELS)}", field="model.name"
            )
        self.model = PACKAGED_MODELS[model]
        self._slots = slots
        self._process: ServerProcess | None = None
        self._log: IO[bytes] | None = None
        self._port = 0

    @property
    def base_url(self) -> str:
        """For an OpenAI client."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def pid(self) -> int | None:
        """Of the server's process; None when it is not running."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start and wait until it answers. Raises `ServerUnavailable` with the end of its log when it does not."""
        weights = self.model.check()
        self._port = _free_port()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115, closed by stop()
        self._process = ServerProcess(
            what="the embedded model",
            url=f"http://127.0.0.1:{self._port}",
            log=self._log,
            stop_within_s=_STOP_WITHIN_S,
        )
        command = [
            sys.executable,
            "-P",
            "-m",
            "trailforge.small_model.embedded_server",
            str(self._port),
            str(self._slots),
            str(weights),
        ]
        try:
            self._process.start(command, os.environ | _QUIET_THREADS)
            self._process.wait_until_healthy(_READY_WITHIN_S)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it, gently and then not."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> EmbeddedServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
