"""What the flows of all data sets do alike: prepare a folder, start a model server, show figures in Prefect."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from trailforge.flows.progress import shown
from trailforge.flows.stopping import at_once
from trailforge.pipelines.cards.card import cost_table
from trailforge.pipelines.dataset import Dataset, Stage
from trailforge.pipelines.datasets import dataset_of
from trailforge.pipelines.engine.files import exclusive, output_errors
from trailforge.pipelines.engine.model_work import check_servers
from trailforge.pipelines.engine.progress import begin_progress
from trailforge.pipelines.engine.runners import check_runner
from trailforge.pipelines.engine.shards import Shard, missing_shards
from trailforge.pipelines.runs.config import RunConfig
from trailforge.pipelines.runs.damage import drop_damaged, drop_stale
from trailforge.pipelines.runs.finish import MANIFEST, finish_run, read_manifest
from trailforge.pipelines.runs.intake import (
    STAGED,
    Settings,
    config_of,
    discard_staged,
    read_settings,
    refuse_other_run,
    write_settings,
)
from trailforge.pipelines.runs.own_files import drop_rows, refuse_strangers, remove_leftovers, remove_orphans
from trailforge.schemas import (
    BudgetExceeded,
    CountMismatch,
    InvalidInput,
    Manifest,
    OutputError,
    ProviderError,
    ServerUnavailable,
    read_parquet,
)
from trailforge.small_model.server import EmbeddedServer

EMBEDDED = "embedded"
C = TypeVar("C", bound=RunConfig)


def is_mendable(task_: Task, run: TaskRun, state: State) -> bool:
    """A retry helps when a server was away or a worker died; not with wrong input, a full disk or unbalanced books, nor
    at a cap, nor with a refused key, nor when the client itself has waited for long enough."""
    error = state.result(raise_on_failure=False)
    if isinstance(error, ProviderError):
        return isinstance(error, ServerUnavailable)
    return not isinstance(error, InvalidInput | OutputError | CountMismatch | BudgetExceeded)


def with_redo(out: Path, config: C, is_asked: bool) -> C:
    """How often cut replies were asked for anew: as the folder's run says, and once more if that is asked.

    A run that was stopped in the middle of it goes on with the same number.
    """
    earlier = read_settings(out)
    if earlier is None:
        if is_asked:
            raise InvalidInput("holds no run, so there are no replies to ask for anew; leave out --redo", file=out)
        return config
    number = config_of(earlier).get("redo", 0)
    begins = is_asked and (number == 0 or _finished(out, earlier) is not None)
    return replace(config, redo=number + begins)


def prepare(
    out: Path, config: RunConfig, dataset: Dataset, take_in: Callable[[], Settings], replace_run: bool
) -> tuple[Settings, Manifest | None]:
    """Take the input in. The same run goes on, with every shard that is finished; another one is refused.

    `replace_run`: the rows of another one go, its ledger stays. With the settings comes the manifest of a run that is
    finished and whole; None when something is to be made (again), and what is damaged is said. A manifest that counts
    on shards which are to be run goes after the new settings are written: see `drop_rows`.
    """
    try:
        settings, earlier = take_in(), read_settings(out)
        if earlier is not None and earlier.run_id == settings.run_id:
            is_damaged = drop_damaged(out, dataset, earlier, _tell)
            finished = _finished(out, earlier)
            if finished is not None and not is_damaged and dataset.is_complete(out, earlier):
                return earlier, finished  # not a byte of it changes
        elif earlier is not None:
            if not (replace_run or _is_redo_of(out, dataset, earlier, settings, config)):
                refuse_other_run(out, settings)
            drop_rows(out, dataset_of(earlier), _tell)
        write_settings(out, settings)
        if not dataset.is_complete(out, settings):
            with output_errors(out):
                (out / MANIFEST).unlink(missing_ok=True)
        return settings, None
    finally:
        discard_staged(out)


@contextlib.contextmanager
def model_server(config: C) -> Iterator[C]:
    """The configuration with the URL of a server that runs: for `embedded`, one that is started here."""
    if config.model.url != EMBEDDED:
        yield config
        return
    with EmbeddedServer() as server:
        yield replace(config, model=replace(config.model, url=server.base_url))


def carried_out(
    out: Path,
    config: C,
    dataset: Dataset,
    take_in: Callable[[C], Settings],
    work: Callable[[Settings, C], None],
    *,
    replace_run: bool,
    redo_truncated: bool,
) -> Manifest:
    """Make a data set in a folder that no other process writes: take in, work, finish. A finished run stays as it is.

    `work` gets the configuration with which the input was taken in. It is not called, and so needs no server, when
    every shard is finished and only manifest, card or figures are to be written.
    """
    started = time.monotonic()
    refuse_strangers(out, dataset)
    with exclusive(out):
        remove_leftovers(out, dataset)
        config = with_redo(out, config, redo_truncated)
        settings, finished = prepare(out, config, dataset, lambda: take_in(config), replace_run)
        if finished is not None:
            return finished
        if not dataset.is_complete(out, settings):
            work(settings, config)
        remove_orphans(out, dataset, settings)
        manifest = finish_run(out, settings, dataset, seconds=time.monotonic() - started)
    publish(manifest)
    return manifest


@contextlib.contextmanager
def ready_server(config: C, arguments: Sequence[str]) -> Iterator[C]:
    """`model_server`, with runner, server and ledger found to be there: what is not needs no retries.

    In the block Ctrl-C stops the process at once.
    """
    with model_server(config) as served:
        check_runner(arguments)
        asyncio.run(check_servers(served))
        with at_once():
            yield served


def run_shown(out: Path, stages: Sequence[Stage], name: str, run: Callable[[], None], *, is_counted: bool) -> None:
    """Run what of a stage is missing, and show how far it is.

    `is_counted`: its workers count items; else those of finished shards are shown.
    """
    waiting = {each.name: missing_shards(out, each.shards or ()) for each in stages}
    unfinished = {shard.name for shards in waiting.values() for shard in shards}
    begin_progress(out, (s.name for each in stages for s in each.shards or () if s.name not in unfinished))
    stage = next(stage for stage in stages if stage.name == name)
    if not waiting[name]:
        return
    drop_stale(out, waiting[name])
    total = sum(shard.rows for shard in stage.shards or ())

    def done() -> int:
        waiting[name] = missing_shards(out, waiting[name])  # so that no receipt is read twice
        return total - sum(shard.rows for shard in waiting[name])

    unit = stage.unit if len(stages) == 1 else f"{name}: {stage.unit}"
    with shown(out, unit, total=total, done_before=done(), done=None if is_counted else done):
        run()


def publish(manifest: Manifest) -> None:
    """Funnel and cost as Prefect artifacts."""
    stem = manifest.dataset.replace("_", "-")
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
    create_table_artifact(table=funnel, key=f"{stem}-funnel", description=manifest.run_id)
    create_markdown_artifact(markdown=cost_table(manifest), key=f"{stem}-cost", description=manifest.run_id)


def _finished(out: Path, settings: Settings) -> Manifest | None:
    """The manifest of this very run. Raises as `read_manifest`."""
    manifest = read_manifest(out)
    return manifest if manifest is not None and manifest.run_id == settings.run_id else None


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _is_redo_of(out: Path, dataset: Dataset, earlier: Settings, settings: Settings, config: RunConfig) -> bool:
    """The same items and settings, but that cut replies are asked for once more."""
    number = config_of(earlier).get("redo", 0)
    if config.redo <= number or replace(config, redo=number).hash != earlier.config_hash:
        return False
    before, now = ([shard.rows for shard in each.shards] for each in (earlier, settings))
    if before != now:
        return False
    hashes = {entry.path: entry.sha256 for each in (earlier, settings) for entry in each.files}
    pairs = zip(earlier.shards, settings.shards, strict=True)
    others = ((a, b) for a, b in pairs if hashes[a.input] != hashes[b.input])
    return all(_items_of(out, dataset, a) == _items_of(out, dataset, b) for a, b in others)


def _items_of(out: Path, dataset: Dataset, shard: Shard) -> list[Any]:
    """Rows, not hashes: other versions write the same rows as other bytes."""
    staged = out / STAGED / shard.input
    return read_parquet(staged if staged.exists() else out / shard.input, dataset.item)
