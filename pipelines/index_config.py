"""Read in one file how an index is built: its back end with settings, chunking, encoder, and the model that some back
ends call.

config = read_index_preset("hippo_rag")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trailforge.pipelines.runs.config import ModelConfig
from trailforge.presets import load_index_preset
from trailforge.retrieval.backends import Backend, load_backend
from trailforge.retrieval.indexes import Chunking
from trailforge.retrieval.pages import PART_WORDS, Paging
from trailforge.schemas import InvalidInput, from_dict, located


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexConfig:
    """The content of an index preset."""

    backend: str
    options: dict[str, Any] = field(default_factory=dict)
    """The back end's settings that differ from its own defaults."""
    encoder: str = ""
    """Name of the encoder; empty: the packaged one, where one is needed."""
    query_prefix: str = ""
    passage_prefix: str = ""
    chunk_tokens: int | None = None
    """Documents are cut into passages of at most so many tokens; None: they are not."""
    chunk_overlap: int = 0
    """Tokens that neighbouring passages share."""
    page_words: int | None = None
    """Documents are pages, opened in parts of at most so many words; None: they are not."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig(url=""))
    """The model that writes what the back end asks a model for. Without a URL, the command has to name one."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a back end that there is not, numbers that it does not have, and odd lengths."""
        _ = self.chunking, self.pages
        with located(section="options"):
            self.declared.read_numbers(self.options)

    @property
    def declared(self) -> Backend:
        """Return the back end that this configuration names."""
        return load_backend(self.backend)

    @property
    def chunking(self) -> Chunking | None:
        """Return how documents are cut into passages; None when they are not cut."""
        return Chunking(tokens=self.chunk_tokens, overlap=self.chunk_overlap) if self.chunk_tokens else None

    @property
    def pages(self) -> Paging | None:
        """Return how documents are divided into pages; None when they are not."""
        return None if self.page_words is None else Paging(words=self.page_words)

    def with_pages(self, are_pages: bool, words: int | None) -> IndexConfig:
        """Return the configuration with these settings of pages: whether documents are pages, and the words of a
        part.
        """
        said = words or (PART_WORDS if are_pages else None)
        return self if said is None else replace(self, page_words=said)

    def with_encoder(
        self, encoder: str | None, query_prefix: str | None = None, passage_prefix: str | None = None
    ) -> IndexConfig:
        """Return the configuration with another encoder; a preset's prefixes apply only to the preset's own encoder."""
        said = {"encoder": encoder, "query_prefix": query_prefix, "passage_prefix": passage_prefix}
        usual = {} if encoder in (None, self.encoder) else {"query_prefix": "", "passage_prefix": ""}
        return replace(self, **usual | {name: text for name, text in said.items() if text is not None})

    def with_chunks(self, tokens: int | None, overlap: int | None) -> IndexConfig:
        """Return the configuration with another length of passages; a preset's overlap applies only to the preset's own
        length.
        """
        if overlap and (tokens or self.chunk_tokens) is None:
            problem = "passages overlap where documents are cut: give --chunk-tokens, too"
            raise InvalidInput(problem, field="--chunk-overlap")
        usual = self if tokens is None else replace(self, chunk_tokens=tokens, chunk_overlap=0)
        return usual if overlap is None else replace(usual, chunk_overlap=overlap)

    def numbers(self, options: Mapping[str, Any] | None = None) -> Any:
        """Return the back end's configuration with these options over its own. Raises what `Backend.read_numbers`
        raises.
        """
        return self.declared.read_numbers({**self.options, **(options or {})})


def choose_index(preset: str | None, backend: str | None, options: Mapping[str, Any]) -> IndexConfig:
    """Return the configuration of a preset, or of a back end alone (by default `dense`), with these options. Raises
    what `read_index_preset` and `Backend.read_numbers` raise.
    """
    config = IndexConfig(backend=backend or "dense") if preset is None else read_index_preset(preset)
    if backend not in (None, config.backend):
        raise InvalidInput(f"the preset {preset} builds {config.backend}: leave it out", field="--backend")
    try:
        config.numbers(options)
    except InvalidInput as error:
        raise InvalidInput(error.problem, field=f"--set {error.field}") from None
    return replace(config, options=config.options | dict(options))


def read_index_preset(name_or_path: str) -> IndexConfig:
    """Read an index preset, given by its name or by the path of a YAML file.

    Raises `InvalidInput` that names preset and field.
    """
    content = load_index_preset(name_or_path)
    with located(file=f"preset {name_or_path}"):
        if isinstance(model := content.get("model"), dict):
            content = content | {"model": {"url": "", **model}}
        return from_dict(IndexConfig, content)
