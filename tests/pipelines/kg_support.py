"""Small finished runs over a knowledge graph, made with the scripted model of `tests.support.kg_agent`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.pipelines.support import IN_PROCESS, run_stage
from tests.support import kg_agent, world
from tests.support.kg_worlds import LAX
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.filters.kg.questions import KgQuestionFilterConfig
from trailforge.generators.kg_questions import DATASET as KG_QUESTIONS
from trailforge.generators.kg_questions import work as questions_work
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_questions.generate import KgWriterConfig
from trailforge.generators.kg_trajectories import DATASET as KG
from trailforge.generators.kg_trajectories.config import KgGeneratorConfig, KgPromptNames, KgRunConfig, ReadingConfig
from trailforge.generators.kg_trajectories.work import LIFE
from trailforge.generators.search_options import take_in
from trailforge.inference import ModelClient, Request
from trailforge.pipelines.dataset import DataSet
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.engine.pipeline import run_pipeline
from trailforge.pipelines.engine.shards import Shard
from trailforge.pipelines.runs.config import ModelConfig, OutputConfig
from trailforge.pipelines.runs.finish import finish_run
from trailforge.pipelines.runs.intake import RunInputs, Settings, run_configuration, write_settings
from trailforge.protocols.episodes import EpisodeConfig
from trailforge.retrieval import RetrievalConfig
from trailforge.schemas import Manifest, read_rows, to_dict

MODEL = ModelConfig(name="scripted", prompt_price_per_million=1.0, completion_price_per_million=2.0)
FREE = KgRunConfig(
    model=MODEL,
    generator=KgGeneratorConfig(episodes=4, top_k=2),
    retrieval=RetrievalConfig(kind="bm25"),
    output=OutputConfig(shard_size=10),
    seed=9,
)
"""Its seed plants a question all of whose draws are lost, and conflicts in selected episodes."""
GUIDED = replace(
    FREE,
    generator=KgGeneratorConfig(
        style="guided",
        episodes=4,
        top_k=2,
        kg_filter="asked",
        episode=EpisodeConfig(style="completion"),
        reading=ReadingConfig(reader="sentences", max_tokens=16, stop=("\n",)),
        prompts=KgPromptNames(answer="embedded_answer", read_fact="embedded_answer"),
    ),
)
WRITTEN = KgQuestionRunConfig(
    model=MODEL, count=60, as_of="2021-05", paths=LAX, output=OutputConfig(shard_size=10),
    filters=KgQuestionFilterConfig(check=True),
)  # fmt: skip
BY_RULE = replace(WRITTEN, writer=KgWriterConfig(kind="templates"))
QUESTIONS = 21
"""Of which one is no JSON: few enough to go on."""


@dataclass(frozen=True)
class FinishedKg:
    """A run, what it was made of, and its books."""

    folder: Path
    graph: Path
    settings: Settings
    manifest: Manifest
    dataset: DataSet

    def rows(self, table: str) -> list[Any]:
        """All rows of a table, in the order of their files."""
        return list(read_rows(sorted((self.folder / table).glob("*.parquet")), self.dataset.records[table]))


async def scripted_client(work: ModelWork) -> ModelClient:
    """In place of `ModelWork.client`."""
    model: Any = ScriptedModel(reply)
    return model


def reply(request: Request) -> str:
    """The agent's."""
    return kg_agent.Model()(prompt_text(request), request.sampling_seed)


def questions_file(path: Path, *, count: int = QUESTIONS, broken_row: int | None = 5) -> Path:
    """Questions of the world with decomposition and paragraphs; the row `broken_row` (1-based) is cut short."""
    lines = [json.dumps(to_dict(world.question(n, 2 + n % 2))) for n in range(count)]
    if broken_row is not None:
        lines[broken_row - 1] = lines[broken_row - 1][:40]
    path.write_text("\n".join(lines) + "\n")
    return path


def searched_graph(folder: Path, count: int = QUESTIONS) -> Path:
    """The graph of these questions."""
    return kg_agent.searched_store(folder, [world.question(n, 2 + n % 2) for n in range(count)], stale_every=4).folder


def begin_trajectories(folder: Path, source: Path, config: KgRunConfig) -> Settings:
    """Take the questions in."""
    settings = take_in(RunInputs(dataset="kg_trajectories", files=(source,)), folder, config)
    write_settings(folder, settings)
    return settings


def search_shards(folder: Path, settings: Settings, shards: Sequence[Shard]) -> None:
    """Run some shards. `ModelWork.client` has to be `scripted_client`."""
    config: KgRunConfig = run_configuration(KG, settings)
    work = ModelWork(stage=LIFE.model_stage(KG), folder=str(folder), run_id=settings.run_id, config=config)
    run_pipeline(work, folder, shards, IN_PROCESS)


def make_trajectories(folder: Path, source: Path, config: KgRunConfig) -> tuple[Settings, Manifest]:
    """Take in, run all shards, finish."""
    settings = begin_trajectories(folder, source, config)
    search_shards(folder, settings, settings.shards)
    return settings, finish_run(folder, settings, KG, seconds=1.0)


def begin_questions(folder: Path, config: KgQuestionRunConfig) -> Settings:
    """Sample the paths."""
    settings = questions_work.take_in(RunInputs(dataset="kg_questions"), folder, config)
    write_settings(folder, settings)
    return settings


def run_stages(folder: Path, settings: Settings) -> None:
    """Write, then select. `ModelWork.client` has to be `scripted_client`."""
    for stage in KG_QUESTIONS.stages:
        run_stage(KG_QUESTIONS, stage.name, folder, settings, run_configuration(KG_QUESTIONS, settings))


def make_questions(folder: Path, config: KgQuestionRunConfig) -> tuple[Settings, Manifest]:
    """Sample, run both stages, finish."""
    settings = begin_questions(folder, config)
    run_stages(folder, settings)
    return settings, finish_run(folder, settings, KG_QUESTIONS, seconds=1.0)
