"""The flow of MCTS trajectories: take in, run shards, finish. Running it again goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

from prefect import flow, task

from trailforge.curation.verdicts import refusals
from trailforge.flows.configuration import configured
from trailforge.flows.runs import carried_out, is_mendable, ready_server, run_shown
from trailforge.generators.mcts_trajectories import DATASET
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.work import take_in
from trailforge.inference import Caps
from trailforge.pipelines.engine.runners import LOCAL, beam_options
from trailforge.pipelines.runs.intake import Settings
from trailforge.pipelines.runs.stages import planned_stages, run_stage
from trailforge.retrieval import check_retrieval
from trailforge.schemas import Manifest, TrailforgeError


@flow(name="mcts-trajectories")
def mcts_trajectories(
    questions: Path,
    out: Path,
    preset: str = "msearcher",
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
    """Make trajectories of the questions in a file.

    `model`: base URL of an OpenAI-compatible server, or `embedded`; None keeps the preset's. `limit`: the first so
    many valid questions. `caps`: go over the preset's where they are given. `verdicts`: folders of curated
    runs, or their logs: what people rejected there is left out. `replace_run`: drop the rows of a run with other
    settings in this folder, keep its ledger. `redo_truncated`: ask anew for the replies that were cut, and for
    what follows from them; all others come from the ledger. `runner`: one of Beam's, with its options as `KEY=VALUE`.
    """
    arguments, refused = beam_options(runner, runner_options), refusals(verdicts or [])
    config = configured(preset, model, model_name, seed, caps)
    check_retrieval(config.retrieval)

    def work(settings: Settings, config: MctsRunConfig) -> None:
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
def run_shards(out: Path, settings: Settings, config: MctsRunConfig, preset: str, arguments: tuple[str, ...]) -> None:
    """Run every shard without a receipt: a retry repeats only what is missing."""
    for stage in (stages := planned_stages(DATASET, out, settings)):
        run_shown(
            out,
            stages,
            stage.name,
            lambda name=stage.name: run_stage(DATASET, name, out, settings, config, preset, arguments),
            is_counted=True,
        )


__all__ = ["TrailforgeError", "configured", "mcts_trajectories", "run_shards"]
