"""The flow of MCTS trajectories: take in, run shards, finish. Running it again goes on where it stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from flows.configuration import configured
from flows.progress import shown
from flows.stopping import at_once
from inference import Caps
from inference.servers import EmbeddedServer
from pipelines.attempts import Patience
from pipelines.card import cost_table
from pipelines.config import MctsRunConfig
from pipelines.files import exclusive, remove_temporary_files
from pipelines.finish import drop_run, finish_run, read_manifest
from pipelines.intake import Settings, discard_staged, read_settings, refuse_other_run, write_settings
from pipelines.mcts_trajectories import TABLES, MctsWork, check_servers, tail_of, take_in
from pipelines.progress import begin_progress
from pipelines.runners import LOCAL, beam_options, check_runner
from pipelines.shards import receipt_path, run_pipeline
from schemas import BudgetExceeded, CountMismatch, InvalidInput, Manifest, OutputError, Stalled, TrailforgeError

EMBEDDED = "embedded"


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
        config = _with_redo(out, config, redo_truncated)
        settings = _prepare(questions, out, config, limit, replace_run)
        finished = read_manifest(out)
        if finished is not None and finished.run_id == settings.run_id:
            return finished
        with _model_server(config) as served:
            check_runner(arguments)  # before the first try: what is not there at all needs no retries
            asyncio.run(check_servers(served))
            with at_once():
                run_shards(out, settings, served, arguments)
        manifest = finish_run(out, settings, TABLES, seconds=time.monotonic() - started)
    _publish(manifest)
    return manifest


def _is_mendable(task_: Task, run: TaskRun, state: State) -> bool:
    """A retry helps when a server failed or a worker died; not with wrong input, a full disk or unbalanced books, nor
    at a cap, nor when the client itself has waited for long enough."""
    error = state.result(raise_on_failure=False)
    return not isinstance(error, InvalidInput | OutputError | CountMismatch | BudgetExceeded | Stalled)


@task(name="run-shards", retries=2, retry_delay_seconds=10, retry_condition_fn=_is_mendable)
def run_shards(out: Path, settings: Settings, config: MctsRunConfig, arguments: tuple[str, ...]) -> None:
    """Run every shard without a receipt: a retry repeats only what is missing."""
    finished = [shard for shard in settings.shards if receipt_path(out, shard).exists()]
    begin_progress(out, (shard.name for shard in finished))
    tail = tail_of(out, settings, config.schedule)
    work = MctsWork(folder=str(out.absolute()), run_id=settings.run_id, config=config, tail=tail)
    schedule = config.schedule
    patience = Patience(start_s=schedule.worker_start_s, silence_s=schedule.worker_silence_s)
    with shown(out, total=settings.items, done_before=sum(shard.rows for shard in finished)):
        run_pipeline(work, out, settings.shards, arguments, patience)


def _with_redo(out: Path, config: MctsRunConfig, is_asked: bool) -> MctsRunConfig:
    """How often cut replies were asked for anew: as the folder's run says, and once more if that is asked.

    A run that was stopped in the middle of it goes on with the same number.
    """
    earlier = read_settings(out)
    if earlier is None:
        if is_asked:
            raise InvalidInput("holds no run, so there are no replies to ask for anew; leave out --redo", file=out)
        return config
    number = json.loads(earlier.config).get("redo", 0)
    begins = is_asked and (number == 0 or read_manifest(out) is not None)
    return replace(config, redo=number + begins)


def _is_redo_of(earlier: Settings, settings: Settings, config: MctsRunConfig) -> bool:
    """The same questions and settings, but that cut replies are asked for once more."""
    before = replace(config, redo=max(0, config.redo - 1))
    return before.hash == earlier.config_hash and settings.source.sha256 == earlier.source.sha256


def _prepare(source: Path, out: Path, config: MctsRunConfig, limit: int | None, replace_run: bool) -> Settings:
    """Take the questions in; a folder with another run is refused, or emptied but for its ledger."""
    try:
        settings = take_in(source, out, config, limit)
        earlier = read_settings(out)
        if earlier is not None and earlier.run_id == settings.run_id and read_manifest(out) is not None:
            return earlier  # finished: not a byte of it changes
        if earlier is not None and (replace_run or _is_redo_of(earlier, settings, config)):
            drop_run(out)
            settings = take_in(source, out, config, limit)
        refuse_other_run(out, settings)
        write_settings(out, settings)
        return settings
    finally:
        discard_staged(out)


@contextlib.contextmanager
def _model_server(config: MctsRunConfig) -> Iterator[MctsRunConfig]:
    """The configuration with the URL of a server that runs: for `embedded`, one that is started here."""
    if config.model.url != EMBEDDED:
        yield config
        return
    with EmbeddedServer() as server:
        yield replace(config, model=replace(config.model, url=server.base_url))


def _publish(manifest: Manifest) -> None:
    """Funnel and cost as Prefect artifacts."""
    funnel = [
        {
            "stage": line.name,
            "in": line.inputs,
            "accepted": line.accepted,
            "rejected": sum(c.count for c in line.rejected),
            "failed": sum(c.count for c in line.failed),
        }
        for line in manifest.stages
    ]
    create_table_artifact(table=funnel, key="mcts-trajectories-funnel", description=manifest.run_id)
    create_markdown_artifact(markdown=cost_table(manifest), key="mcts-trajectories-cost", description=manifest.run_id)


__all__ = ["TrailforgeError", "configured", "mcts_trajectories", "run_shards"]
