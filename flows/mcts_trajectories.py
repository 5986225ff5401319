"""The flow of MCTS trajectories: take in, run shards, finish. Running it again goes on where it stopped."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from prefect import flow, task

from flows.configuration import configured
from flows.progress import shown
from flows.runs import is_mendable, model_server, prepare, publish, with_redo
from flows.stopping import at_once
from inference import Caps
from pipelines.config import MctsRunConfig
from pipelines.files import exclusive, remove_temporary_files
from pipelines.finish import finish_run, read_manifest
from pipelines.intake import Settings
from pipelines.mcts_trajectories import MCTS, MctsWork, check_servers, tail_of, take_in
from pipelines.progress import begin_progress
from pipelines.runners import LOCAL, beam_options, check_runner
from pipelines.shards import receipt_path, run_pipeline
from schemas import Manifest, TrailforgeError


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
    replace_run: bool = False,
    redo_truncated: bool = False,
    runner: str = LOCAL,
    runner_options: tuple[str, ...] = (),
) -> Manifest:
    """Make trajectories of the questions in a file.

    `model`: base URL of an OpenAI-compatible server, or `embedded`; None keeps the preset's. `limit`: the first so
    many valid questions. `caps`: go over the preset's where they are given. `replace_run`: drop the rows of a run with
    other settings in this folder, keep its ledger. `redo_truncated`: ask anew for the replies that were cut, and for
    what follows from them; all others come from the ledger. `runner`: one of Beam's, with its options as `KEY=VALUE`.
    """
    started = time.monotonic()
    arguments = beam_options(runner, runner_options)
    config = configured(preset, model, model_name, seed, caps)
    with exclusive(out):
        remove_temporary_files(out)
        config = with_redo(out, config, redo_truncated)
        settings = prepare(out, config, lambda: take_in(questions, out, config, limit), replace_run)
        finished = read_manifest(out)
        if finished is not None and finished.run_id == settings.run_id:
            return finished
        with model_server(config) as served:
            check_runner(arguments)  # before the first try: what is not there at all needs no retries
            asyncio.run(check_servers(served))
            with at_once():
                run_shards(out, settings, served, arguments)
        manifest = finish_run(out, settings, MCTS, seconds=time.monotonic() - started)
    publish(manifest)
    return manifest


@task(name="run-shards", retries=2, retry_delay_seconds=10, retry_condition_fn=is_mendable)
def run_shards(out: Path, settings: Settings, config: MctsRunConfig, arguments: tuple[str, ...]) -> None:
    """Run every shard without a receipt: a retry repeats only what is missing."""
    finished = [shard for shard in settings.shards if receipt_path(out, shard).exists()]
    begin_progress(out, (shard.name for shard in finished))
    tail = tail_of(out, settings, config.schedule)
    work = MctsWork(folder=str(out.absolute()), run_id=settings.run_id, config=config, tail=tail)
    with shown(out, "questions", total=settings.items, done_before=sum(shard.rows for shard in finished)):
        run_pipeline(work, out, settings.shards, arguments, config.schedule.patience)


__all__ = ["TrailforgeError", "configured", "mcts_trajectories", "run_shards"]
