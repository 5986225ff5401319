"""The flow of bundles: take documents in, then stage by stage. Running it again goes on where it stopped."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

from prefect import flow, task

from flows.configuration import configuration_of
from flows.progress import shown
from flows.runs import EMBEDDED, is_mendable, model_server, prepare, publish, with_redo
from flows.stopping import at_once
from inference import Caps
from pipelines.bundles_config import BundleRunConfig
from pipelines.document_bundles import BEFORE_MODEL, BUNDLES, DATASET, WITH_MODEL, run, stages_of, take_in
from pipelines.files import exclusive, remove_temporary_files
from pipelines.finish import finish_run, read_manifest
from pipelines.intake import Settings
from pipelines.mcts_trajectories import check_servers
from pipelines.progress import begin_progress
from pipelines.runners import LOCAL, beam_options, check_runner
from pipelines.shards import missing_shards, receipt_path
from schemas import Manifest, SourceKind


@flow(name="document-bundles")
def document_bundles(
    documents: list[Path],
    out: Path,
    preset: str = "r-search",
    model: str | None = None,
    model_name: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    caps: Caps | None = None,
    column_map: dict[str, str] | None = None,
    source: str | None = None,
    kind: SourceKind | None = None,
    benchmarks: list[Path] | None = None,
    bundles_only: bool = False,
    replace_run: bool = False,
    redo_truncated: bool = False,
    runner: str = LOCAL,
    runner_options: tuple[str, ...] = (),
) -> Manifest:
    """Make bundles of the documents in files, and questions of the bundles.

    `column_map`, `source`, `kind`: what the files do not say themselves. `benchmarks`: files of questions that must
    not come out. `bundles_only`: no questions, and so no model. The others are those of `mcts_trajectories`.
    """
    started = time.monotonic()
    arguments = beam_options(runner, runner_options)
    config = configuration_of(BundleRunConfig, DATASET, preset, model, model_name, seed, caps)
    config = config.against(benchmarks or [])
    config = replace(config, questions=config.questions and not bundles_only)
    with exclusive(out):
        remove_temporary_files(out)
        config = with_redo(out, config, redo_truncated)
        settings = prepare(
            out,
            config,
            lambda: take_in(documents, out, config, limit, column_map=column_map, source=source, kind=kind),
            replace_run,
        )
        finished = read_manifest(out)
        if finished is not None and finished.run_id == settings.run_id:
            return finished
        check_runner(arguments)
        with at_once():
            _run_stages(out, settings, config, preset, arguments)
        manifest = finish_run(out, settings, BUNDLES, seconds=time.monotonic() - started)
    publish(manifest)
    return manifest


def _run_stages(
    out: Path, settings: Settings, config: BundleRunConfig, preset: str, arguments: tuple[str, ...]
) -> None:
    """All stages in order; a model server of our own only from the first that needs one."""
    if config.questions and config.model.url != EMBEDDED:
        asyncio.run(check_servers(config))  # before the work that would be waited for in vain
    for name in BEFORE_MODEL:
        run_stage(out, settings, config, preset, name, arguments)
    if not config.questions:
        return
    with model_server(config) as served:
        asyncio.run(check_servers(served))
        for name in WITH_MODEL:
            run_stage(out, settings, served, preset, name, arguments)


@task(name="run-stage", task_run_name="{name}", retries=2, retry_delay_seconds=10, retry_condition_fn=is_mendable)
def run_stage(
    out: Path, settings: Settings, config: BundleRunConfig, preset: str, name: str, arguments: tuple[str, ...]
) -> None:
    """Run what of a stage is missing."""
    stages = stages_of(out, settings)
    begin_progress(out, (s.name for stage in stages for s in stage.shards or () if receipt_path(out, s).exists()))
    stage = next(stage for stage in stages if stage.name == name)
    shards = stage.shards or ()
    if not missing_shards(out, shards):
        return

    def done() -> int:
        return sum(shard.rows for shard in shards if receipt_path(out, shard).exists())

    total, counted = sum(shard.rows for shard in shards), stage.name in WITH_MODEL and stage.name != "select"
    unit = f"{stage.name}: {stage.unit}"
    with shown(out, unit, total=total, done_before=done(), done=None if counted else done):
        run(name, out, settings, config, preset, arguments)
