"""Build the back ends that an evaluation names and does not have yet, with the language model that some of them call.

built = read_build("hippo_rag", {})                  the index preset of that name, else the back end alone
async with IndexWriter(...).asking() as asker:       with the evaluation's own ledger and caps
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trailforge.evaluation.prices import dearest
from trailforge.inference import Asker, Caps, ClientConfig, Meter, ModelClient, Prices
from trailforge.inference.ledgers import ledger_url, open_ledger
from trailforge.inference.provider import check_server_url
from trailforge.pipelines import LEDGER, IndexConfig, read_index_preset
from trailforge.pipelines.runs import ModelConfig
from trailforge.presets import index_preset_names
from trailforge.retrieval.backends import BACKENDS, load_backend
from trailforge.schemas import InvalidInput


def buildable() -> tuple[str, ...]:
    """Return the names of what can be built by name alone: back ends, and the methods that index presets build."""
    return tuple(dict.fromkeys((*BACKENDS, *index_preset_names())))


def read_build(name: str, options: Mapping[str, Any]) -> IndexConfig:
    """Return the settings of an index that is given by name or by a preset's file, with `options` over its own. Raises
    `InvalidInput` for options that its back end does not have.
    """
    named = name in index_preset_names() or name not in BACKENDS
    config = read_index_preset(name) if named else IndexConfig(backend=name)
    return replace(config, options=config.options | dict(options))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWriter:
    """The language model that back ends call while they are built and searched: its server, its ledger and its caps."""

    folder: Path
    """The folder of the evaluation, whose ledger has the replies."""
    model: ModelConfig
    caps: Caps = field(default_factory=Caps)
    capped_at: Prices = field(default_factory=Prices)
    """Prices at which the caps on cost count every token in the ledger: the dearest, as the ledger does not say which
    model a token is of.
    """

    @property
    def client(self) -> ClientConfig:
        """Return the configuration of the model's client."""
        return self.model.client(self.caps, self.capped_at)

    @property
    def prices(self) -> Prices | None:
        """Return the prices of the model's tokens, or None when they are not known."""
        return None if self.model.prices == Prices() else self.model.prices

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator[Asker]:
        """Open a client for the model, with its ledger. Raises `ServerUnavailable` at once when the server does not
        answer.
        """
        ledger = open_ledger(ledger_url(""), self.folder / LEDGER, run=self.folder.name)
        client = ModelClient(self.client, ledger)
        try:
            await client.check()
            yield Asker(client=client, model=self.model.name, style="chat", seed=0, meter=Meter())
        finally:
            await client.aclose()


def choose_writer(
    named: str | None,
    builder: ModelConfig | None,
    model: ModelConfig,
    served: tuple[str, str],
    folder: Path,
    caps: Caps,
) -> IndexWriter | None:
    """Choose the model that back ends call: the one named as `URL#MODEL`, else the preset's (`builder`), else the
    evaluated model.

    `model` is the evaluated model's configuration and `served` its URL and name. A model named by URL is called with
    default settings, and its prices are unknown. Returns None where the evaluated model is not on a server. Raises
    `InvalidInput` for text that names no server's model.
    """
    url, name = served
    evaluated = replace(model, url=url, name=name) if "://" in url else None
    chosen = builder or evaluated
    if named is not None:
        check_server_url(named, "--build-model")
        url, _, name = named.partition("#")
        if "://" not in url or not name:
            raise InvalidInput(f"{named!r}: expected URL#MODEL", field="--build-model")
        known = (each for each in (builder, evaluated) if each is not None and each.name == name)
        chosen = replace(next(known, ModelConfig(name=name)), url=url)
    if chosen is None:
        return None
    capped_at = dearest(chosen.prices, model.prices)
    return IndexWriter(folder=folder, model=chosen, caps=caps, capped_at=capped_at)


def check_writer(writer: IndexWriter | None, backend: str, config: Any) -> None:
    """Raise `InvalidInput` when a back end needs a language model and none is on a server, or when a cap on cost could
    not cover its calls.
    """
    declared = load_backend(backend)
    if not declared.asks_model(config):
        return
    if writer is None:
        other = f", or take {declared.plain}, which asks none" if declared.plain else ""
        raise InvalidInput(f"{backend} asks a model: say which (--build-model URL#MODEL){other}", field="--backend")
    if writer.caps.max_cost is not None and writer.prices is None:
        name = writer.model.name
        raise InvalidInput(
            f"caps nothing of what {name} is asked: give its prices in a preset (builder: {{name: {name}, url: "
            f"{writer.model.url}, prompt_price_per_million: …, completion_price_per_million: …}})",
            field="--max-cost",
        )


def describe_build(config: Mapping[str, Any]) -> str:
    """Describe what a `BackendChoice` searches, for a table: the back end with its non-default settings, the model used
    to build it, and its token limit.
    """
    name = str(config.get("backend", ""))
    parts = [load_backend(name).describe(config) if name in BACKENDS else name]
    if model := config.get("model"):
        parts.append(f"by {model}")
    if (asked := config.get("asks")) and asked != model:
        parts.append(f"searches ask {asked}")
    if tokens := config.get("chunk_tokens"):
        parts.append(f"passages of {tokens} tokens")
    return ", ".join(filter(None, parts))
