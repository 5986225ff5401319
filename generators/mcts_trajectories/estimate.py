"""What a run of MCTS trajectories would take. Loads no Beam: an estimate is there in a second."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.rehearsal import StageEstimate, rehearse
from trailforge.inference import Usage
from trailforge.pipelines.sources import read_questions
from trailforge.pipelines.sources.refused import NONE, Refusals
from trailforge.schemas import InvalidInput, Question

_MOST_SAMPLED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run would take."""

    questions: int
    sampled: int
    """So many of them the estimate rests on."""
    stages: tuple[StageEstimate, ...]

    @property
    def usage(self) -> Usage:
        """Of all stages."""
        return sum((line.usage for line in self.stages), start=Usage())


async def estimate(source: Path, config: MctsRunConfig, limit: int | None, refused: Refusals = NONE) -> Estimate:
    """Calls, tokens and cost of a run over a file, from a sample of its questions. Calls no model, writes nothing."""
    sample: list[Question] = []
    total, rng = 0, random.Random(config.seed)
    rows = (row for row in read_questions(source) if isinstance(row, Question) and refused.row_of(row) is None)
    for row in islice(rows, limit):
        total += 1
        if len(sample) < _MOST_SAMPLED:
            sample.append(row)
        elif (place := rng.randrange(total)) < _MOST_SAMPLED:
            sample[place] = row
    if not sample:
        raise InvalidInput("holds no questions", file=source)
    stages = await rehearse(sample, config.generator, config.retrieval, config.model.prices, total=total)
    return Estimate(questions=total, sampled=len(sample), stages=tuple(stages))
