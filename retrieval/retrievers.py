"""The configuration of a retriever: a back end by its name, a server by its URL, or live web pages.

Data sets, evaluation, training and commands share it; `scope.open_retrieval` opens it over what is searched, and
`plan_tools.open_tools` opens the tools of agents that plan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from trailforge.inference.provider import check_server_url
from trailforge.retrieval.backends import (
    BACKENDS,
    BackendRetriever,
    ShardMap,
    Workbench,
    backend_packages,
    load_backend,
    map_here,
)
from trailforge.retrieval.base import Retriever
from trailforge.retrieval.encoders.embeddings import is_served
from trailforge.retrieval.encoders.encoder import PACKAGED, Encoder, check_encoder, encoder_packages
from trailforge.retrieval.sentences import LONGEST_PASSAGE
from trailforge.retrieval.service.client import NO_KEY, is_address
from trailforge.schemas import Document, InvalidInput

C = TypeVar("C", bound="RetrieverConfig")
Result = TypeVar("Result")

WEB = "web"
"""Kind of a retriever that searches live web pages instead of a back end."""
WEB_KEY = "set its environment variable (TAVILY_API_KEY …) instead"
"""How to mend a web search address that holds a key."""
LONGEST_WEB_PASSAGE = 100
"""Largest number of words of a web passage: eight searches of two passages then fit what R-Search's training preset
gives a plan's results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieverConfig:
    """Settings of a retriever: its kind, its encoder, and the search of live pages.

    Agents that plan search by `web_news` and `longest_passage`, the others by `web_provider`, `web_url` and
    `web_pages`.
    """

    kind: str = ""
    """Name of a back end (`retrieval.backends.BACKENDS`); `web`: live pages; or the URL of a server (`trailforge
    serve-search`). Empty: that of the index which is searched."""
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    """Settings of the back end that differ from its defaults, by their names in its configuration."""
    encoder: str = ""
    """Encoder, for back ends that need one: `minilm`, any sentence-transformers name or path, or a server's,
    `URL#MODEL`. Empty: that of the index which is searched; where none is, `minilm`."""
    device: str = "cpu"
    """Device of the encoder: `cpu`, `cuda`, `cuda:1`; `auto`: all GPUs of the machine; several are separated by commas.
    Another device changes only the last bits of the vectors."""
    query_prefix: str = ""
    """Text that the encoder needs before a query, e.g. `query: ` for e5. Empty: that of the index, if one is
    searched."""
    passage_prefix: str = ""
    """Text that the encoder needs before a passage, e.g. `passage: ` for e5. Empty: that of the index, if one is
    searched."""
    web_interval_s: float = 1.0
    """Seconds between the beginnings of two requests to a web search. arXiv is asked every three seconds."""
    longest_web_passage: int = LONGEST_WEB_PASSAGE
    """Largest number of words of a web passage, which ends with a sentence."""
    web_provider: str = ""
    """Provider of web searches: one of `web/search_apis.yaml` (tavily, serper, zhipu, searxng) or the path of a YAML
    file with the same fields. Empty: Tavily."""
    web_url: str = ""
    """Address of the web search in place of the provider's own, with the same interface."""
    web_pages: int = 0
    """Number of pages of a web search whose text is read, as MSearcher's tool does; 0: only what the search says of
    them is used."""
    web_news: Literal["gnews", "serper"] = "gnews"
    """Source in which a plan's News looks first, for `web`. `serper`: Google News alone, which needs no second key."""
    longest_passage: int = LONGEST_PASSAGE
    """Largest number of words of the passages into which a plan's back end cuts documents."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a kind that is none, for options that its back end does not have, and for
        addresses that hold a key.
        """
        if self.kind:
            check_kind(self.kind)
        check_server_url(self.web_url, "web_url", WEB_KEY)
        if is_served(self.encoder):
            check_server_url(self.encoder, "encoder")
        if self.options:
            if self.kind not in BACKENDS:
                raise InvalidInput(f"of which back end? say its kind: {', '.join(BACKENDS)}", field="options")
            self.numbers(self.kind)

    @property
    def is_remote(self) -> bool:
        """Tell whether the kind alone says what is searched: live pages, or what a server has."""
        return self.kind == WEB or is_address(self.kind)

    @property
    def server(self) -> str:
        """Return the URL of the server that is searched; empty where none is."""
        return self.kind if is_address(self.kind) else ""

    @property
    def known_hash(self) -> str:
        """Return the SHA-256 that the corpus must have; empty where that is not known."""
        return ""

    def find_corpus(self) -> Path | None:
        """Return the index or file of passages that this configuration names; None where it names none."""
        return None

    def numbers(self, backend: str) -> Any:
        """Return the settings of a back end: its defaults, with this configuration's `options` over them. Raises what
        `Backend.read_numbers` raises."""
        try:
            return load_backend(backend).read_numbers(self.options)
        except InvalidInput as error:
            raise InvalidInput(error.problem, field=f"options.{error.field}") from None

    def encoder_of(self, backend: str) -> str | None:
        """Return the name of the encoder for a back end; None when it needs none."""
        return (self.encoder or PACKAGED) if load_backend(backend).needs_encoder else None

    def packages_over(self, backend: str) -> tuple[str, ...]:
        """Return the optional modules that a back end and its encoder import. Raises what `numbers` raises."""
        of_encoder = encoder_packages(name) if (name := self.encoder_of(backend)) is not None else ()
        return (*of_encoder, *backend_packages(backend, self.numbers(backend)))

    def of_kind(self: C, kind: str | None) -> C:
        """Return this configuration with another kind; the options of the present back end are dropped then. None, or
        the same kind, changes nothing."""
        if kind is None or kind == self.kind:
            return self
        return replace(self, kind=kind, options={})

    def with_encoder(
        self: C, encoder: str | None = None, query_prefix: str | None = None, passage_prefix: str | None = None
    ) -> C:
        """Return this configuration with these settings of the encoder; None leaves a setting as it is.

        The prefixes of this configuration belong to its own encoder: another one does not take them over.
        """
        said = {"encoder": encoder, "query_prefix": query_prefix, "passage_prefix": passage_prefix}
        given = {name: text for name, text in said.items() if text is not None}
        is_other = given.get("encoder", self.encoder) != self.encoder
        usual = {"query_prefix": "", "passage_prefix": ""} if is_other else {}
        return replace(self, **usual | given)

    def refuse_encoder(self, *said: str | None) -> None:
        """Raise `InvalidInput` when a setting of the encoder is given (`said`; None: not given) and this kind of
        retriever uses no encoder."""
        if all(text is None for text in said) or not self.kind:
            return
        if self.is_remote or not load_backend(self.kind).needs_encoder:
            options = "--encoder, --query-prefix and --passage-prefix"
            raise InvalidInput(f"{self.kind} is searched without an encoder here; leave {options} out")


