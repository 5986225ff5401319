"""The flow of MCTS trajectories."""

from __future__ import annotations

from pathlib import Path

from prefect import flow

from trailforge.flows.execute import RunRequest, execute
from trailforge.flows.prefect_driver import PrefectDriver
from trailforge.generators.mcts_trajectories import NAME
from trailforge.inference import Caps
from trailforge.pipelines.engine.runners import LOCAL
from trailforge.schemas import Manifest


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
    """Make trajectories of the questions in a file. The parameters are those of `RunRequest`."""
    return execute(
        RunRequest(
            dataset=NAME,
            out=out,
            preset=preset,
            files=(questions,),
            model=model,
            model_name=model_name,
            limit=limit,
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
