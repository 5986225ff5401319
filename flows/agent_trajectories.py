"""The flow of agent trajectories."""

from __future__ import annotations

from pathlib import Path

from prefect import flow

from trailforge.flows.execute import RunRequest, execute
from trailforge.flows.prefect_driver import PrefectDriver
from trailforge.generators.agent_trajectories import NAME
from trailforge.inference import Caps
from trailforge.pipelines.engine.runners import LOCAL
from trailforge.schemas import Manifest


@flow(name="agent-trajectories")
def agent_trajectories(
    questions: Path,
    out: Path,
    agent: str | None = None,
    documents: Path | None = None,
    scope: str | None = None,
    retrieval: str | None = None,
    kg: Path | None = None,
    preset: str = "agent-trajectories",
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
    """Make verified episodes of an agent on the questions in a file.

    `agent`: a protocol's, or one of `evaluation.agents`. `documents`: an index or file to search. `scope`: `question`
    for the questions' own paragraphs. `retrieval`: a back end, `web`, or a server's URL. `kg`: folder of a store. None
    keeps the preset's. The others are those of `RunRequest`.
    """
    options = {"agent": agent, "documents": documents, "scope": scope, "retrieval": retrieval, "kg": kg}
    return execute(
        RunRequest(
            dataset=NAME,
            out=out,
            preset=preset,
            files=(questions,),
            options=options,
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
