"""A model client on an event loop of its own, for callers on several threads and loops, such as trainers."""

from __future__ import annotations

import asyncio
import atexit
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from trailforge.inference.client import ClientConfig, ModelClient
from trailforge.inference.ledgers import ledger_url, open_ledger
from trailforge.inference.provider.parameters import Parameters
from trailforge.inference.provider.urls import check_server_url
from trailforge.inference.request import Reply, Request
from trailforge.inference.threads import LoopThread, once
from trailforge.inference.usage import Meter
from trailforge.schemas import InvalidInput, user_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """Address and name of a model behind a URL. The API key comes from the environment variable TRAILFORGE_API_KEY."""

    url: str
    """URL of an OpenAI-compatible server; several servers of the same model are separated by commas."""
    model: str
    """Name of the model at the server."""
    ledger: str = ""
    """Path of the file that keeps replies; empty: a file in the user's cache. TRAILFORGE_LEDGER_URL overrides both."""
    max_tokens: int = 2048
    """Largest number of tokens of a reply, thoughts included."""
    reasoning: Literal["separate", "inline"] = "separate"
    """Where the model's thoughts are: sent beside the reply, or in it, up to `</think>`."""
    max_in_flight: int = 64
    """Largest number of calls at a time from one process."""
    timeout_s: float = 120.0
    parameters: Parameters = field(default_factory=Parameters)
    """How requests are written for this server."""

    def __post_init__(self) -> None:
        for name in ("url", "model"):
            if not getattr(self, name).strip():
                raise InvalidInput("must not be empty", field=name)
        check_server_url(self.url, "url")
        for name in ("max_tokens", "max_in_flight", "timeout_s"):
            if getattr(self, name) <= 0:
                raise InvalidInput(f"has to be more than 0, got {getattr(self, name)}", field=name)

    @property
    def client(self) -> ClientConfig:
        """Return the configuration of a `ModelClient` for this model."""
        return ClientConfig(
            base_url=self.url,
            model=self.model,
            reasoning=self.reasoning,
            max_in_flight=self.max_in_flight,
            timeout_s=self.timeout_s,
            parameters=self.parameters,
        )


def read_served(text: str, usual: ServedModel | None) -> ServedModel:
    """Read `URL#MODEL`; the other settings are those of `usual`, if given. Raises `InvalidInput` for any other text."""
    check_server_url(text, "--filter-model")
    url, _, model = text.partition("#")
    if "://" not in url or not model:
        raise InvalidInput(f"{text!r}: expected URL#MODEL", field="--filter-model")
    return replace(usual, url=url, model=model) if usual else ServedModel(url=url, model=model)


class ThreadSafeModel(LoopThread):
    """A model client that can be used from any thread and any event loop."""

    def __init__(self, served: ServedModel, name: str) -> None:
        """`name`: of its ledger in the user's cache. Raises `InvalidInput` for a bad ledger. Nothing is sent yet."""
        ledger = ledger_url("")
        super().__init__(name)
        self.client = self.call(_open(served, ledger, name))
        """For work that runs on the client's own loop."""

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """Return the reply to a request; see `ModelClient.complete`."""
        return await asyncio.wrap_future(self.soon(self.client.complete(request, meter)))

    def check(self) -> None:
        """Raise `ServerUnavailable` when nothing answers at the model's URL."""
        self.call(self.client.check())

    def close(self) -> None:
        """Close client, ledger and event loop."""
        self.end(self.client.aclose)


@once
def open_thread_safe_model(served: ServedModel, name: str) -> ThreadSafeModel:
    """Return the client of a model, one in each process, which lives as long as the process. `name` is that of the
    folder in the user's cache for its ledger, where the settings name no file. Raises what `ThreadSafeModel` raises.
    """
    shared = ThreadSafeModel(served, name)
    atexit.register(shared.close)
    return shared


async def _open(served: ServedModel, ledger: str, name: str) -> ModelClient:
    """On the loop that it lives on."""
    path = Path(served.ledger) if served.ledger else user_cache(name) / "calls.sqlite"
    return ModelClient(served.client, open_ledger(ledger, path))
