"""The flow of bundles: take documents in, then stage by stage. Running it again goes on where it stopped."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from prefect import flow, task

from trailforge.curation.verdicts import refusals
from trailforge.flows.configuration import configuration_of
from trailforge.flows.runs import EMBEDDED, carried_out, is_mendable, ready_server, run_shown
from trailforge.flows.stopping import at_once
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.stages.selection import NAME as SELECT
from trailforge.generators.document_bundles.work import (
    BEFORE_MODEL,
    BUNDLES,
    DATASET,
    WITH_MODEL,
    run,
    stages_of,
    take_in,
)
from trailforge.inference import Caps
from trailforge.pipelines.engine.model_work import check_servers
from trailforge.pipelines.engine.runners import LOCAL, beam_options, check_runner
from trailforge.pipelines.runs.intake import Settings
from trailforge.schemas import Manifest, SourceKind


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
    verdicts: list[Path] | None = None,
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
    arguments, refused = beam_options(runner, runner_options), refusals(verdicts or [])
    config = configuration_of(BundleRunConfig, DATASET, preset, model, model_name, seed, caps)
    config = config.against(benchmarks or [])
    return carried_out(
        out,
        replace(config, questions=config.questions and not bundles_only),
        BUNDLES,
        lambda config: take_in(
            documents, out, config, limit, column_map=column_map, source=source, kind=kind, refused=refused
        ),
        lambda settings, config: _run_stages(out, settings, config, preset, arguments),
        replace_run=replace_run,
        redo_truncated=redo_truncated,
    )


def _run_stages(
    out: Path, settings: Settings, config: BundleRunConfig, preset: str, arguments: tuple[str, ...]
) -> None:
    """All stages in order; a model server of our own only from the first that needs one."""
    check_runner(arguments)
    if config.questions and config.model.url != EMBEDDED:
        asyncio.run(check_servers(config))  # before the work that would be waited for in vain
    with at_once():
        for name in BEFORE_MODEL:
            run_stage(out, settings, config, preset, name, arguments)
    if not config.questions:
        return
    with ready_server(config, arguments) as served:
        for name in WITH_MODEL:
            run_stage(out, settings, served, preset, name, arguments)


@task(name="run-stage", task_run_name="{name}", retries=2, retry_delay_seconds=10, retry_condition_fn=is_mendable)
def run_stage(
    out: Path, settings: Settings, config: BundleRunConfig, preset: str, name: str, arguments: tuple[str, ...]
) -> None:
    """Run what of a stage is missing."""
    stages = stages_of(out, settings)
    is_counted = name in WITH_MODEL and name != SELECT
    run_shown(out, stages, name, lambda: run(name, out, settings, config, preset, arguments), is_counted=is_counted)
