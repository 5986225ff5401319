"""What runs over a knowledge graph have in their configuration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.runs.config import OutputConfig, RunConfig
from trailforge.retrieval.kg import KgStore
from trailforge.retrieval.kg.layout import MANIFEST as STORE_MANIFEST
from trailforge.schemas import InvalidInput

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
