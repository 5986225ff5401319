"""Questions -> search trees -> trajectories -> SFT rows, by shards (the first straight way of the house).

read_questions | cut into shards | search, tell, filter (per question) | write shard | manifest
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trailforge.filters import FilterConfig, first_rejection, judge_trajectory
from trailforge.generators.mcts_trajectories.card import card
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import Context, Generated, expected_hops, generate
from trailforge.generators.mcts_trajectories.story import sft_row
from trailforge.inference import ModelClient
from trailforge.pipelines.dataset import Dataset, Stage
from trailforge.pipelines.engine.model_work import ModelSession, ModelWork, rejected_row
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.accounting import stage
from trailforge.pipelines.runs.config import ScheduleConfig
from trailforge.pipelines.runs.intake import Settings, take_in_questions
from trailforge.pipelines.sources.refused import NONE, Refusals
from trailforge.retrieval import Retrieval, open_retrieval
from trailforge.schemas import (
    Manifest,
    Question,
    RejectedRow,
    SearchTree,
    SftRow,
    StageCount,
    Trajectory,
    Verdict,
    read_rows,
    to_dict,
)

DATASET = "mcts_trajectories"
SEARCH = "search"
TABLES: Mapping[str, type] = {
    DATASET: Trajectory,
    "trees": SearchTree,
    "sft": SftRow,
    "rejected": RejectedRow,
}


def _card(folder: Path, manifest: Manifest, settings: Settings) -> str:
    rows = read_rows(sorted((folder / DATASET).glob("part-*.parquet")), Trajectory)
    return card(folder, manifest, MCTS.configuration(settings), rows)


MCTS = Dataset(
    name=DATASET,
    item=Question,
    tables=TABLES,
    config=MctsRunConfig,
    last_stage="filter",
    counted=(DATASET, "reflection_error", "kind"),
    stages=lambda folder, settings: [Stage(name=SEARCH, unit="questions", shards=settings.shards)],
    card=_card,
    beside={"plots": r"funnel\.png"},
)


def take_in(source: Path, folder: Path, config: MctsRunConfig, limit: int | None, refused: Refusals = NONE) -> Settings:
    """Questions of a file as shards in the run\'s folder, without what people refuse."""
    return take_in_questions(
        source,
        folder,
        dataset=DATASET,
        config_hash=config.hash,
        config=json.dumps(to_dict(config)),
        shard_size=config.output.shard_size,
        limit=limit,
        needs_paragraphs=config.retrieval.scope == "question",
        refused=refused,
    )


def tail_of(folder: Path, settings: Settings, schedule: ScheduleConfig) -> frozenset[int]:
    """Positions of the questions that a run comes to last: it follows from the input alone, not from the clock."""
    first = max(0, settings.items - schedule.tail_window)
    shards = [shard for shard in settings.shards if shard.first + shard.rows > first]
    questions = read_rows((folder / shard.input for shard in shards), Question)
    window = [(position, expected_hops(q)) for position, q in enumerate(questions, start=shards[0].first)]
    window = [(position, hops) for position, hops in window if position >= first]
    window.sort(key=lambda item: (-item[1], item[0]))
    return frozenset(position for position, _ in window[max(0, len(window) - schedule.tail_questions) :])


@dataclass(frozen=True, slots=True, kw_only=True)
class MctsWork(ModelWork):
    """Searches plans for questions."""

    config: MctsRunConfig
    tail: frozenset[int] = frozenset()
    """Positions in the input of the questions that are searched last."""

    item = Question
    tables = TABLES
    stage = SEARCH

    async def open(self) -> MctsSession:
        """Connect; fails at once when model or index is not there."""
        retrieval = open_retrieval(self.config.retrieval)
        return MctsSession(self, await self.client(), retrieval)


class MctsSession(ModelSession):
    """Searches one question after the other."""

    def __init__(self, work: MctsWork, client: ModelClient, retrieval: Retrieval) -> None:
        super().__init__(client)
        config = work.config
        self._work = work
        self._context = Context(
            run_id=work.run_id,
            model=config.model.name,
            seed=config.seed,
            prices=config.model.prices,
            config=config.generator,
            client=client,
            retrieval=retrieval,
        )

    async def run(self, item: Question, position: int) -> ItemResult:
        """Search one question, filter its trajectories, keep the books."""
        schedule = self._work.config.schedule
        in_tail = position in self._work.tail
        generated = await generate(item, self._context, parallel=schedule.tail_parallel if in_tail else 1)
        result = rows_of(item, generated, self._work.config)
        self.count(result, *(row.reflection_error or row.kind for row in result.rows[DATASET]))
        return result


def rows_of(question: Question, generated: Generated, config: MctsRunConfig) -> ItemResult:
    """Filter a question's candidates and lay out its rows."""
    accepted, rejected = sift(question, generated.candidates, config.filters)
    tree = generated.tree
    unsolved = not generated.is_solved
    books = (
        stage(SEARCH, inputs=1, accepted=1),
        stage(
            "solve",
            inputs=1,
            accepted=int(not unsolved),
            rejected=["no_correct_rollout"] if unsolved else [],
        ),
        _filter_books(len(generated.candidates), len(accepted), [v for _, v in rejected]),
    )
    out = [rejected_row("filter", row.uid, verdict, to_dict(row)) for row, verdict in rejected]
    if unsolved:
        out.append(rejected_row("solve", question.id, _unsolved(tree), {"question_id": question.id}))
    return ItemResult(
        rows={
            DATASET: accepted,
            "trees": [tree],
            "sft": [sft_row(row) for row in accepted],
            "rejected": out,
        },
        stages=books,
        usage=generated.usage,
    )


def sift(
    question: Question, candidates: Sequence[Trajectory], config: FilterConfig
) -> tuple[list[Trajectory], list[tuple[Trajectory, Verdict]]]:
    """Candidates that every filter keeps, in order, and the others with the first verdict against them."""
    accepted: list[Trajectory] = []
    rejected: list[tuple[Trajectory, Verdict]] = []
    for row in candidates:
        verdict = first_rejection(judge_trajectory(row, question, accepted, config))
        if verdict is None:
            accepted.append(row)
        else:
            rejected.append((row, verdict))
    return accepted, rejected


def _filter_books(inputs: int, accepted: int, verdicts: Sequence[Verdict]) -> StageCount:
    return stage("filter", inputs=inputs, accepted=accepted, rejected=[v.reason for v in verdicts])


def _unsolved(tree: SearchTree) -> Verdict:
    return Verdict(
        keep=False,
        reason="no_correct_rollout",
        score=0.0,
        detail=f"{len(tree.rollouts)} rollouts, none correct; last answer "
        f"{tree.rollouts[-1].answer!r}, gold {tree.answer!r}"
        if tree.rollouts
        else "no rollout",
    )
