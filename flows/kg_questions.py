"""The flow of questions made of a knowledge graph."""

from __future__ import annotations

from pathlib import Path

from prefect import flow

from trailforge.flows.execute import RunRequest, execute
from trailforge.flows.prefect_driver import PrefectDriver
from trailforge.generators.kg_questions import NAME
from trailforge.inference import Caps
from trailforge.pipelines.engine.runners import LOCAL
from trailforge.schemas import Manifest


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
    others are those of `RunRequest`.
    """
    return execute(
        RunRequest(
            dataset=NAME,
            out=out,
            preset=preset,
            options={"kg": kg, "count": count, "as_of": as_of},
            model=model,
            model_name=model_name,
            seed=seed,
            caps=caps,
            verdicts=tuple(verdicts or ()),
            replace_run=replace_run,
            redo_truncated=redo_truncated,
            runner=runner,
            runner_options=runner_options,
        ),
        PrefectDriver(),
    )
