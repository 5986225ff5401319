"""The flow of questions made of a knowledge graph: sample paths, write and measure, select, finish."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from prefect import flow, task
from rich.console import Console
from rich.progress import track

from trailforge.curation.verdicts import refusals
from trailforge.flows.configuration import configuration_of
from trailforge.flows.runs import carried_out, is_mendable, ready_server, run_shown
from trailforge.generators.kg_questions import DATASET
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_questions.work import take_in
from trailforge.inference import Caps
from trailforge.pipelines.engine.files import what_is_wrong
from trailforge.pipelines.engine.runners import LOCAL, beam_options
from trailforge.pipelines.runs import stages as runs
from trailforge.pipelines.runs.intake import Settings, read_settings
from trailforge.pipelines.runs.stages import planned_stages
from trailforge.pipelines.sources.refused import Refusals
from trailforge.schemas import FactChain, Manifest

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
    verdicts: list[Path] | None = None,
    replace_run: bool = False,
    redo_truncated: bool = False,
    runner: str = LOCAL,
    runner_options: tuple[str, ...] = (),
) -> Manifest:
    """Make questions of the facts of a knowledge graph.

    `kg`: folder of a store; None keeps the preset's. `count`: paths to sample. `as_of`: ISO date of the graph. The
    others are those of `mcts_trajectories`.
    """
    arguments, refused = beam_options(runner, runner_options), refusals(verdicts or [])
    config = configuration_of(KgQuestionRunConfig, DATASET.name, preset, model, model_name, seed, caps).on_graph(kg)
    given = {name: value for name, value in (("count", count), ("as_of", as_of)) if value is not None}

    def work(settings: Settings, config: KgQuestionRunConfig) -> None:
        with ready_server(config, arguments) as served:
            for stage in DATASET.stages:
                run_stage(out, settings, served, preset, stage.name, arguments)

    return carried_out(
        out,
        replace(config, **given),
        DATASET,
        lambda config: _sampled(out, config, refused),
        work,
        replace_run=replace_run,
        redo_truncated=redo_truncated,
    )


@task(name="run-stage", task_run_name="{name}", retries=2, retry_delay_seconds=10, retry_condition_fn=is_mendable)
def run_stage(
    out: Path, settings: Settings, config: KgQuestionRunConfig, preset: str, name: str, arguments: tuple[str, ...]
) -> None:
    """Run what of a stage is missing."""
    stages = planned_stages(DATASET, out, settings)
    run_shown(
        out,
        stages,
        name,
        lambda: runs.run_stage(DATASET, name, out, settings, config, preset, arguments),
        is_counted=next(each for each in stages if each.name == name).stage.asks_model,
    )


def _sampled(out: Path, config: KgQuestionRunConfig, refused: Refusals) -> Settings:
    """The run's paths: sampled, unless the folder has those of the same configuration and verdicts."""
    earlier, asked = read_settings(out), (DATASET.name, config.hash, refused.hash)
    is_same = earlier is not None and (earlier.dataset, earlier.config_hash, earlier.refusals) == asked
    if earlier is not None and is_same and not any(what_is_wrong(out, entry) for entry in earlier.files):
        return earlier
    settings, rejected = take_in(out, config, lambda paths: _counted(paths, config.count), refused)
    (books,) = settings.books
    if books.inputs < config.count:
        _LOG.warning(
            "the graph gave %d of %d paths; attempts that gave none: %s", books.inputs, config.count, _told(rejected)
        )
    return settings


def _counted(paths: Iterable[FactChain], total: int) -> Iterable[FactChain]:
    console = Console(stderr=True)
    return track(paths, "sample: paths", total=total, console=console, disable=not console.is_terminal)


def _told(rejected: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {number}" for reason, number in sorted(rejected.items())) or "none"
