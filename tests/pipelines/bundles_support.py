"""A small finished run of bundles, made with the scripted model of `tests.support.bundle_world` and no server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.pipelines.support import run_stage
from tests.support import bundle_world
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.generators.document_bundles import DATASET as BUNDLES
from trailforge.generators.document_bundles.bundling.config import BundleConfig
from trailforge.generators.document_bundles.bundling.content import ContentConfig
from trailforge.generators.document_bundles.config import BundleOutputConfig, BundleRunConfig
from trailforge.generators.document_bundles.planned_episodes import PlannedEpisodeConfig
from trailforge.generators.document_bundles.work import take_in
from trailforge.generators.document_bundles.write import BundleWriterConfig
from trailforge.inference import ModelClient, Request
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.runs.config import ModelConfig
from trailforge.pipelines.runs.finish import finish_run
from trailforge.pipelines.runs.intake import RunInputs, Settings, run_configuration, write_settings
from trailforge.pipelines.runs.stages import planned_stages
from trailforge.retrieval import RetrieverConfig
from trailforge.schemas import Manifest

CONFIG = BundleRunConfig(
    model=ModelConfig(name="scripted", prompt_price_per_million=1.0, completion_price_per_million=2.0),
    content=ContentConfig(min_words=20, min_characters=100),
    bundles=BundleConfig(method="greedy", min_cosine=0.25),
    writer=BundleWriterConfig(longest_document=2000, questions_per_bundle=16),
    episodes=PlannedEpisodeConfig(plan="gold"),
    tools=RetrieverConfig(kind="bm25"),
    output=BundleOutputConfig(documents_per_shard=12, bundles_per_shard=3, questions_per_shard=8),
)
STAGES = tuple(stage.name for stage in BUNDLES.stages)


@dataclass(frozen=True)
class FinishedBundles:
    """A run, the files it was made of, and its books."""

    folder: Path
    source: Path
    benchmark: Path
    settings: Settings
    manifest: Manifest

    @property
    def config(self) -> BundleRunConfig:
        """With the benchmark."""
        return CONFIG.against([self.benchmark])


async def scripted_client(work: ModelWork) -> ModelClient:
    """In place of `ModelWork.client`."""
    model: Any = ScriptedModel(reply)
    return model


def reply(request: Request) -> str:
    """The world's."""
    return bundle_world.Model()(prompt_text(request), request.sampling_seed)


def documents_file(path: Path) -> Path:
    """The planted documents, and a row that is cut short."""
    bundle_world.write_documents(path, bundle_world.planted_documents())
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], lines[3][:40], *lines[3:]]) + "\n")
    return path


def begin_run(folder: Path, source: Path, config: BundleRunConfig) -> Settings:
    """Take the documents in."""
    settings = take_in(RunInputs(dataset="document_bundles", files=(source,)), folder, config)
    write_settings(folder, settings)
    return settings


def run_until(folder: Path, settings: Settings, last: str = STAGES[-1]) -> None:
    """Run the stages, up to one of them. `ModelWork.client` has to be `scripted_client`."""
    config: BundleRunConfig = run_configuration(BUNDLES, settings)
    for name in STAGES[: STAGES.index(last) + 1]:
        if name in {stage.name for stage in planned_stages(BUNDLES, folder, settings)}:
            run_stage(BUNDLES, name, folder, settings, config)


def make_bundles(folder: Path, source: Path, config: BundleRunConfig) -> tuple[Settings, Manifest]:
    """Take in, run all stages, finish."""
    settings = begin_run(folder, source, config)
    run_until(folder, settings)
    return settings, finish_run(folder, settings, BUNDLES, seconds=1.0)


def config_with(**sections: Any) -> BundleRunConfig:
    """`CONFIG` with other sections."""
    return replace(CONFIG, **sections)
