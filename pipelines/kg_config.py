"""The configurations of runs over a knowledge graph: KG trajectories, and questions made of the graph."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal, TypeVar

from trailforge.filters.kg import SelectionConfig
from trailforge.filters.kg_questions import KgFilterConfig
from trailforge.generators.kg_paths import KgPathConfig
from trailforge.generators.kg_questions import KgWriterConfig
from trailforge.generators.kg_trajectories import KgGeneratorConfig
from trailforge.pipelines.config import OutputConfig, RunConfig
from trailforge.pipelines.files import sha256_of
from trailforge.retrieval import RetrievalConfig
from trailforge.retrieval.kg import KgStore
from trailforge.retrieval.kg.layout import MANIFEST as STORE_MANIFEST
from trailforge.schemas import ContrastivePair, FactChain, InvalidInput, KgQuestion, KgTrajectory, SftRow

G = TypeVar("G", bound="GraphRunConfig")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRunConfig(RunConfig):
    """What all runs over a knowledge graph have."""

    output: OutputConfig = field(default_factory=OutputConfig)
    kg: str = ""
    """Folder of the store (`trailforge kg build`)."""
    kg_hash: str = ""
    """SHA-256 of its manifest, which has the hashes of all its files: where it is does not decide the rows."""

    def deciding(self) -> dict[str, Any]:
        """What decides the rows; of the graph its content and not its place."""
        content = RunConfig.deciding(self)
        del content["kg"]
        return content

    def on_graph(self: G, kg: Path | None) -> G:
        """With this graph instead of the preset's, every byte of it checked: workers open it without.

        Raises `InvalidInput` when there is none, and as `KgStore.open` and `KgStore.check_once`.
        """
        folder = str(kg) if kg is not None else self.kg
        if not folder:
            raise InvalidInput("which knowledge graph? give --kg, a folder that `trailforge kg build` made", field="kg")
        KgStore.open(Path(folder)).check_once()
        digest = sha256_of(Path(folder) / STORE_MANIFEST)
        return replace(self, kg=str(Path(folder).absolute()), kg_hash=digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class KgRunConfig(GraphRunConfig):
    """Questions and a knowledge graph to annotated search episodes."""

    generator: KgGeneratorConfig = field(default_factory=KgGeneratorConfig)
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)

    @property
    def prompt_version(self) -> str:
        """Hash of the prompts in use."""
        return self.generator.prompts.version

    @property
    def records(self) -> tuple[type, ...]:
        """Records whose schema decides the rows."""
        return (KgTrajectory, ContrastivePair, SftRow)

    @property
    def longest_reply(self) -> int:
        """The most tokens that a call may ask for."""
        generator = self.generator
        return max(generator.episode.max_tokens, generator.filter_max_tokens, generator.reading.max_tokens)

    @property
    def encoder_name(self) -> str | None:
        """Of the sentence encoder; None when none is wanted."""
        return self.retrieval.encoder if self.retrieval.kind == "dense" else None

    @property
    def call_style(self) -> Literal["chat", "completion"]:
        """How the model is asked."""
        return self.generator.episode.style

    def over(self, documents: Path | None) -> KgRunConfig:
        """With this corpus instead of the questions' own paragraphs."""
        if documents is None:
            return self
        return replace(self, retrieval=replace(self.retrieval, scope="corpus", corpus_index=str(documents)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KgQuestionRunConfig(GraphRunConfig):
    """A knowledge graph to questions."""

    count: int = 1000
    """Paths to sample. Fewer questions come through the filters."""
    as_of: str = ""
    """ISO date (or year, or month) of the graph: what is asked was true then. Empty: not known."""
    paths: KgPathConfig = field(default_factory=KgPathConfig)
    writer: KgWriterConfig = field(default_factory=KgWriterConfig)
    filters: KgFilterConfig = field(default_factory=KgFilterConfig)

    def __post_init__(self) -> None:
        """Raises `InvalidInput`."""
        RunConfig.__post_init__(self)
        if self.count < 1:
            raise InvalidInput("has to be 1 or more", field="count")
        if self.as_of and not _is_date(self.as_of):
            raise InvalidInput(f"{self.as_of!r} is no date as 2019-07-01, 2019-07 or 2019", field="as_of")

    @property
    def prompt_version(self) -> str:
        """Hash of the prompts in use."""
        return self.writer.prompt_version

    @property
    def records(self) -> tuple[type, ...]:
        """Records whose schema decides the rows."""
        return (FactChain, KgQuestion)

    @property
    def longest_reply(self) -> int:
        """The most tokens that a call may ask for."""
        return max(self.writer.write_max_tokens, self.writer.closed_book_max_tokens)

    @property
    def encoder_name(self) -> str | None:
        """None: nothing is embedded."""
        return None

    @property
    def call_style(self) -> Literal["chat", "completion"]:
        """How the model is asked."""
        return self.writer.style


def _is_date(text: str) -> bool:
    """Is it an ISO date, whole or as far as the month or the year?"""
    try:
        date.fromisoformat(text + "-01-01"[3 * text.count("-") :])
    except ValueError:
        return False
    return True
