"""The flow of KG trajectories: take in, run shards, finish. Running it again goes on where it stopped."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from prefect import flow, task

from flows.configuration import configuration_of
from flows.progress import shown
from flows.runs import is_mendable, model_server, prepare, publish, with_redo
from flows.stopping import at_once
from inference import Caps
from pipelines.files import exclusive, remove_temporary_files
from pipelines.finish import finish_run, read_manifest
from pipelines.intake import Settings
from pipelines.kg_config import KgRunConfig
from pipelines.kg_trajectories import DATASET, KG, KgWork, take_in
from pipelines.mcts_trajectories import check_servers
from pipelines.progress import begin_progress
from pipelines.runners import LOCAL, beam_options, check_runner
from pipelines.shards import receipt_path, run_pipeline
from schemas import Manifest


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
    replace_run: bool = False,
    redo_truncated: bool = False,
    runner: str = LOCAL,
    runner_options: tuple[str, ...] = (),
) -> Manifest:
    """Make search episodes over documents and a knowledge graph for the questions in a file.

    `kg`: folder of a store; None keeps the preset's. `documents`: an index or file to search instead of the questions'
    own paragraphs. The others are those of `mcts_trajectories`.
    """
    started = time.monotonic()
    arguments = beam_options(runner, runner_options)
    config = configuration_of(KgRunConfig, DATASET, preset, model, model_name, seed, caps).on_graph(kg).over(documents)
    with exclusive(out):
        remove_temporary_files(out)
        config = with_redo(out, config, redo_truncated)
        settings = prepare(out, config, lambda: take_in(questions, out, config, limit), replace_run)
        finished = read_manifest(out)
        if finished is not None and finished.run_id == settings.run_id:
            return finished
        with model_server(config) as served:
            check_runner(arguments)
            asyncio.run(check_servers(served))
            with at_once():
                run_shards(out, settings, served, preset, arguments)
        manifest = finish_run(out, settings, KG, seconds=time.monotonic() - started)
    publish(manifest)
    return manifest


@task(name="run-shards", retries=2, retry_delay_seconds=10, retry_condition_fn=is_mendable)
def run_shards(out: Path, settings: Settings, config: KgRunConfig, preset: str, arguments: tuple[str, ...]) -> None:
    """Run every shard without a receipt: a retry repeats only what is missing."""
    finished = [shard for shard in settings.shards if receipt_path(out, shard).exists()]
    begin_progress(out, (shard.name for shard in finished))
    work = KgWork(folder=str(out.absolute()), run_id=settings.run_id, config=config, preset=preset)
    with shown(out, "questions", total=settings.items, done_before=sum(shard.rows for shard in finished)):
        run_pipeline(work, out, settings.shards, arguments, config.schedule.patience)
