"""Questions -> search trees -> trajectories -> SFT rows, by shards (the first straight way of the house).

read_questions | cut into shards | search, tell, filter (per question) | write shard | manifest
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trailforge.generators.mcts_trajectories import DATASET, NAME
from trailforge.generators.mcts_trajectories.asking import prepare_question
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import (
    Context,
    Generated,
    expected_hops,
    generate,
    reword,
    sift,
)
from trailforge.generators.mcts_trajectories.story import sft_row
from trailforge.inference import ModelClient, Usage
from trailforge.pipelines.engine.model_stage import ModelStage, ModelWork, rejected_row
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.accounting import stage
from trailforge.pipelines.runs.config import ScheduleConfig
from trailforge.pipelines.runs.intake import RunInputs, Settings, read_settings, take_in_questions
from trailforge.retrieval import open_retrieval
from trailforge.schemas import Question, SearchTree, Trajectory, Verdict, read_rows, to_dict

SEARCH = "search"


def take_in(inputs: RunInputs, folder: Path, config: MctsRunConfig) -> Settings:
    """Questions of a file as shards in the run's folder, without what people refuse."""
    return take_in_questions(
        inputs,
        folder,
        config,
        shard_size=config.output.shard_size,
        needs_paragraphs=config.retrieval.searches_paragraphs,
    )


def tail_of(folder: Path, settings: Settings, schedule: ScheduleConfig) -> frozenset[Question]:
    """The questions that a run comes to last: they follow from the input alone, not from the clock. A small run has
    none."""
    if settings.items < 2 * schedule.tail_questions:
        return frozenset()
    first = max(0, settings.items - schedule.tail_window)
    shards = [shard for shard in settings.shards if shard.first + shard.rows > first]
    questions = read_rows((folder / shard.input for shard in shards), Question)
    window = [(position, question) for position, question in enumerate(questions, start=shards[0].first)]
    window = [(position, question) for position, question in window if position >= first]
    window.sort(key=lambda item: (-expected_hops(item[1]), item[0]))
    return frozenset(question for _, question in window[max(0, len(window) - schedule.tail_questions) :])


def open_context(work: ModelWork, client: ModelClient) -> Context:
    """What all questions share. Raises when the index is not there."""
    config, folder = work.config, Path(work.folder)
    settings = read_settings(folder)
    assert settings is not None
    return Context(
        **work.shared(client),
        config=config.generator,
        retrieval=open_retrieval(config.retrieval),
        tail=tail_of(folder, settings, config.schedule),
    )


async def search_question(question: Question, context: Context, config: MctsRunConfig) -> ItemResult:
    """Search one question, filter its trajectories, keep the books. One that cannot be asked is set aside."""
    own_paragraphs = config.retrieval.searches_paragraphs
    asked, asking = await prepare_question(question, context, own_paragraphs=own_paragraphs)
    if not asked.verdict.keep:
        return _set_aside(question, asked.verdict, asking)
    parallel = config.schedule.tail_parallel if question in context.tail else 1
    caps = config.generator.reflection
    generated = await generate(
        question,
        context,
        parallel=parallel,
        accept=lambda rows: sift(question, rows, config.filters, caps)[0],
        worded=asked.question,
    )
    candidates = tuple(_resting_on(asked.call_keys, row) for row in generated.candidates)
    accepted, rejected = sift(question, candidates, config.filters, caps)
    accepted, doubted, usage = await reword(question, accepted, context, config.filters)
    generated = replace(generated, candidates=candidates, usage=asking + generated.usage + usage)
    return rows_of(question, generated, accepted, [*rejected, *doubted])


def _resting_on(keys: tuple[str, ...], row: Trajectory) -> Trajectory:
    known = row.provenance.call_keys
    return replace(row, provenance=replace(row.provenance, call_keys=tuple(dict.fromkeys((*keys, *known)))))


def _set_aside(question: Question, verdict: Verdict, usage: Usage) -> ItemResult:
    return ItemResult(
        rows={
            NAME: [],
            "trees": [],
            "sft": [],
            "rejected": [rejected_row(SEARCH, question.id, verdict, {"question_id": question.id})],
        },
        stages=(
            stage(SEARCH, inputs=1, accepted=0, rejected=[verdict.reason]),
            stage("solve", inputs=0, accepted=0),
            stage("filter", inputs=0, accepted=0),
        ),
        usage=usage,
    )


search_stage = ModelStage(
    name=SEARCH,
    item=Question,
    tables=DATASET.records,
    counted=(NAME, "reflection_error", "kind"),
    open_context=open_context,
    run_item=search_question,
)


def rows_of(
    question: Question,
    generated: Generated,
    accepted: Sequence[Trajectory],
    rejected: Sequence[tuple[Trajectory, Verdict]],
) -> ItemResult:
    """Lay out a question's rows and keep its books."""
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
        stage(
            "filter",
            inputs=len(generated.candidates),
            accepted=len(accepted),
            rejected=[verdict.reason for _, verdict in rejected],
        ),
    )
    out = [rejected_row("filter", row.uid, verdict, to_dict(row)) for row, verdict in rejected]
    if unsolved:
        out.append(rejected_row("solve", question.id, _unsolved(tree), {"question_id": question.id}))
    return ItemResult(
        rows={
            NAME: list(accepted),
            "trees": [tree],
            "sft": [sft_row(row) for row in accepted],
            "rejected": out,
        },
        stages=books,
        usage=generated.usage,
    )


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
