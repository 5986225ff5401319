"""Execute a run from its request to its manifest: read the input, run each stage, finish. No Prefect is needed for it.

Executing a run again continues where it stopped: shards with a receipt are not run again, and no call is paid for
twice. At its start, the folder may be empty, or hold this run unfinished, this run finished, or another run
(`prepare`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from trailforge.flows import stop_server
from trailforge.flows.configuration import configuration_of, find_begun_as, leave_out, manifest_of, with_redo
from trailforge.flows.given import check_given, check_out
from trailforge.flows.run_log import RunLog
from trailforge.inference import Caps
from trailforge.inference.packaged import EMBEDDED_CONTEXT, EMBEDDED_SLOTS, open_server
from trailforge.pipelines import DataSet, Stage, StageRun, dataset_of, load_dataset, resolve
from trailforge.pipelines.engine import (
    Shard,
    begin_progress,
    count_shown,
    exclusive,
    missing_shards,
    output_errors,
    show_progress,
)
from trailforge.pipelines.engine.attempts import await_earlier
from trailforge.pipelines.engine.cluster import check_workers, open_cluster, read_cluster, remove_keys
from trailforge.pipelines.engine.log_lines import print_line
from trailforge.pipelines.engine.model_stage import check_servers
from trailforge.pipelines.engine.runners import LOCAL, beam_options, check_runner, is_dask
from trailforge.pipelines.engine.shards import drop_receipts
from trailforge.pipelines.runs import EMBEDDED, MANIFEST, RunConfig, RunInputs, Settings, read_settings
from trailforge.pipelines.runs.finish import finish_run
from trailforge.pipelines.runs.intake import STAGED, config_of, discard_staged, refuse_other_run, write_settings
from trailforge.pipelines.runs.own_files import OwnFiles
from trailforge.pipelines.runs.packages import needed_packages
from trailforge.pipelines.runs.stages import is_complete, planned_stages
from trailforge.schemas import (
    NOTICE,
    BudgetExceeded,
    CountMismatch,
    InvalidInput,
    Manifest,
    OutputError,
    ProviderError,
    RetrievalError,
    SearchFailed,
    ServerUnavailable,
    check_packages,
    read_parquet,
)

_LOG = logging.getLogger(__name__)
RETRIES = 2
RETRY_AFTER_S = 10.0
STOPPED = "stopped; the same command goes on from here"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Everything that a run is asked to do; fields that are left out keep the preset's values."""

    dataset: str
    out: Path
    preset: str
    files: tuple[Path, ...] = ()
    """The input files."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Values of the options that this data set alone takes; None stands for an option that was not given."""
    model: str | None = None
    """Base URL of an OpenAI-compatible server, or `embedded`; None: as the preset says."""
    model_name: str | None = None
    limit: int | None = None
    """Number of valid items to take, the first ones; None: all."""
    seed: int = 0
    caps: Caps | None = None
    """Caps that replace those of the preset where they are given."""
    verdicts: tuple[Path, ...] = ()
    """Folders of curated runs, or their logs: what people rejected there is left out."""
    audited: Path | None = None
    """Folder of an audit of its questions: what cannot be answered is left out."""
    has_card: bool = True
    """Whether a card is written, which can cost more than a few rows."""
    demand: Path | None = None
    """File of quotas by which questions are taken, or made of a graph; None: there are none."""
    replace_run: bool = False
    """Whether to remove the rows of a run with other settings in this folder; its ledger stays."""
    redo_truncated: bool = False
    """Whether to ask anew for cut replies, and for what follows from them; all others come from the ledger."""
    redo_refused: bool = False
    """Whether to ask anew for the prompts that a server refused; all else comes from the ledger."""
    runner: str = LOCAL
    """Name of one of Beam's runners."""
    runner_options: tuple[str, ...] = ()
    """Options of the runner, as `KEY=VALUE`."""
    cluster: str = ""
    """A cluster of Dask: `tls://host:8786`, `local:4` or a YAML file for Slurm."""
    insecure: bool = False
    """Whether an open scheduler on a network is allowed."""


@dataclass(frozen=True, slots=True)
class StageToRun:
    """A stage of a run; which of its shards are missing is found when it begins."""

    stage: Stage
    dataset: DataSet
    out: Path
    settings: Settings
    config: RunConfig
    preset: str
    arguments: tuple[str, ...]
    """Command line of the runner."""


