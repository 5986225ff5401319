"""The flow of KG trajectories: take in, run shards, finish. Running it again goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

from prefect import flow, task

from trailforge.curation.verdicts import refusals
from trailforge.flows.configuration import configuration_of
from trailforge.flows.runs import carried_out, is_mendable, ready_server, run_shown
from trailforge.generators.kg_trajectories import DATASET
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.generators.kg_trajectories.work import take_in
from trailforge.inference import Caps
from trailforge.pipelines.engine.runners import LOCAL, beam_options
from trailforge.pipelines.runs.intake import Settings
from trailforge.pipelines.runs.stages import planned_stages, run_stage
from trailforge.retrieval import check_retrieval
from trailforge.schemas import Manifest


@flow(name="kg-trajectories")
def kg_trajectories(
    questions: Path,
    out: Path,
    kg: Path | None = None,
    documents: Path | None = None,
    preset: str = "dynasearcher",
    model: str | None = None,
    model_name: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    caps: Caps | None = None,
    verdicts: list[Path] | None = None,
    replace_run: bool = False,
    redo_truncated: bool = False,
    runner: str = LOCAL,
    runner_options: tuple[str, ...] = (),
) -> Manifest:
    """Make search episodes over documents and a knowledge graph for the questions in a file.

    `kg`: folder of a store; None keeps the preset's. `documents`: an index or file to search instead of the questions'
    own paragraphs. The others are those of `mcts_trajectories`.
    """
    arguments, refused = beam_options(runner, runner_options), refusals(verdicts or [])
    config = (
        configuration_of(KgRunConfig, DATASET.name, preset, model, model_name, seed, caps).on_graph(kg).over(documents)
    )
    check_retrieval(config.retrieval)

    def work(settings: Settings, config: KgRunConfig) -> None:
        with ready_server(config, arguments) as served:
            run_shards(out, settings, served, preset, arguments)

    return carried_out(
        out,
        config,
        DATASET,
        lambda config: take_in(questions, out, config, limit, refused),
        work,
        replace_run=replace_run,
        redo_truncated=redo_truncated,
    )


@task(name="run-shards", retries=2, retry_delay_seconds=10, retry_condition_fn=is_mendable)
def run_shards(out: Path, settings: Settings, config: KgRunConfig, preset: str, arguments: tuple[str, ...]) -> None:
    """Run every shard without a receipt: a retry repeats only what is missing."""
    for stage in (stages := planned_stages(DATASET, out, settings)):
        run_shown(
            out,
            stages,
            stage.name,
            lambda name=stage.name: run_stage(DATASET, name, out, settings, config, preset, arguments),
            is_counted=True,
        )
