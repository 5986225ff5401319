"""The stages of a run: questions and a graph -> annotated search episodes -> pairs and SFT rows (DynaSearcher, 3.1,
3.2).

read_questions | cut into shards | n episodes, choose, read again, hold against documents (per question) | write shard
| manifest
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from trailforge.filters import answer_in_question
from trailforge.filters.kg import facts_to_read
from trailforge.generators.answer_reading import choose_read
from trailforge.generators.kg_trajectories import EPISODE, FILTER, NAME, SEARCH
from trailforge.generators.kg_trajectories.choice import choose_rows, contrastive_pairs, is_well_searched, unread_rows
from trailforge.generators.kg_trajectories.config import (
    LEADERS,
    KgContext,
    KgGeneratorConfig,
    KgRunConfig,
)
from trailforge.generators.kg_trajectories.reading import Offer, Reading, SearchTool, find_conflicts, read_answer
from trailforge.generators.kg_trajectories.rows import (
    derive_fields,
    holds_format,
    kg_sft_row,
    row_of,
    steps_match,
    steps_of,
)
from trailforge.generators.search_options import count_support, unlike_named
from trailforge.generators.sft_rows import without_answer
from trailforge.inference import Asker, Meter, ModelClient
from trailforge.inference.judge import Judged, grade
from trailforge.pipelines import Chosen, Draws, Life, draw_all
from trailforge.pipelines.engine import ModelWork
from trailforge.pipelines.runs import RowChecks
from trailforge.protocols import EpisodeRun, Observation, Search, run_episode
from trailforge.retrieval import open_retrieval
from trailforge.retrieval.kg import KgStore
from trailforge.rewards import is_near_miss, mcts_reward
from trailforge.schemas import (
    ContrastivePair,
    Document,
    InvalidInput,
    KgTrajectory,
    Question,
    RejectedRow,
    SftRow,
    load_plugin,
)


def open_context(work: ModelWork, client: ModelClient) -> KgContext:
    """Open what all questions of a run share: model, settings, documents and graph. Raises an error when the index or
    the graph does not exist.
    """
    config = work.config
    if not config.kg:
        raise InvalidInput("no knowledge graph; give --kg, a folder that `trailforge kg build` made", field="kg")
    return KgContext(
        **work.shared(client),
        config=config.generator,
        retrieval=open_retrieval(config.retrieval),
        store=KgStore.open(Path(config.kg)),
    )


class Leader(Protocol):
    """Makes guided episodes: a model follows the gold decomposition of a question that it could not search for by
    itself.
    """

    offer: Offer
    """Makes the grammar of the answers that the model may give when it reads."""

    async def lead(self, tool: SearchTool, asker: Asker, sample: int) -> EpisodeRun:
        """Make the guided episode number `sample`. `asker` calls the model, and its `meter` counts the calls. Raises
        what retrieval and the model's client raise.
        """
        ...


async def draw(question: Question, context: KgContext, config: KgRunConfig) -> Draws[KgTrajectory]:
    """Draw a question's episodes, and record whether searches found what the answer rests on. A question that names its
    answer gets none.
    """
    named = answer_in_question(question)
    if not named.keep:
        return Draws(against=named)
    drawn = await generate(question, context)
    steps = [step for row in drawn.rows for step in row.steps]
    brought = [document for step in steps for document in step.documents]
    return replace(drawn, support=count_support(question, brought, config.retrieval, has_searched=bool(steps)))


async def generate(question: Question, context: KgContext) -> Draws[KgTrajectory]:
    """Make all episodes of a question at once, before any filter. Raises `InvalidInput` for a guided question without
    gold decomposition or without paragraphs to search, what the model's client raises, and the first episode's error
    when all were lost.
    """
    if context.config.is_led and not question.decomposition:
        raise InvalidInput(
            f"question {question.id} has no gold decomposition to guide by; let the model search freely "
            "(generator.style: free)",
            field="decomposition",
        )
    config = context.config
    leader = _leader_of(config) if config.is_led else None
    work = _Work(question, context, SearchTool.open(question, context), leader)
    drawn = await draw_all(work.draw, config.episodes)
    if not drawn.rows:
        raise drawn.broken[0]
    return drawn


async def read_and_hold(
    rows: Sequence[KgTrajectory],
    chosen: Chosen[KgTrajectory],
    question: Question,
    context: KgContext,
    config: KgRunConfig,
) -> tuple[Chosen[KgTrajectory], Meter]:
    """Read each chosen row once more with a model where the configuration asks for it, and compare the graph with the
    documents for kept rows.

    Returns the choice and the calls of both. Raises what the model's client raises, and `MalformedReply` for a reading
    that is empty or cut.
    """

    async def read(row: KgTrajectory, meter: Meter) -> KgTrajectory:
        read = await read_answer(row, _reading(question, context, meter))
        return _called(read, meter, question, context)

    of_reading = Meter()
    if context.config.answer_check != "off":
        chosen, of_reading = await choose_read(
            rows, chosen, lambda drawn: choose_rows(drawn, config.selection), unread_rows, read
        )
    held, of_check = await hold_against_documents(chosen.kept, question, context)
    return Chosen(held, chosen.rejected), of_reading + of_check


async def hold_against_documents(
    rows: Sequence[KgTrajectory], question: Question, context: KgContext
) -> tuple[tuple[KgTrajectory, ...], Meter]:
    """Return a question's selected episodes with the contradictions between their triples and documents, and the calls
    made to find these.

    Episodes that found the same share a call. Raises what the model's client raises; a fact whose reading is cut or too
    long is not checked.
    """
    if context.config.self_check == "off":
        return tuple(rows), Meter()
    held = await asyncio.gather(*(_held(row, question, context) for row in rows))
    return tuple(row for row, _ in held), sum((meter for _, meter in held), Meter())


async def _held(row: KgTrajectory, question: Question, context: KgContext) -> tuple[KgTrajectory, Meter]:
    meter = Meter()
    conflicts = await find_conflicts(row.steps, _reading(question, context, meter))
    return _called(replace(row, conflicts=conflicts), meter, question, context), meter


def _called(row: KgTrajectory, meter: Meter, question: Question, context: KgContext) -> KgTrajectory:
    """The row, which rests on these calls, too, with what follows from it."""
    # They are made at once, so that their order is that of their keys, not of their ends.
    keys = tuple(dict.fromkeys((*row.provenance.call_keys, *sorted(meter.keys))))
    row = replace(row, provenance=replace(row.provenance, call_keys=keys))
    return replace(row, **derive_fields(row, question, context.config))


def _reading(question: Question, context: KgContext, meter: Meter) -> Reading:
    offer = _leader_of(context.config).offer if context.config.is_led else None
    return Reading(context=context, asker=_asker(question, context, meter), offer=offer)


def _leader_of(config: KgGeneratorConfig) -> Leader:
    return load_plugin(LEADERS, config.style, field="generator.style")()


def _asker(question: Question, context: KgContext, meter: Meter) -> Asker:
    return context.asker(meter, context.config.episode.style, priority=2 * (question.hop_count or 0))


@dataclass(frozen=True, slots=True)
class _Work:
    """One question under way."""

    question: Question
    context: KgContext
    tool: SearchTool
    leader: Leader | None
    """None: the model searches as it will."""

    async def draw(self, sample: int, meter: Meter) -> KgTrajectory:
        asker = _asker(self.question, self.context, meter)
        run = await (self.leader.lead(self.tool, asker, sample) if self.leader else self._free(asker, sample))
        nearest = await self._nearest(run)
        row = row_of(self.question, run, self.context, sample=sample, call_keys=(), nearest=nearest)
        score = await self._judged(row, asker)
        provenance = replace(row.provenance, call_keys=meter.keys)
        row = replace(row, judge_score=score, provenance=provenance)
        return replace(row, **derive_fields(row, self.question, self.context.config)) if score is not None else row

    async def _judged(self, row: KgTrajectory, asker: Asker) -> float | None:
        """The judge's score of a near miss in the right form; None for other answers, and for no verdict."""
        options = self.context.config.judge
        if not options.near_misses or not holds_format(row.messages) or mcts_reward(row.final_answer, row.golds):
            return None
        if not is_near_miss(row.final_answer, row.golds):
            return None
        judged = Judged(question=self.question.question, answer=row.final_answer, golds=row.golds)
        return await grade(judged, options, asker)

    async def _free(self, asker: Asker, sample: int) -> EpisodeRun:
        context = self.context

        async def respond(search: Search) -> Observation:
            return await self.tool.search(search, asker.meter)

        return await run_episode(
            self.question.question,
            context.config.grammar,
            respond,
            client=context.client,
            model=context.model,
            config=context.config.episode,
            meter=asker.meter,
            seed=context.seed,
            sample=sample,
            priority=asker.priority,
        )

    async def _nearest(self, run: EpisodeRun) -> Sequence[float | None]:
        """How near the searches came to each supporting document."""
        question, threshold = self.question, self.context.config.recall_similarity
        sought = question.supporting_documents
        supporting = [Document(id="", title=each.title, text=question.support_text(each)) for each in sought]
        found = [document for step in steps_of(run) for document in step.documents]
        return await self.context.retrieval.measure_nearest(supporting, found, threshold)


