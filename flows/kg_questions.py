"""The flow of questions made of a knowledge graph: sample paths, write and measure, select, finish."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from prefect import flow, task
from rich.console import Console
from rich.progress import track

from flows.configuration import configuration_of
from flows.progress import shown
from flows.runs import is_mendable, model_server, prepare, publish, with_redo
from flows.stopping import at_once
from inference import Caps
from pipelines.files import exclusive, remove_temporary_files
from pipelines.finish import finish_run, read_manifest
from pipelines.intake import Settings, read_settings
from pipelines.kg_config import KgQuestionRunConfig
from pipelines.kg_questions import DATASET, KG_QUESTIONS, STAGES, WRITE, run, stages_of, take_in
from pipelines.mcts_trajectories import check_servers
from pipelines.progress import begin_progress
from pipelines.runners import LOCAL, beam_options, check_runner
from pipelines.shards import missing_shards, receipt_path
from schemas import FactChain, Manifest

_LOG = logging.getLogger(__name__)


@flow(name="kg-questions")
def kg_questions(
    out: Path,
    kg: Path | None = None,
    preset: str = "kg-questions",
    model: str | None = None,
    model_name: str | None = None,
    count: int | None = None,
    as_of: str | None = None,
    seed: int = 0,
    caps: Caps | None = None,
    replace_run: bool = False,
    redo_truncated: bool = False,
    runner: str = LOCAL,
    runner_options: tuple[str, ...] = (),
) -> Manifest:
    """Make questions of the facts of a knowledge graph.

    `kg`: folder of a store; None keeps the preset's. `count`: paths to sample. `as_of`: ISO date of the graph. The
    others are those of `mcts_trajectories`.
    """
    started = time.monotonic()
    arguments = beam_options(runner, runner_options)
    config = configuration_of(KgQuestionRunConfig, DATASET, preset, model, model_name, seed, caps).on_graph(kg)
    given = {name: value for name, value in (("count", count), ("as_of", as_of)) if value is not None}
    config = replace(config, **given)
    with exclusive(out):
        remove_temporary_files(out)
        config = with_redo(out, config, redo_truncated)
        settings = prepare(out, config, lambda: _sampled(out, config), replace_run)
        finished = read_manifest(out)
        if finished is not None and finished.run_id == settings.run_id:
            return finished
        with model_server(config) as served:
            check_runner(arguments)
            asyncio.run(check_servers(served))
            with at_once():
                for name in STAGES:
                    run_stage(out, settings, served, preset, name, arguments)
        manifest = finish_run(out, settings, KG_QUESTIONS, seconds=time.monotonic() - started)
    publish(manifest)
    return manifest


@task(name="run-stage", task_run_name="{name}", retries=2, retry_delay_seconds=10, retry_condition_fn=is_mendable)
def run_stage(
    out: Path, settings: Settings, config: KgQuestionRunConfig, preset: str, name: str, arguments: tuple[str, ...]
) -> None:
    """Run what of a stage is missing."""
    stages = stages_of(out, settings)
    finished = [shard for stage in stages for shard in stage.shards or () if receipt_path(out, shard).exists()]
    begin_progress(out, (shard.name for shard in finished))
    shards = next(stage.shards for stage in stages if stage.name == name) or ()
    if not missing_shards(out, shards):
        return

    def done() -> int:
        return sum(shard.rows for shard in shards if receipt_path(out, shard).exists())

    total = sum(shard.rows for shard in shards)
    with shown(out, f"{name}: questions", total=total, done_before=done(), done=None if name == WRITE else done):
        run(name, out, settings, config, preset, arguments)


def _sampled(out: Path, config: KgQuestionRunConfig) -> Settings:
    """The run's paths: sampled, unless the folder has those of the same configuration, which decides all of them."""
    earlier = read_settings(out)
    if earlier is not None and (earlier.dataset, earlier.config_hash) == (DATASET, config.hash):
        return earlier
    settings, rejected = take_in(out, config, lambda paths: _counted(paths, config.count))
    if settings.items < config.count:
        _LOG.warning(
            "the graph gave %d of %d paths; attempts that gave none: %s", settings.items, config.count, _told(rejected)
        )
    return settings


def _counted(paths: Iterable[FactChain], total: int) -> Iterable[FactChain]:
    console = Console(stderr=True)
    return track(paths, "sample: paths", total=total, console=console, disable=not console.is_terminal)


def _told(rejected: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {number}" for reason, number in sorted(rejected.items())) or "none"