def without_usual(content: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the content of a configuration without those settings of these names that have their default.

    They are settings that were introduced later: leaving them out keeps the hash of runs that do not set them.
    """
    usual = {each.name: each.default for each in fields(RetrieverConfig)}
    return {name: value for name, value in content.items() if name not in names or value != usual[name]}


def check_kind(kind: str) -> None:
    """Raise `InvalidInput` for a kind that is neither a back end, nor the web, nor a server's URL without a key."""
    check_server_url(kind, "kind", NO_KEY)
    if not (kind in (*BACKENDS, WEB) or is_address(kind)):
        known = ", ".join((*BACKENDS, WEB))
        raise InvalidInput(f"{kind!r} is none of {known}, nor the URL of a server", field="kind")


def open_encoder(config: RetrieverConfig, backend: str) -> Encoder | None:
    """Open the encoder that a back end needs; None where it needs none. Raises `RetrievalError` for one that is
    missing."""
    if (name := config.encoder_of(backend)) is None:
        return None
    prefixes = {"query_prefix": config.query_prefix, "passage_prefix": config.passage_prefix}
    return Encoder(name, **prefixes, device=config.device)


def check_in_memory(config: RetrieverConfig, backend: str) -> None:
    """Check that documents can be searched by a back end without a prebuilt index. Loads no encoder.

    Raises `InvalidInput` for options that need a model, and `RetrievalError` for missing packages.
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
    """Build a back end over documents in memory, from a configuration that passes `check_in_memory`.

    `encoder`: as `open_encoder` opens it; None for a back end that needs none. `shards` runs the parts of the build.
    """
    tools = Workbench(encoder=encoder, map=shards)
    return BackendRetriever(await load_backend(backend).build(documents, config.numbers(backend), tools), documents)


def run_in_thread(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end in a thread with a loop of its own, and return its result: the caller's loop may be
    running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
