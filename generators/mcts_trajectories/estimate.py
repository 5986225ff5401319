"""What a run of MCTS trajectories would take. Loads no Beam: an estimate is there in a second."""

from __future__ import annotations

import asyncio

from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.rehearsal import rehearse
from trailforge.pipelines.estimate import Estimate, sample
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.pipelines.sources import read_questions
from trailforge.schemas import Question


def estimate(inputs: RunInputs, config: MctsRunConfig) -> Estimate:
    """Calls, tokens and cost, found by rehearsing the search of a sample of the questions."""
    (source,) = inputs.files
    rows = (r for r in read_questions(source) if isinstance(r, Question) and inputs.refused.row_of(r) is None)
    questions, total = sample(rows, inputs.limit, config.seed, source)
    stages = asyncio.run(rehearse(questions, config.generator, config.retrieval, config.model.prices, total=total))
    return Estimate(
        items=total,
        unit="questions",
        sampled=len(questions),
        stages=tuple(stages),
        rests_on="An estimate: how hard the questions are for the model decides.",
    )
