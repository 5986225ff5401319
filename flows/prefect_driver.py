"""Execute a run under Prefect: its stages are tasks with retries, its progress and figures are artifacts."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from functools import partial

from prefect import flow, get_run_logger, task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from trailforge.flows.execute import (
    RETRIES,
    RETRY_AFTER_S,
    Driver,
    RunRequest,
    StageToRun,
    at_work,
    execute,
    is_mendable,
)
from trailforge.flows.run_log import LOGGER
from trailforge.pipelines import resolve
from trailforge.pipelines.cards import cost_table
from trailforge.schemas import Manifest


class _ToPrefect(logging.Handler):
    """Into Prefect's log of the task, or else of the flow, in which something happens."""

    def emit(self, record: logging.LogRecord) -> None:
        get_run_logger().log(record.levelno, record.getMessage())


class PrefectDriver(Driver):
    """Runs the stages of a run as Prefect tasks. It works within a flow only."""

    @contextlib.contextmanager
    def listen(self) -> Iterator[None]:
        """Send the run's log to Prefect's log within the `with` block, and nowhere else, since a worker prints both."""
        handler = _ToPrefect()
        LOGGER.addHandler(handler)
        LOGGER.setLevel(logging.INFO)
        LOGGER.propagate = False
        try:
            yield
        finally:
            LOGGER.propagate = True
            LOGGER.setLevel(logging.NOTSET)
            LOGGER.removeHandler(handler)

    def run_stage(self, task: StageToRun) -> None:
        """Run the missing shards of a stage, as a Prefect task."""
        run_stage(task.stage.name, task)

    def publish(self, manifest: Manifest) -> None:
        """Publish a run's funnel (rows kept by each stage) and its cost as Prefect artifacts."""
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


def execute_as_flow(request: RunRequest) -> Manifest:
    """Execute a run as a Prefect flow named after the data set's command."""
    named = flow(name=request.dataset.replace("_", "-"), validate_parameters=False)(_execute)
    return named(request)


def _execute(request: RunRequest) -> Manifest:
    return execute(request, PrefectDriver())


def _may_mend(task: Task, run: TaskRun, state: State) -> bool:
    return is_mendable(state.result(raise_on_failure=False))


@task(
    name="run-stage",
    task_run_name="{name}",
    retries=RETRIES,
    retry_delay_seconds=RETRY_AFTER_S,
    retry_condition_fn=_may_mend,
)
def run_stage(name: str, stage: StageToRun) -> None:
    """Run the missing shards of a stage."""
    artifact = create_progress_artifact(progress=0.0, description=f"{stage.out.name}: {name}")
    with at_work(stage, partial(_update, artifact)) as run:
        if run is not None:
            resolve(stage.stage.run)(run)


def _update(artifact: object, percent: float) -> None:
    """Progress is a courtesy: a Prefect server that went away must not end the run."""
    with contextlib.suppress(Exception):
        update_progress_artifact(artifact, progress=percent)  # pyright: ignore[reportArgumentType]
