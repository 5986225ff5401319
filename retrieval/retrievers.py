"""Which retriever is asked for: a back end by its name, a server by its URL, or live pages.

One way for all who search, whatever the back end: in memory over documents (`build_over`), or a saved index
(`open_saved`), each with the encoder that it needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from trailforge.inference.provider.urls import check_server_url
from trailforge.retrieval.backends import BACKENDS, BackendRetriever, ShardMap, Workbench, load_backend, map_here
from trailforge.retrieval.base import Retriever
from trailforge.retrieval.embeddings import is_served
from trailforge.retrieval.encoder import PACKAGED, Encoder, check_encoder
from trailforge.retrieval.service.client import NO_KEY, is_address
from trailforge.schemas import Document, InvalidInput

C = TypeVar("C", bound="RetrieverConfig")
Result = TypeVar("Result")

WEB = "web"
"""In place of a back end: live pages."""
WEB_KEY = "set its environment variable (TAVILY_API_KEY …) instead"
"""The mend for an address of its search with a key in it."""
LONGEST_WEB_PASSAGE = 100
"""Words: eight searches of two passages then fit what R-Search's training preset gives a plan's results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieverConfig:
    """Which retriever, and with which encoder."""

    kind: str = ""
    """The name of a back end (`retrieval.backends.BACKENDS`); `web`: live pages; or the URL of a server
    (`trailforge serve-search`). Empty: that of the index which is searched."""
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    """Numbers of the back end other than its own, by the names that its configuration has for them."""
    encoder: str = ""
    """For back ends that need one: `minilm`, any sentence-transformers name or path, or a server's, `URL#MODEL`. Empty:
    that of the index which is searched; where none is, `minilm`."""
    device: str = "cpu"
    """Of the encoder: `cpu`, `cuda`, `cuda:1`; `auto`: all GPUs there are; several with commas between them. Another
    one changes the last bits of its vectors, no more."""
    query_prefix: str = ""
    """What the encoder wants before a query, e.g. `query: ` for e5. Empty: what the index says, if one is searched."""
    passage_prefix: str = ""
    """What the encoder wants before a passage, e.g. `passage: ` for e5. Empty: as above."""
    web_interval_s: float = 1.0
    """For `web`: between the beginnings of two requests to a search. arXiv is asked every three seconds."""
    longest_web_passage: int = LONGEST_WEB_PASSAGE
    """For `web`: words, at the end of a sentence."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a kind that is none, and for options that its back end does not have."""
        if self.kind:
            check_kind(self.kind)
        if is_served(self.encoder):
            check_server_url(self.encoder, "encoder")
        if self.options:
            if self.kind not in BACKENDS:
                raise InvalidInput(f"of which back end? say its kind: {', '.join(BACKENDS)}", field="options")
            self.numbers(self.kind)

    @property
    def is_remote(self) -> bool:
        """Whether the kind alone says what is searched: live pages, or what a server has."""
        return self.kind == WEB or is_address(self.kind)

    def numbers(self, backend: str) -> Any:
        """The configuration of a back end with these options. Raises as `Backend.read_numbers`."""
        try:
            return load_backend(backend).read_numbers(self.options)
        except InvalidInput as error:
            raise InvalidInput(error.problem, field=f"options.{error.field}") from None

    def encoder_of(self, backend: str) -> str | None:
        """Name of the encoder for a back end; None when it needs none."""
        return (self.encoder or PACKAGED) if load_backend(backend).needs_encoder else None

    def of_kind(self: C, kind: str | None) -> C:
        """With this kind, where one is asked for; options of another back end are not its own."""
        if kind is None or kind == self.kind:
            return self
        return replace(self, kind=kind, options={})

    def with_encoder(
        self: C, encoder: str | None = None, query_prefix: str | None = None, passage_prefix: str | None = None
    ) -> C:
        """With what is said of the encoder; None stands for nothing said.

        The prefixes of this configuration are its own encoder's: of another one they are not taken over.
        """
        said = {"encoder": encoder, "query_prefix": query_prefix, "passage_prefix": passage_prefix}
        given = {name: text for name, text in said.items() if text is not None}
        is_other = given.get("encoder", self.encoder) != self.encoder
        usual = {"query_prefix": "", "passage_prefix": ""} if is_other else {}
        return replace(self, **usual | given)

    def refuse_encoder(self, *said: str | None) -> None:
        """Raises `InvalidInput` where something is said of an encoder and this kind of retriever uses none."""
        if all(text is None for text in said) or not self.kind:
            return
        if self.is_remote or not load_backend(self.kind).needs_encoder:
            options = "--encoder, --query-prefix and --passage-prefix"
            raise InvalidInput(f"{self.kind} is searched without an encoder here; leave {options} out")


def check_kind(kind: str) -> None:
    """Raises `InvalidInput` for what is neither a back end, nor the web, nor a server's URL without a key."""
    check_server_url(kind, "kind", NO_KEY)
    if not (kind in (*BACKENDS, WEB) or is_address(kind)):
        known = ", ".join((*BACKENDS, WEB))
        raise InvalidInput(f"{kind!r} is none of {known}, nor the URL of a server", field="kind")


def open_encoder(config: RetrieverConfig, backend: str) -> Encoder | None:
    """The encoder that a back end wants; None where it wants none. Raises `RetrievalError` for one that is missing."""
    if (name := config.encoder_of(backend)) is None:
        return None
    prefixes = {"query_prefix": config.query_prefix, "passage_prefix": config.passage_prefix}
    return Encoder(name, **prefixes, device=config.device)


def check_in_memory(config: RetrieverConfig, backend: str) -> None:
    """Whether documents can be searched by a back end without an index that was built before. Loads no encoder.

    Raises `InvalidInput` for options that want a model, and `RetrievalError` for missing packages.
    """
    declared = load_backend(backend)
    if declared.asks_model(config.numbers(backend)):
        other = f"take {declared.plain}, which asks none" if declared.plain else "leave them out"
        raise InvalidInput(
            f"{backend} asks a model with these; build an index with it once (`trailforge index build`) and search "
            f"that, or {other}",
            field="options" if config.options else "kind",
        )
    if (encoder := config.encoder_of(backend)) is not None:
        check_encoder(encoder)


async def build_over(
    documents: Sequence[Document],
    config: RetrieverConfig,
    backend: str,
    encoder: Encoder | None,
    shards: ShardMap = map_here,
) -> Retriever:
    """A back end over documents, in memory, of a configuration that `check_in_memory` lets pass.

    `encoder`: as `open_encoder` opens it.
    """
    tools = Workbench(encoder=encoder, map=shards)
    return BackendRetriever(await load_backend(backend).build(documents, config.numbers(backend), tools), documents)


def run_apart(work: Coroutine[Any, Any, Result]) -> Result:
    """What a coroutine gives, run to its end in a thread with a loop of its own: this one's loop may be running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
