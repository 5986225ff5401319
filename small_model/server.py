"""The server that a run starts for a packaged model: the plug-in `embedded` of the group `trailforge.servers`."""

from __future__ import annotations

import os
import socket
import sys
import tempfile

from trailforge.inference.packaged import PACKAGED_MODELS, SMOLLM2
from trailforge.inference.server import LocalServer
from trailforge.schemas import InvalidInput

_READY_WITHIN_S = 120.0
_STOP_WITHIN_S = 5.0
_QUIET_THREADS = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
"""Without these OpenMP's threads spin, and two servers on one machine bring each other to a halt."""


class EmbeddedServer(LocalServer):
    """llama.cpp's OpenAI-compatible server on a free loopback port."""

    def __init__(self, model: str = SMOLLM2.name, *, slots: int = 8) -> None:
        super().__init__("the embedded model", stop_within_s=_STOP_WITHIN_S)
        if model not in PACKAGED_MODELS:
            raise InvalidInput(
                f"no embedded model {model!r}; there are {', '.join(PACKAGED_MODELS)}", field="model.name"
            )
        self.model = PACKAGED_MODELS[model]
        self._slots = slots
        self._port = 0

    @property
    def url(self) -> str:
        """Where it answers, without a path."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start and wait until it answers. Raises `ServerUnavailable` with the end of its log when it does not."""
        weights = self.model.check()
        self._port = _free_port()
        command = [
            sys.executable,
            "-P",
            "-m",
            "trailforge.small_model.embedded_server",
            str(self._port),
            str(self._slots),
            str(weights),
        ]
        log = tempfile.TemporaryFile()  # noqa: SIM115, closed by stop()
        self.launch(command, os.environ | _QUIET_THREADS, log, _READY_WITHIN_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
