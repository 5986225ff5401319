"""Download a packaged model's weights and serve it for a run: the plug-in `embedded` of the group
`trailforge.servers`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from trailforge.inference import LocalServer
from trailforge.inference.packaged import EMBEDDED_SLOTS, PACKAGED_MODELS, SMOLLM2, PackagedModel
from trailforge.pipelines.engine import sha256_of
from trailforge.schemas import InvalidInput, OutputError, ServerUnavailable, sync

_FETCHED_WITHIN_S = 600
_READY_WITHIN_S = 120.0
_STOP_WITHIN_S = 5.0
_QUIET_THREADS = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
"""Without these OpenMP's threads spin, and two servers on one machine bring each other to a halt."""


class EmbeddedServer(LocalServer):
    """Runs llama.cpp's OpenAI-compatible server on a free loopback port."""

    def __init__(self, model: str = SMOLLM2.name, *, slots: int = EMBEDDED_SLOTS) -> None:
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
        """Return the URL at which the server answers, without a path."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server and wait until it answers. Raises `ServerUnavailable`, with the end of its log, when it does
        not.
        """
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


def fetch_weights(model: PackagedModel) -> Path:
    """Install a model's weights into the user's cache and return their path; existing weights are left alone.

    Their package has one file that is needed and requires a program that builds from source, so no extra can name it.
    It is unpacked into a temporary folder by pip or uv, whichever this environment has. Raises `ServerUnavailable` when
    the package cannot be downloaded or its file is not the expected one, and `OutputError` when the cache cannot be
    written.
    """
    if (found := model.find()) is not None:
        return found
    target = model.cached
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            _install(model.requirement, Path(folder))
            unpacked = Path(folder) / model.package / model.file
            if not unpacked.is_file() or sha256_of(unpacked) != model.sha256:
                raise ServerUnavailable(
                    f"{model.requirement} does not hold the expected {model.file}; "
                    "see whether pip's index is PyPI or a true copy of it"
                )
            sync(unpacked)
            os.replace(unpacked, target)
    except OSError as error:
        raise OutputError(f"cannot write {target} ({error.strerror or error}); set XDG_CACHE_HOME") from error
    return target


def _install(requirement: str, folder: Path) -> None:
    """Unpack a distribution without its dependencies. Raises `ServerUnavailable`."""
    arguments = ["install", "--quiet", "--no-deps", "--target", str(folder), requirement]
    if importlib.util.find_spec("pip") is not None:
        command = [sys.executable, "-P", "-m", "pip", *arguments]
    elif uv := shutil.which("uv"):
        command = [uv, "pip", *arguments, "--python", sys.executable]
    else:
        raise ServerUnavailable("fetching the weights needs pip or uv, and neither is here; install one")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCHED_WITHIN_S)
    except subprocess.TimeoutExpired:
        raise ServerUnavailable(f"{requirement} was not fetched within {_FETCHED_WITHIN_S} s; try again") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise ServerUnavailable(f"cannot fetch {requirement}: {lines[-1] if lines else 'no reason given'}")
