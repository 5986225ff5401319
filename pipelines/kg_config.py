"""The configuration of a run of KG trajectories."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from filters.kg import SelectionConfig
from generators.kg_trajectories import KgGeneratorConfig
from pipelines.config import OutputConfig, RunConfig
from pipelines.files import sha256_of
from retrieval import RetrievalConfig
from retrieval.kg import KgStore
from schemas import ContrastivePair, InvalidInput, KgTrajectory, SftRow


@dataclass(frozen=True, slots=True, kw_only=True)
class KgRunConfig(RunConfig):
    """Questions and a knowledge graph to annotated search episodes."""

    generator: KgGeneratorConfig = field(default_factory=KgGeneratorConfig)
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
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

    def over(self, kg: Path | None, documents: Path | None) -> KgRunConfig:
        """With this graph, and this corpus instead of the questions' own paragraphs.

        Raises `InvalidInput` when there is no graph, as `KgStore.open`.
        """
        folder = str(kg) if kg is not None else self.kg
        if not folder:
            raise InvalidInput("which knowledge graph? give --kg, a folder that `trailforge kg build` made", field="kg")
        KgStore.open(Path(folder))
        retrieval = self.retrieval
        if documents is not None:
            retrieval = replace(retrieval, scope="corpus", corpus_index=str(documents))
        digest = sha256_of(Path(folder) / "manifest.json")
        return replace(self, kg=str(Path(folder).absolute()), kg_hash=digest, retrieval=retrieval)
