"""A small finished run of the scripted world, made without a server: what the tests of the run's folder hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from tests.support import world
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import GeneratorConfig
from trailforge.generators.mcts_trajectories.work import LIFE
from trailforge.generators.search_options import take_in as take_questions
from trailforge.inference import ModelClient, Request
from trailforge.mcts.inputs import SearchConfig
from trailforge.mcts.rollout import RolloutConfig
from trailforge.pipelines.dataset import DataSet, StageRun, resolve
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.engine.model_stage import ModelStage, ModelWork
from trailforge.pipelines.engine.pipeline import run_pipeline
from trailforge.pipelines.engine.shards import Shard
from trailforge.pipelines.runs.config import ModelConfig, OutputConfig
from trailforge.pipelines.runs.finish import MANIFEST, finish_run
from trailforge.pipelines.runs.intake import INPUTS, RunInputs, Settings, write_settings
from trailforge.pipelines.runs.stages import planned_stages
from trailforge.pipelines.sources.refused import NONE, Refusals
from trailforge.retrieval import RetrievalConfig
from trailforge.schemas import Manifest, Question, read_parquet, write_parquet

IN_PROCESS = ("--runner=FnApiRunner",)
CONFIG = MctsRunConfig(
    model=ModelConfig(name="scripted", prompt_price_per_million=1.0, completion_price_per_million=2.0),
    generator=GeneratorConfig(rollout=RolloutConfig(top_k=2), search=SearchConfig(errors="provoked", agreeing_draws=4)),
    retrieval=RetrievalConfig(kind="bm25"),
    output=OutputConfig(shard_size=8),
)
QUESTIONS = 21
"""Of which one is no JSON: few enough to go on."""


@dataclass(frozen=True, kw_only=True)
class ScriptedWork(ModelWork):
    """The work of the pipeline, with a model that errs now and then in place of a server."""

    stage: ModelStage = field(default_factory=lambda: LIFE.model_stage(MCTS))

    async def client(self, link: object = None) -> ModelClient:
        """In place of `ModelWork.client`."""
        model: Any = ScriptedModel(reply)
        return model


def take_in(
    source: Path, folder: Path, config: MctsRunConfig, limit: int | None = None, refused: Refusals = NONE
) -> Settings:
    """The questions of a file."""
    return take_questions(
        RunInputs(dataset="mcts_trajectories", files=(source,), limit=limit, refused=refused), folder, config
    )


def run_stage(dataset: DataSet, name: str, folder: Path, settings: Settings, config: Any) -> None:
    """Run what of a stage is missing; the stages before it are finished."""
    planned = next(each for each in planned_stages(dataset, folder, settings) if each.name == name)
    run = StageRun(
        folder=folder,
        settings=settings,
        config=config,
        preset="test",
        shards=planned.shards or (),
        before=planned.before,
        arguments=IN_PROCESS,
    )
    resolve(planned.stage.run)(run)


def stage_run(folder: Path, config: Any, shards: Sequence[Shard], before: Sequence[Shard] = ()) -> StageRun:
    """What a stage is called with that needs no settings of its run."""
    return StageRun(
        folder=folder,
        settings=cast(Settings, None),
        config=config,
        preset="test",
        shards=tuple(shards),
        before=tuple(before),
        arguments=IN_PROCESS,
    )


def questions_file(path: Path, *, count: int = QUESTIONS, broken_row: int | None = 5) -> Path:
    """Questions of the world; the row `broken_row` (1-based) is cut short."""
    world.write_questions(path, count)
    if broken_row is not None:
        lines = path.read_text().splitlines()
        lines[broken_row - 1] = lines[broken_row - 1][:40]
        path.write_text("\n".join(lines) + "\n")
    return path


def make_run(
    folder: Path, source: Path, config: MctsRunConfig = CONFIG, refusals: Refusals = NONE
) -> tuple[Settings, Manifest]:
    """Take in, run all shards, finish."""
    settings = take_in(source, folder, config, None, refusals)
    write_settings(folder, settings)
    scripted = ScriptedWork(folder=str(folder), run_id=settings.run_id, config=config)
    run_pipeline(scripted, folder, settings.shards, IN_PROCESS)
    return settings, finish_run(folder, settings, MCTS, seconds=1.0)


def edit_manifest(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change `manifest.json` in place."""
    path = folder / MANIFEST
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def forge(
    folder: Path, table: str, edit: Callable[[list[Any]], list[Any]], *, record: type | None = None, number: int = 0
) -> Path:
    """Change the rows of a table's first file, and the manifest so that hash and number of rows fit again.

    `record`: of the rows, where the table is none of MCTS trajectories. `number`: of another file.
    """
    path, record = (
        sorted((folder / table).glob("part-0*.parquet"))[number],
        record or {**MCTS.records, INPUTS: Question}[table],
    )
    rows = edit(read_parquet(path, record))
    write_parquet(path, record, rows)
    name = path.relative_to(folder).as_posix()

    def refit(content: dict[str, Any]) -> None:
        entry = next(e for e in content["files"] if e["path"] == name)
        entry.update(rows=len(rows), sha256=sha256_of(path))

    edit_manifest(folder, refit)
    return path


@dataclass(frozen=True)
class FinishedRun:
    """A run, the file it was made of, and its books."""

    folder: Path
    source: Path
    settings: Settings
    manifest: Manifest


UNSOLVED = world.question(8, hops=2)
"""A question of `questions_file` that the model never answers rightly."""


def _stumped(asked: str, context: list[str]) -> str | None:
    """A passage on somebody else, whenever the answer would be that of `UNSOLVED`."""
    chain = world.chain_of(asked)
    return world.misread(context, asked, UNSOLVED.answer, 0) if world.answer_of(chain) == UNSOLVED.answer else None


def reply(request: Request) -> str:
    """What the model of the world replies, which errs now and then."""
    return world.Model(error_rate=0.3, flaw=_stumped)(prompt_text(request), request.sampling_seed)


def config_with(**sections: Any) -> MctsRunConfig:
    """`CONFIG` with other sections."""
    return replace(CONFIG, **sections)
