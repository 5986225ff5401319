"""The flow of KG trajectories."""

from __future__ import annotations

from pathlib import Path

from prefect import flow

from trailforge.flows.execute import RunRequest, execute
from trailforge.flows.prefect_driver import PrefectDriver
from trailforge.generators.kg_trajectories import NAME
from trailforge.inference import Caps
from trailforge.pipelines.engine.runners import LOCAL
from trailforge.schemas import Manifest


@flow(name="kg-trajectories")
def kg_trajectories(
    questions: Path,
    out: Path,
    kg: Path | None = None,
    documents: Path | None = None,
    scope: str | None = None,
    retrieval: str | None = None,
    preset: str = "dynasearcher",
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
    """Make search episodes over documents and a knowledge graph for the questions in a file.

    `kg`: folder of a store; None keeps the preset's. `documents`: an index or file to search. `scope`: `question` for
    the questions' own paragraphs; None keeps the preset's. `retrieval`: `dense`, `bm25`, `web`; None as
    before. The others are those of `RunRequest`.
    """
    return execute(
        RunRequest(
            dataset=NAME,
            out=out,
            preset=preset,
            files=(questions,),
            options={"kg": kg, "documents": documents, "scope": scope, "retrieval": retrieval},
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
