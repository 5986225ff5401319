"""The stages of a run: questions -> search trees -> trajectories -> SFT rows, by shards.

read_questions | cut into shards | search, choose, word (per question) | write shard | manifest
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trailforge.generators.mcts_trajectories import NAME
from trailforge.generators.mcts_trajectories.asking import prepare_question
from trailforge.generators.mcts_trajectories.checks import check_beside, problems_of
from trailforge.generators.mcts_trajectories.choice import choose_rows, reword
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import Context, derive_fields, expected_hops, generate
from trailforge.generators.mcts_trajectories.telling.story import sft_row
from trailforge.generators.search_options import count_support
from trailforge.inference import Meter, ModelClient
from trailforge.pipelines import Chosen, Draws, Life
from trailforge.pipelines.engine import ModelWork
from trailforge.pipelines.runs import ScheduleConfig, Settings, read_settings
from trailforge.retrieval import open_retrieval
from trailforge.schemas import Question, SearchTree, SftRow, Trajectory, Verdict, read_rows

SEARCH, SOLVE = "search", "solve"


def tail_of(folder: Path, settings: Settings, schedule: ScheduleConfig) -> frozenset[Question]:
    """Return the questions that a run searches with several leaves at once, at its end: the shorter ones among its
    last. They depend on the input alone, not on the clock. A small run has none.
    """
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
    """Open what all questions of a run share: model, settings and retrieval. Raises an error when the index does not
    exist.
    """
    config, folder = work.config, Path(work.folder)
    settings = read_settings(folder)
    assert settings is not None
    return Context(
        **work.shared(client),
        config=config.generator,
        retrieval=open_retrieval(config.retrieval),
        tail=tail_of(folder, settings, config.schedule),
    )


async def draw(question: Question, context: Context, config: MctsRunConfig) -> Draws[Trajectory]:
    """Search a question and return the trajectories found, filtered until there are enough. A question that cannot be
    asked is dropped.
    """
    own_paragraphs, payload = config.retrieval.searches_paragraphs, {"question_id": question.id}
    asked, asking = await prepare_question(question, context, own_paragraphs=own_paragraphs)
    if not asked.verdict.keep:
        return Draws(against=asked.verdict, payload=payload, meter=asking)
    generated = await generate(
        question,
        context,
        parallel=config.schedule.tail_parallel if question in context.tail else 1,
        choose=lambda rows: choose(rows, question, config),
        worded=asked.question,
        keys=asked.call_keys,
    )
    steps = [step for rollout in generated.tree.rollouts for step in rollout.steps]
    brought = [passage for step in steps for passage in step.passages]
    return Draws(
        rows=generated.candidates,
        chosen=generated.chosen,
        meter=asking + generated.meter,
        gates={SOLVE: None if generated.is_solved else _unsolved(generated.tree)},
        payload=payload,
        beside={"trees": [generated.tree]},
        support=count_support(question, brought, config.retrieval, has_searched=bool(steps)),
    )


def derive(rows: Sequence[Trajectory], question: Question, config: MctsRunConfig) -> list[Trajectory]:
    """Return the rows with the fields that follow from their answer and their steps."""
    judge = config.generator.judge
    return [
        replace(row, **derive_fields(row.steps, row.final_answer, row.judge_score, question, judge)) for row in rows
    ]


def choose(rows: Sequence[Trajectory], question: Question, config: MctsRunConfig) -> Chosen[Trajectory]:
    """Choose which rows of a question are kept: by filters, and then by the caps on each kind."""
    return choose_rows(question, rows, config.filters, config.generator.reflection)


async def word(
    rows: Sequence[Trajectory],
    chosen: Chosen[Trajectory],
    question: Question,
    context: Context,
    config: MctsRunConfig,
) -> tuple[Chosen[Trajectory], Meter]:
    """Let the model word the thoughts of chosen rows, and reject those to which it objects; returns the choice and the
    calls made.
    """
    del rows
    return await reword(question, chosen, context, config.filters)


def sft_rows(row: Trajectory, config: MctsRunConfig) -> list[SftRow]:
    """Return the SFT row of a kept trajectory."""
    del config
    return [sft_row(row)]


LIFE = Life(
    name=SEARCH,
    item=Question,
    table=NAME,
    open_context=open_context,
    draw=draw,
    derive=derive,
    choose=choose,
    after=word,
    sft=sft_rows,
    gates=(SOLVE,),
    problems=problems_of,
    beside=check_beside,
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
