"""The client on an event loop of its own, for whoever asks from several threads and loops, as trainers do."""

from __future__ import annotations

import asyncio
import atexit
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from trailforge.inference.budget import Meter
from trailforge.inference.client import ClientConfig, ModelClient
from trailforge.inference.ledgers import ledger_url, open_ledger
from trailforge.inference.provider.parameters import Parameters
from trailforge.inference.provider.urls import check_server_url
from trailforge.inference.request import Reply, Request
from trailforge.inference.threads import LoopThread, once
from trailforge.schemas import InvalidInput
from trailforge.schemas.files import user_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model behind a URL. Its key comes from the environment: TRAILFORGE_API_KEY."""

    url: str
    """Of an OpenAI-compatible server; several of the same model with commas between them."""
    model: str
    """As the server knows it."""
    ledger: str = ""
    """File that remembers replies; empty: one in the user's cache. TRAILFORGE_LEDGER_URL goes over both."""
    max_tokens: int = 2048
    """Of a reply, with the thoughts of a model that has any."""
    reasoning: Literal["separate", "inline"] = "separate"
    """Where such a model's thoughts are: sent beside the reply, or in it, up to `</think>`."""
    max_in_flight: int = 64
    """Calls at a time, of one process."""
    timeout_s: float = 120.0
    parameters: Parameters = field(default_factory=Parameters)
    """How requests are written."""

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
        """For `ModelClient`."""
        return ClientConfig(
            base_url=self.url,
            model=self.model,
            reasoning=self.reasoning,
            max_in_flight=self.max_in_flight,
            timeout_s=self.timeout_s,
            parameters=self.parameters,
        )


def read_served(text: str, usual: ServedModel | None) -> ServedModel:
    """The model of `URL#MODEL`, else as the usual one. Raises `InvalidInput` for other texts."""
    check_server_url(text, "--filter-model")
    url, _, model = text.partition("#")
    if "://" not in url or not model:
        raise InvalidInput(f"{text!r}: expected URL#MODEL", field="--filter-model")
    return replace(usual, url=url, model=model) if usual else ServedModel(url=url, model=model)


class ModelDesk(LoopThread):
    """A `Client` that may be asked from any thread and any loop."""

    def __init__(self, served: ServedModel, name: str) -> None:
        """`name`: of its ledger in the user's cache. Raises `InvalidInput` for a bad ledger. Nothing is sent yet."""
        ledger = ledger_url("")
        super().__init__(name)
        self.client = self.call(_open(served, ledger, name))
        """For work that runs on the desk's own loop."""

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """See `inference.Client`."""
        return await asyncio.wrap_future(self.soon(self.client.complete(request, meter)))

    def check(self) -> None:
        """Raises `ServerUnavailable` where nothing answers at the model's URL."""
        self.call(self.client.check())

    def close(self) -> None:
        """End client, ledger and loop."""
        self.end(self.client.aclose)


@once
def open_desk(served: ServedModel, name: str) -> ModelDesk:
    """The desk of a model, one in a process, which lives as long as that. Raises as `ModelDesk`."""
    desk = ModelDesk(served, name)
    atexit.register(desk.close)
    return desk


async def _open(served: ServedModel, ledger: str, name: str) -> ModelClient:
    """On the loop that it lives on."""
    path = Path(served.ledger) if served.ledger else user_cache(name) / "calls.sqlite"
    return ModelClient(served.client, open_ledger(ledger, path))
