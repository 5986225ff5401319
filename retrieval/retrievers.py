"""Which retriever is asked for, and how it searches: a back end by its name, a server by its URL, or live pages.

One configuration for data sets, evaluation, training and commands; `scope.open_retrieval` opens it over what is
searched, and `plan_tools.open_tools` opens the tools of agents that plan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from trailforge.inference.provider.urls import check_server_url
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
from trailforge.retrieval.embeddings import is_served
from trailforge.retrieval.encoder import PACKAGED, Encoder, check_encoder, encoder_packages
from trailforge.retrieval.sentences import LONGEST_PASSAGE
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
    """Which retriever, with which encoder, and how live pages are searched.

    Agents that plan search by `web_news` and `longest_passage`, the others by `web_provider`, `web_url` and
    `web_pages`.
    """

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
    web_provider: str = ""
    """For `web`: who is asked, one of `web/search_apis.yaml` (tavily, serper, zhipu, searxng) or the path of a YAML
    file with the same fields. Empty: Tavily."""
    web_url: str = ""
    """For `web`: another address than the provider's own, which takes and gives the same."""
    web_pages: int = 0
    """For `web`: of how many of the pages of a search the text is read, as MSearcher's tool does; 0: what the search
    says of them is all."""
    web_news: Literal["gnews", "serper"] = "gnews"
    """For `web`: where a plan's News looks first. `serper`: Google News alone, which needs no second key."""
    longest_passage: int = LONGEST_PASSAGE
    """Words of the passages that a plan's back end cuts documents into."""

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
        """Whether the kind alone says what is searched: live pages, or what a server has."""
        return self.kind == WEB or is_address(self.kind)

    @property
    def server(self) -> str:
        """The URL of the server that is searched; empty where none is."""
        return self.kind if is_address(self.kind) else ""

    @property
    def known_hash(self) -> str:
        """SHA-256 of what the corpus has to hold; empty where that is not known."""
        return ""

    def find_corpus(self) -> Path | None:
        """The index or the file of passages that this names; None where it names none."""
        return None

    def numbers(self, backend: str) -> Any:
        """The configuration of a back end with these options. Raises as `Backend.read_numbers`."""
        try:
            return load_backend(backend).read_numbers(self.options)
        except InvalidInput as error:
            raise InvalidInput(error.problem, field=f"options.{error.field}") from None

    def encoder_of(self, backend: str) -> str | None:
        """Name of the encoder for a back end; None when it needs none."""
        return (self.encoder or PACKAGED) if load_backend(backend).needs_encoder else None

    def packages_over(self, backend: str) -> tuple[str, ...]:
        """Modules of extras that a back end and its encoder import. Raises as `numbers`."""
        of_encoder = encoder_packages(name) if (name := self.encoder_of(backend)) is not None else ()
        return (*of_encoder, *backend_packages(backend, self.numbers(backend)))

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


def without_usual(content: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A configuration's content without those of these settings that are as usual.

    They joined the configuration later: what decides the rows of a run that does not say them stays the same.
    """
    usual = {each.name: each.default for each in fields(RetrieverConfig)}
    return {name: value for name, value in content.items() if name not in names or value != usual[name]}


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