class Driver:
    """Runs the stages of a run in this process; subclasses run them elsewhere."""

    def run_stage(self, task: StageToRun) -> None:
        """Run the missing shards of a stage, retrying after an error that may go away; a retry repeats only what is
        missing.
        """
        for retries_left in reversed(range(RETRIES + 1)):
            try:
                with at_work(task) as run:
                    if run is not None:
                        resolve(task.stage.run)(run)
                    return
            except Exception as error:
                if not (retries_left and is_mendable(error)):
                    raise
                print_note(f"{error}; trying again in {RETRY_AFTER_S:g} s")
            time.sleep(RETRY_AFTER_S)

    def listen(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager for the time of a run, in which a subclass may copy the run's log elsewhere."""
        return contextlib.nullcontext()

    def publish(self, manifest: Manifest) -> None:
        """Show the figures of a run that has just finished."""


def execute(request: RunRequest, driver: Driver | None = None) -> Manifest:
    """Make a data set in a folder that no other process writes, and return its manifest. A finished run stays as it is.
    No server is needed when every shard is finished and only manifest, card or figures are to be written.
    """
    started, out, driver = time.monotonic(), request.out, driver or Driver()
    dataset, runner = load_dataset(request.dataset), beam_options(request.runner, request.runner_options)
    cluster = read_cluster(request.cluster, runner, insecure=request.insecure)
    config, inputs = check_request(request, dataset)
    with exclusive(out):
        own = OwnFiles(out, dataset)
        own.remove_leftovers()
        config = with_redo(out, config, request.redo_truncated)
        settings, finished = prepare(
            out, dataset, config, inputs, replace_run=request.replace_run, redo_refused=request.redo_refused
        )
        if finished is not None:
            return finished
        log = RunLog(out, settings.run_id)
        with driver.listen(), log.run(dataset.name, request.preset):
            planned = planned_stages(dataset, out, settings)
            if not is_complete(out, planned):
                stages = [each.stage for each in planned]
                with contextlib.ExitStack() as serving:
                    serving.enter_context(at_once(log.stop))
                    arguments = serving.enter_context(open_cluster(cluster, out.absolute())) if cluster else runner
                    check_reachable(config, arguments, asks_model=any(stage.asks_model for stage in stages))
                    for stage in stages:
                        if stage.asks_model and config.model.url == EMBEDDED:
                            config = serving.enter_context(embedded_model(config))
                        driver.run_stage(StageToRun(stage, dataset, out, settings, config, request.preset, arguments))
            own.remove_orphans(settings)
            seconds = time.monotonic() - started
            manifest = finish_run(out, settings, dataset, seconds=seconds, has_card=request.has_card)
            log.end(manifest, time.monotonic() - started)
    driver.publish(manifest)
    return manifest


def check_request(request: RunRequest, dataset: DataSet) -> tuple[RunConfig, RunInputs]:
    """Return the checked configuration and inputs of a run, before anything heavy is loaded or written. Raises
    `InvalidInput` for a preset or a file that does not exist, and `OutputError` for a folder that cannot be the run's.
    """
    check_out(request.out)
    OwnFiles(request.out, dataset).refuse_strangers()
    return check_inputs(request, dataset, is_run=True)


def check_inputs(request: RunRequest, dataset: DataSet, *, is_run: bool = False) -> tuple[RunConfig, RunInputs]:
    """Return the checked configuration and inputs of a run, as `check_request` does, but without looking at the run's
    folder. `is_run` also requires all packages that the run imports. Raises `InvalidInput` for a preset or a file that
    does not exist.
    """
    options = {name: value for name, value in request.options.items() if value is not None}
    check_given(dataset.name, request.preset, request.files, options)
    print_note(
        f"reading {', '.join(map(str, request.files)) or options.get(dataset.option.strip('-')) or request.preset}"
    )
    config = configuration_of(
        dataset, request.preset, request.model, request.model_name, seed=request.seed, caps=request.caps
    )
    inputs = RunInputs(
        dataset=dataset.name, files=request.files, limit=request.limit, options=options, shown=count_shown
    )
    if is_run:
        check_packages(needed_packages(dataset, config, inputs), f"a run of {dataset.command}")
    if dataset.configure is not None:
        config = resolve(dataset.configure)(config, inputs)
    return leave_out(config, inputs, request.verdicts, request.audited, print_note, demand=request.demand)


def check_reachable(config: RunConfig, arguments: tuple[str, ...], *, asks_model: bool) -> None:
    """Raise an error when the runner, the model server or the ledger cannot be reached, before any work is done in
    vain.
    """
    check_runner(arguments)
    check_workers(arguments, config.ledger, asks_model=asks_model)
    if asks_model and config.model.url != EMBEDDED:
        asyncio.run(check_servers(config))


@contextlib.contextmanager
def embedded_model(config: RunConfig) -> Iterator[RunConfig]:
    """Run a server of the packaged model for the `with` block, and give the configuration with its URL. No more calls
    are sent at a time than the server answers, and a notice says that each call is slow.
    """
    if config.longest_reply > EMBEDDED_CONTEXT:
        _LOG.log(
            NOTICE,
            "the embedded model is for the preset demo: with this one a reply may fill its %s tokens, minutes each on "
            "a CPU, and hardly ever keeps to the form; take --preset demo, or a server by --model URL",
            f"{EMBEDDED_CONTEXT:,}",
        )
    with open_server(config.model.url) as url:
        in_flight = min(config.model.max_in_flight, EMBEDDED_SLOTS)
        config = replace(config, model=replace(config.model, url=url, max_in_flight=in_flight))
        asyncio.run(check_servers(config))
        yield config


@contextlib.contextmanager
def at_work(task: StageToRun, report: Callable[[float], None] | None = None) -> Iterator[StageRun | None]:
    """Give what is needed to run a stage, or None when nothing of it is missing, and show progress meanwhile; `report`
    receives the percentage done.
    """
    out = task.out.absolute()  # workers may stand elsewhere
    if task.stage.asks_model and task.config.caps and is_dask(task.arguments):
        await_earlier(out, print_note)
    planned = planned_stages(task.dataset, out, task.settings)
    waiting = {each.name: missing_shards(out, each.shards or ()) for each in planned}
    unfinished = {shard.name for shards in waiting.values() for shard in shards}
    begin_progress(out, (s.name for each in planned for s in each.shards or () if s.name not in unfinished))
    this = next(each for each in planned if each.name == task.stage.name)
    if not waiting[this.name]:
        yield None
        return
    drop_receipts(out, waiting[this.name])
    shards = this.shards or ()
    unit = this.unit if len(planned) == 1 else f"{this.name}: {this.unit}"
    log = RunLog(out, task.settings.run_id)
    shown = show_progress(out, unit, shards, counts_items=task.stage.asks_model, report=report)
    with log.stage(this.name, shards), shown:
        yield StageRun(
            folder=out,
            settings=task.settings,
            config=task.config,
            preset=task.preset,
            shards=shards,
            before=this.before,
            arguments=task.arguments,
        )


def is_mendable(error: object) -> bool:
    """Tell whether a retry can help after this error.

    It can when a server was away or a worker died. It cannot after wrong input, a full disk, unbalanced counts, a cap,
    a refused key, the client's own time limit, or a missing encoder or index.
    """
    if isinstance(error, ProviderError):
        return isinstance(error, ServerUnavailable)
    if isinstance(error, RetrievalError):
        return isinstance(error, SearchFailed)
    return not isinstance(error, InvalidInput | OutputError | CountMismatch | BudgetExceeded)


@contextlib.contextmanager
def at_once(tell: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process within the `with` block at once, with exit code 130 or 143, after calling
    `tell`. Ledger and shards survive.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _: FrameType | None) -> None:
        tell()
        _leave(number)

    earlier = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _leave(number: int) -> None:
    Console(stderr=True).show_cursor(True)  # which a progress bar had hidden
    print_line("note", STOPPED)
    stop_server()
    remove_keys()
    os._exit(128 + number)


def print_note(line: str) -> None:
    """Print a line for people, apart from a command's output, which may be piped elsewhere."""
    print_line("note", line)


def prepare(
    out: Path,
    dataset: DataSet,
    config: RunConfig,
    inputs: RunInputs,
    *,
    replace_run: bool,
    redo_refused: bool = False,
) -> tuple[Settings, Manifest | None]:
    """Read the input of a run, and return its settings and, if the run is finished and whole, its manifest, else None.

    A run with the same settings is resumed, with `redo_refused` also where a server refused prompts; a folder with a
    run of other settings is refused unless `replace_run`, which removes that run's rows and keeps its ledger. Damage is
    reported. A manifest that includes shards still to be run is removed only after the new settings are written: see
    `OwnFiles.drop_rows`.
    """
    own = OwnFiles(out, dataset)
    try:
        earlier = read_settings(out)
        if earlier is not None and earlier.is_compact:
            raise OutputError(f"{out} was written by `compact`: no run goes on in it, but in the one it was made of")
        inputs = replace(inputs, begun_as=find_begun_as(dataset, earlier, config))
        settings = resolve(dataset.take_in)(inputs, out, config)
        if earlier is not None and settings.begun_as and settings.shards != earlier.shards:
            # Other documents: this is no second half of what is there.
            settings = resolve(dataset.take_in)(replace(inputs, begun_as=""), out, config)
        if earlier is not None and earlier.run_id == settings.run_id:
            is_damaged = own.drop_damaged(earlier, print_note)
            is_damaged |= redo_refused and own.drop_refused(earlier, print_note)
            finished = manifest_of(out, earlier)
            if finished is not None and not is_damaged and is_complete(out, planned_stages(dataset, out, earlier)):
                return earlier, finished  # not a byte of it changes
        elif earlier is not None and not settings.begun_as:  # what a first half made stays
            if not (replace_run or own.has_nothing() or _is_redo_of(out, dataset, earlier, settings, config)):
                refuse_other_run(out, settings)
            OwnFiles(out, dataset_of(earlier)).drop_rows(print_note)
        write_settings(out, settings)
        if not is_complete(out, planned_stages(dataset, out, settings)):
            with output_errors(out):
                (out / MANIFEST).unlink(missing_ok=True)
        return settings, None
    finally:
        discard_staged(out)


def _is_redo_of(out: Path, dataset: DataSet, earlier: Settings, settings: Settings, config: RunConfig) -> bool:
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
    return all(_read_items(out, dataset, a) == _read_items(out, dataset, b) for a, b in others)


def _read_items(out: Path, dataset: DataSet, shard: Shard) -> list[Any]:
    """Rows, not hashes: other versions write the same rows as other bytes."""
    staged = out / STAGED / shard.input
    return read_parquet(staged if staged.exists() else out / shard.input, dataset.inputs.record)