def derive(rows: Sequence[KgTrajectory], question: Question, config: KgRunConfig) -> list[KgTrajectory]:
    """Return the rows with the fields that follow from question, conversation and steps."""
    return [replace(row, **derive_fields(row, question, config.generator)) for row in rows]


def choose(rows: Sequence[KgTrajectory], question: Question, config: KgRunConfig) -> Chosen[KgTrajectory]:
    """Choose which of a question's episodes are selected; see `choice.choose_rows`."""
    del question
    return choose_rows(rows, config.selection)


def pairs_of(chosen: Chosen[KgTrajectory], config: KgRunConfig) -> list[ContrastivePair]:
    """Return pairs of a good and a bad episode; see `choice.contrastive_pairs`."""
    return contrastive_pairs(chosen.kept, chosen.rejected, config.generator.max_pairs)


def problems_of(row: KgTrajectory, question: Question, checks: RowChecks) -> Iterator[str]:
    """Yield a line for each thing that is wrong with a selected episode and that no filter examines."""
    asked = facts_to_read(row) if checks.config.generator.answer_check != "off" else ()
    if [each.question for each in row.readings] != [fact.question for fact in asked]:
        yield "what its answer rests on was not read once more, or something else was"
    if not steps_match(row, checks.config.generator.grammar.opening(question.question)):
        yield "its steps and final answer are not those of its conversation"


def sft_rows(row: KgTrajectory, config: KgRunConfig) -> list[SftRow]:
    """Return the SFT row of a selected episode."""
    del config
    return [kg_sft_row(row)]


def unlike_question(row: RejectedRow, question: Question, config: KgRunConfig) -> str:
    """Return why a question was wrongly dropped as naming its answer; empty where it does name it."""
    del config
    return unlike_named(row, question)


def wrong_sft(row: KgTrajectory) -> list[SftRow]:
    """Return the SFT row of an episode that searched well and answered wrongly, for learning its searches."""
    return [without_answer(kg_sft_row(row))] if is_well_searched(row) else []


LIFE = Life(
    name=SEARCH,
    item=Question,
    table=NAME,
    open_context=open_context,
    draw=draw,
    derive=derive,
    choose=choose,
    after=read_and_hold,
    sft=sft_rows,
    wrong_sft=wrong_sft,
    products={"pairs": pairs_of},
    draws=EPISODE,
    choice=FILTER,
    place=attrgetter("sample"),
    problems=problems_of,
    refusal=unlike_question,
)
