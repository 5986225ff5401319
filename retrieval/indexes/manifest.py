"""The manifest of an index, `index.json`, with the hashes of its files and of itself, and the costs of the build."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trailforge.retrieval.backends import BACKENDS, PLAIN, Backend, load_backend, name_of_earlier
from trailforge.retrieval.indexes.corpus import Chunking
from trailforge.retrieval.indexes.seals import SEAL, SealedFile, check_sizes, unsealed, write_sealed
from trailforge.retrieval.indexes.texts import MappedDocuments
from trailforge.retrieval.pages.cutting import Paging
from trailforge.retrieval.words import WORDS_VERSION
from trailforge.schemas import Document, InvalidInput, RetrievalError, from_dict, parse_json, to_dict

MANIFEST, TEXTS, PAGES = "index.json", "texts.arrow", "pages.arrow"
FORMAT = 3
EARLIER = 2
"""Earlier version of the format, which is still read. In it a paper's name does not say whether a model built the
index; one that asks no model is read under its present name."""
MEND = "build the index again"
_EARLIER = "meta.json"
"""The manifest of format 1, which is not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFigures:
    """Size and hash of the corpus that was indexed."""

    name: str = ""
    sha256: str = ""
    """SHA-256 of the passages: ids, titles and texts, in order."""
    documents: int = 0
    """Number of documents before they were cut."""
    tokens: int = 0
    """Number of tokens of the passages, by `schemas.text.count_tokens`, whatever encoder and model; figures per token
    use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFigures:
    """Costs of a build, over all processes that worked on it, and of later additions."""

    seconds: float = 0.0
    """Wall-clock seconds; the time that a killed process spent after its last shard is not known."""
    peak_memory_bytes: int = 0
    """Peak memory of the largest process, including what else it held."""
    calls: int = 0
    """Number of calls to models, each counted once, also where the ledger had its reply."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = 0.0
    """Cost in the currency of the prices; None when none were given."""

    def __add__(self, other: BuildFigures) -> BuildFigures:
        costs = None if self.cost is None or other.cost is None else self.cost + other.cost
        return BuildFigures(
            seconds=round(self.seconds + other.seconds, 3),
            peak_memory_bytes=max(self.peak_memory_bytes, other.peak_memory_bytes),
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost=costs,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexManifest:
    """Description of an index: its corpus, how it was made, and its files with their hashes."""

    format: int = FORMAT
    backend: str
    config: dict[str, Any]
    encoder: str = ""
    """Name of the encoder; empty when the back end needs none. Then the prefixes are empty, too, and `dimension` is
    0."""
    passage_prefix: str = ""
    query_prefix: str = ""
    dimension: int = 0
    model: str = ""
    """Name of the model that the build asked; empty when it asked none."""
    documents: int = 0
    """Number of passages that are searched."""
    chunking: Chunking | None = None
    """How the documents of the corpus were cut into passages; None when they were not."""
    pages: Paging | None = None
    """How the documents were made pages to open, which the index keeps whole; None: it has passages alone."""
    corpus: CorpusFigures = CorpusFigures()
    figures: BuildFigures = BuildFigures()
    stats: dict[str, Any] = field(default_factory=dict)
    """Figures that the index gives of itself (`Index.stats`)."""
    words: int = 0
    """Value of `words.WORDS_VERSION` at the build; 0 for the first version, which was not recorded, and for indexes
    without words."""
    files: tuple[SealedFile, ...] = ()
    seal: str = ""
    """Hash of the manifest itself; see `retrieval.indexes.seals`."""

    @property
    def bytes(self) -> int:
        """Return the size of the index on disk."""
        return sum(file.bytes for file in self.files)

    @property
    def hours_per_million(self) -> float:
        """Return the hours to build per million tokens of the corpus."""
        return self.figures.seconds / 3600 / max(1, self.corpus.tokens) * 1e6

    @property
    def cost_per_million(self) -> float | None:
        """Return the cost per million tokens of the corpus, in the currency of the prices; None where these are not
        known."""
        return None if self.figures.cost is None else self.figures.cost / max(1, self.corpus.tokens) * 1e6


def read_manifest(folder: Path) -> IndexManifest:
    """Read the manifest of an index whose files have the right sizes; loads nothing.

    Raises `RetrievalError` when the folder holds none, or a damaged or an earlier one.
    """
    path = folder / MANIFEST
    try:
        content = parse_json(path.read_bytes())
    except OSError as error:
        if (folder / _EARLIER).is_file():
            raise RetrievalError(
                f"{folder} holds an index of an earlier version: build it again with `trailforge index build`"
            ) from error
        raise RetrievalError(
            f"{folder} holds no index: make one with `trailforge index build`, and give the folder it wrote"
        ) from error
    except ValueError as error:
        raise RetrievalError(f"{path} is damaged: {MEND}") from error
    if not isinstance(content, dict) or content.get("format") not in (FORMAT, EARLIER):
        raise RetrievalError(f"{path} is not of index format {FORMAT}: {MEND}")
    if SEAL not in content:
        raise RetrievalError(f"{path} is damaged: {MEND}")
    manifest = unsealed(IndexManifest, content, path, MEND)
    check_sizes(folder, manifest.files, MEND)
    if manifest.format == EARLIER:
        with _reading_numbers(folder, manifest):
            manifest = replace(manifest, backend=name_of_earlier(manifest.backend, manifest.config))
    if manifest.backend in BACKENDS and load_backend(manifest.backend).keeps_words and manifest.words != WORDS_VERSION:
        raise RetrievalError(
            f"{folder} keeps the words of another version: build it again with `trailforge index build`"
            f" (--backend {manifest.backend})"
        )
    return manifest


@contextlib.contextmanager
def _reading_numbers(folder: Path, manifest: IndexManifest) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise RetrievalError(f"{folder} is of another version of {manifest.backend} ({error}): {MEND}") from error


def read_numbers(folder: Path, manifest: IndexManifest) -> Any:
    """Return the configuration of an index's back end. Raises `RetrievalError` for settings of another version of
    it."""
    record = load_backend(manifest.backend).config
    with _reading_numbers(folder, manifest):
        return from_dict(record, manifest.config)


def describe_content(manifest: IndexManifest) -> dict[str, Any]:
    """Return a description of an index's content that does not depend on when it was built and what its corpus is
    called.

    It uses the words of the index's own format, so that an index keeps its hash as long as it exists.
    """
    content = without_unsaid(to_dict(manifest))
    for name in ("figures", SEAL):
        del content[name]
    del content["corpus"]["name"]
    if manifest.format == EARLIER:
        earlier = {plain: name for name, plain in PLAIN.items()}
        content["backend"] = earlier.get(manifest.backend, manifest.backend)
    return content


def without_unsaid(content: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest's content without fields that were introduced later and are empty, so that older indexes keep
    their hashes.
    """
    return {name: value for name, value in content.items() if name != "pages" or value is not None}


def write_manifest(folder: Path, manifest: IndexManifest) -> None:
    """Write a manifest with its own hash. Raises `OSError`."""
    content = without_unsaid(to_dict(manifest))
    del content[SEAL]
    write_sealed(folder / MANIFEST, content)


def describe_figures(folder: Path, manifest: IndexManifest) -> list[tuple[str, str]]:
    """Return the figures of an index for people, as pairs of name and text."""
    corpus, figures = manifest.corpus, manifest.figures
    settings = ", ".join(f"{name}={value}" for name, value in manifest.config.items())
    cut_from = f", cut from {corpus.documents:,} documents" if manifest.chunking else ""
    if manifest.pages:
        cut_from = f" of {corpus.documents:,} pages in parts of {manifest.pages.words:,} words"
    per_million = f"{manifest.hours_per_million:.3g} h"
    if manifest.cost_per_million is not None:
        per_million += f", {manifest.cost_per_million:.4g} to pay"
    if manifest.stats:
        settings += "; " if settings else ""
        settings += ", ".join(f"{name}: {value}" for name, value in manifest.stats.items())
    rows = [
        ("index", f"{manifest.documents:,} passages{cut_from}, {corpus.tokens:,} tokens, in {folder}"),
        ("back end", f"{manifest.backend} ({settings})" if settings else manifest.backend),
        ("encoder", f"{manifest.encoder}, {manifest.dimension} dimensions" if manifest.encoder else "none"),
        ("model", f"{manifest.model}: {figures.calls:,} calls" if manifest.model else "none"),
        ("size", f"{manifest.bytes / 1e6:,.3g} MB"),
        ("build", f"{figures.seconds:,.1f} s, {figures.peak_memory_bytes / 1e6:,.0f} MB of memory at most"),
        ("per million tokens", per_million),
    ]
    if figures.calls:
        tokens = f"{figures.prompt_tokens:,} of prompts, {figures.completion_tokens:,} of completions"
        rows.insert(4, ("model's tokens", tokens))
    return rows


def plan_addition(folder: Path, documents: Iterable[Document]) -> tuple[Backend, Any, IndexManifest]:
    """Return the back end, its configuration and the manifest with which documents can be added to the index in a
    folder. Raises what `read_manifest` raises, and `InvalidInput` for a back end that takes no additions; `documents`
    are read only to say what building anew would cost.
    """
    manifest = read_manifest(folder)
    declared = load_backend(manifest.backend)
    config = read_numbers(folder, manifest)
    if declared.add is None:
        raise InvalidInput(_say_rebuild(declared, config, folder, documents))
    return declared, config, manifest


def _say_rebuild(declared: Backend, config: Any, folder: Path, more: Iterable[Document]) -> str:
    """What it takes to have more documents in an index that takes none."""
    problem = f"{declared.name} takes no documents later: build the index again from all of them"
    if "build" not in declared.asks_model(config):
        return problem
    planned = declared.estimate([*MappedDocuments.open(folder / TEXTS), *more], config)
    calls, prompts, replies = (
        sum(getattr(each, name) for each in planned) for name in ("calls", "prompt_tokens", "completion_tokens")
    )
    return (
        f"{problem}, which asks about {calls:,} calls, {prompts:,} tokens of prompts and {replies:,} of replies; what "
        f"{folder.name}.ledger.sqlite holds is not paid again, where the new index has the name of this one"
    )
