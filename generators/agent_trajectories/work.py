"""The stage of the run: questions -> draws of an agent -> verified episodes, SFT rows, pairs.

read_questions | cut into shards | ask from memory, n draws, choose, read again (per question) | write shard | manifest
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from trailforge.evaluation.agents import AgentRun, AgentTools
from trailforge.evaluation.results import EpisodeSetting, make_episode, read_texts
from trailforge.filters import answer_in_question
from trailforge.generators.agent_trajectories import DRAW, EPISODE, FILTER, NAME
from trailforge.generators.agent_trajectories.choice import (
    choose_rows,
    is_well_searched,
    preference_pairs,
    unlike_memory,
)
from trailforge.generators.agent_trajectories.config import FROM_MEMORY, PROMPTS, AgentRunConfig
from trailforge.generators.agent_trajectories.filters import known_from_memory, may_be_right
from trailforge.generators.agent_trajectories.rereading import read_row, reading_problems, waiting_rows
from trailforge.generators.agent_trajectories.rows import (
    derive_fields,
    searches_match,
    sft_rows,
    with_shares,
    with_verdict,
    without_time,
)
from trailforge.generators.answer_reading import choose_read
from trailforge.generators.search_options import count_support
from trailforge.generators.sft_rows import without_answer
from trailforge.inference import Asker, Meter, ModelClient, Sampling, fill
from trailforge.inference.judge import Judged, grade
from trailforge.pipelines import Chosen, Draws, Life, draw_all
from trailforge.pipelines.engine import ModelWork, RunContext, SupportCount
from trailforge.pipelines.runs import RowChecks
from trailforge.protocols.environment import Environment
from trailforge.protocols.result_filters import ResultFilter
from trailforge.retrieval import (
    WEB,
    LazyRetriever,
    PageTools,
    Retrieval,
    Tools,
    local_tools,
    open_encoder,
    open_retrieval,
    web_tools,
)
from trailforge.retrieval.encoders import Encoder
from trailforge.retrieval.kg import KgStore, KgTool
from trailforge.retrieval.pages import open_pages, pages_of
from trailforge.rewards import normalize_answer, read_short_answer
from trailforge.schemas import (
    AgentCosts,
    AgentEpisode,
    AgentTrajectory,
    ContrastivePair,
    Document,
    FromMemory,
    Question,
    SftRow,
    SourceDocument,
    to_dict,
)

_PLAN = "plan"
"""The value of `Agent.searches` for agents that run a whole plan at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext(RunContext):
    """What all questions of a run share: model client, settings, retrieval and perhaps a knowledge graph."""

    config: AgentRunConfig
    retrieval: Retrieval
    pages: PageTools | None = None
    """Pages of one corpus for all questions, for an agent that opens them."""
    kg: KgTool | None = None
    encoder: Encoder | None = None
    """Sentence encoder for plans that search a question's own paragraphs."""


def open_context(work: ModelWork, client: ModelClient) -> AgentContext:
    """Open what all questions of a run share. Raises an error when the index or the graph does not exist."""
    config: AgentRunConfig = work.config
    pages: PageTools | None = None
    if config.generator.browses and not config.retrieval.searches_paragraphs:
        opened = open_pages(None, config.retrieval)
        retrieval, pages = opened.retrieval, opened.tools
    else:
        retrieval = open_retrieval(config.retrieval)
    plans_here = config.generator.declared.searches == _PLAN and config.retrieval.searches_paragraphs
    return AgentContext(
        **work.shared(client),
        config=config,
        retrieval=retrieval,
        pages=pages,
        kg=KgTool(KgStore.open(Path(config.kg)), config.generator.graph) if config.kg else None,
        encoder=open_encoder(config.retrieval, backend_of(retrieval)) if plans_here else None,
    )


def backend_of(retrieval: Retrieval) -> str:
    """Return the name of the back end alone, without the hash that follows the name of a corpus."""
    return retrieval.name.partition(" ")[0]


async def draw(question: Question, context: AgentContext, config: AgentRunConfig) -> Draws[AgentTrajectory]:
    """Draw a question's episodes; none where the question names its answer or the model knows it from memory, which is
    found out by a few cheap calls.
    """
    named = answer_in_question(question)
    if not named.keep:
        return Draws(against=named)
    work = _Work(question, context, _environment(question, context))
    memory, asked = await work.ask_from_memory()
    verdict = known_from_memory(memory, most=config.filters.max_known_share)
    if memory.draws and not verdict.keep:
        return Draws(against=verdict, payload=to_dict(memory), meter=asked)
    drawn = await draw_all(work.draw, config.generator.draws)
    rows, of_judge = await work.judge(drawn.rows)
    return replace(
        drawn,
        rows=[replace(row, memory_answers=memory.answers) for row in rows],
        meter=asked + drawn.meter + of_judge,
        support=_support_of(question, [row.episode for row in drawn.rows], config),
    )


async def read_again(
    rows: Sequence[AgentTrajectory],
    chosen: Chosen[AgentTrajectory],
    question: Question,
    context: AgentContext,
    config: AgentRunConfig,
) -> tuple[Chosen[AgentTrajectory], Meter]:
    """Have a model read each chosen row once more, as configured: whether it states what the answer rests on, and which
    links it leaves open. A row that this rejects makes way for the next best of `rows`, the draws on the question.
    Returns the choice after that, and the calls made.
    """
    work = _Work(question, context, _environment(question, context))
    return await choose_read(
        rows,
        chosen,
        lambda drawn: choose(drawn, question, config),
        lambda held: waiting_rows(held, config.generator),
        work.read_again,
    )


def _support_of(question: Question, episodes: Sequence[AgentEpisode], config: AgentRunConfig) -> SupportCount:
    searches = [search for episode in episodes for search in episode.searches]
    titles = {title for search in searches for title in (*search.titles, *search.source_titles)}
    texts = {text for episode in episodes for text in read_texts(episode, question.question)}
    brought = [Document(id="", title=title, text="") for title in sorted(titles)]
    brought += [Document(id="", title="", text=text) for text in sorted(texts)]
    return count_support(question, brought, config.retrieval, has_searched=bool(searches))


def derive(rows: Sequence[AgentTrajectory], question: Question, config: AgentRunConfig) -> Sequence[AgentTrajectory]:
    """Return all draws on a question with the fields that follow from the question, their transcripts and each
    other."""
    generator = config.generator
    of_run = {
        "agent_config": generator.agent_config,
        "sft_protocol": generator.sft_protocol,
        "sft_calls": generator.sft_calls,
        "memory_draws": generator.memory.draws,
        "memory_answers": rows[0].memory_answers if rows else (),
    }
    return with_shares([replace(row, **derive_fields(row, question, generator.judge), **of_run) for row in rows])


def choose(rows: Sequence[AgentTrajectory], question: Question, config: AgentRunConfig) -> Chosen[AgentTrajectory]:
    """Choose which of a question's episodes are kept; see `choice.choose_rows`."""
    del question
    return choose_rows(rows, config.filters)


def pairs_of(chosen: Chosen[AgentTrajectory], config: AgentRunConfig) -> list[ContrastivePair]:
    """Return pairs of a better and a worse episode for preference training; see `choice.preference_pairs`."""
    return preference_pairs(chosen.kept, chosen.rejected, config.generator.max_pairs)


def sft_of(row: AgentTrajectory, config: AgentRunConfig) -> list[SftRow]:
    """Return the SFT rows of a kept episode; none where it follows no protocol that trainers know."""
    del config
    return sft_rows(row, data_source=NAME)


def problems_of(row: AgentTrajectory, question: Question, checks: RowChecks) -> Iterator[str]:
    """Yield a line for each thing that is wrong with a kept episode and that no filter examines."""
    del question
    if not searches_match(row):
        yield "its searches and answer are not those of its conversation"
    yield from reading_problems(row, checks.config.generator)


def wrong_sft(row: AgentTrajectory) -> list[SftRow]:
    """Return the SFT row of an episode that searched well and answered wrongly; none where it follows no protocol."""
    return [without_answer(each) for each in sft_rows(row, data_source=NAME)] if is_well_searched(row) else []


LIFE = Life(
    name=DRAW,
    item=Question,
    table=NAME,
    open_context=open_context,
    draw=draw,
    derive=derive,
    choose=choose,
    after=read_again,
    sft=sft_of,
    wrong_sft=wrong_sft,
    products={"pairs": pairs_of},
    draws=EPISODE,
    choice=FILTER,
    place=attrgetter("sample"),
    problems=problems_of,
    refusal=unlike_memory,
)


@dataclass(frozen=True, slots=True)
class _Work:
    """One question under way."""

    question: Question
    context: AgentContext
    environment: Environment

    async def draw(self, sample: int, meter: Meter) -> AgentTrajectory:
        """A draw as its row."""
        generator = self.context.config.generator
        tools = AgentTools(environment=self.environment, asker=self._asker(meter), sample=sample)
        run = await generator.declared.run(self.question.question, tools, generator.numbers)
        return self._row(run, sample, meter)

    async def ask_from_memory(self) -> tuple[FromMemory, Meter]:
        """What the same model says without any search, and its calls."""
        meter, memory = Meter(), self.context.config.generator.memory
        asker, prompt = self._asker(meter), fill(PROMPTS.text(FROM_MEMORY), question=self.question.question)
        sampling = Sampling(
            temperature=memory.temperature, top_p=memory.top_p, max_tokens=memory.max_tokens, stop=memory.stop
        )
        replies = await asyncio.gather(
            *(
                asker.text(prompt, purpose=FROM_MEMORY, sampling=sampling, sample=sample)
                for sample in range(memory.draws)
            )
        )
        answers = [reply.answer for reply in replies if reply.answer is not None]
        said = tuple(read_short_answer(answer, memory.max_answer_words) for answer in answers)
        question = self.question
        found = FromMemory(
            question_id=question.id,
            question=question.question,
            golds=question.golds,
            draws=memory.draws,
            answers=said,
        )
        return found, meter

    async def judge(self, rows: Sequence[AgentTrajectory]) -> tuple[list[AgentTrajectory], Meter]:
        """The rows with the judge's scores of the answers that may be right in other words, and the calls.

        Of each answer it is asked once, of the first so many of them; draws that answer alike share its score.
        """
        generator, question = self.context.config.generator, self.question
        near = [
            normalize_answer(row.episode.answer)
            for row in rows
            if generator.judge.near_misses and may_be_right(replace(row, **derive_fields(row, question)))
        ]
        told = {normalize_answer(row.episode.answer): row.episode.answer for row in reversed(rows)}
        asked = list(dict.fromkeys(near))[: generator.max_judged]
        meters = [Meter() for _ in asked]
        judged = (Judged(question=question.question, answer=told[each], golds=question.golds) for each in asked)
        scores = await asyncio.gather(
            *(grade(one, generator.judge, self._asker(meter)) for one, meter in zip(judged, meters, strict=True))
        )
        found = {each: (score, meter.keys) for each, score, meter in zip(asked, scores, meters, strict=True)}
        return [with_verdict(row, *found.get(normalize_answer(row.episode.answer), (None, ()))) for row in rows], sum(
            meters, Meter()
        )

    async def read_again(self, row: AgentTrajectory, meter: Meter) -> AgentTrajectory:
        """The row with what was read of it once more."""
        return await read_row(row, self._asker(meter), self.context.config.generator)

    def _row(self, run: AgentRun, sample: int, meter: Meter) -> AgentTrajectory:
        config, generator = self.context.config, self.context.config.generator
        usage, retrieval = meter.usage(config.model.prices), self.context.retrieval
        setting = EpisodeSetting(
            agent=generator.agent,
            agent_config=generator.agent_config,
            protocol=generator.declared.protocol,
            backend=backend_of(retrieval),
            index=config.retrieval.corpus_hash,
            model=config.model.name,
            seed=config.seed,
        )
        timeless = without_time(run)
        costs = AgentCosts(
            calls=usage.calls,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            context_tokens=run.context_tokens,
            seconds=0.0,
        )
        return AgentTrajectory(
            uid="",
            question_id=self.question.id,
            agent=generator.agent,
            agent_config=generator.agent_config,
            sft_protocol=generator.sft_protocol,
            sft_calls=generator.sft_calls,
            graph=config.kg_hash,
            sample=sample,
            episode=make_episode(self.question, timeless, setting, costs=costs),
            gold_hops=(),
            num_hops=0,
            token_estimate=0,
            draws=0,
            right_draws=0,
            provenance=self.context.provenance(
                f"{self.question.dataset}:{self.question.id}",
                generator.prompt_version,
                meter.keys,
                retriever=retrieval.name,
            ),
        )

    def _asker(self, meter: Meter) -> Asker:
        style, priority = self.context.config.generator.style, 2 * (self.question.hop_count or 0)
        return self.context.asker(meter, style, priority=priority)


def _environment(question: Question, context: AgentContext) -> Environment:
    """What the draws on a question search; documents are opened by the first search."""
    config, generator = context.config, context.config.generator
    filters = ResultFilter(
        rule=generator.kg_filter,
        documents=generator.document_filter,
        client=context.client,
        model=config.model.name,
        seed=config.seed,
        max_tokens=generator.filter_max_tokens,
    )
    documents = LazyRetriever(lambda: context.retrieval.for_question(question))
    own = context.pages or (pages_of(documents, question.paragraphs) if generator.browses else None)
    return Environment(
        documents=documents,
        pages=own,
        kg=context.kg,
        filters=filters,
        plan_tools=_plan_tools(question, context) if generator.declared.searches == _PLAN else None,
        top_k=generator.top_k,
        retriever=context.retrieval.name,
    )


def _plan_tools(question: Question, context: AgentContext) -> Tools:
    """Over the question's own paragraphs, of which nothing says that they are news or papers; or the web."""
    config = context.retrieval.config
    if config.kind == WEB:
        return web_tools(config)
    documents = [
        SourceDocument(id=each.id, source=question.dataset, kind="general", title=each.title, text=each.text)
        for each in question.paragraphs
    ]
    return local_tools(documents, config, context.encoder)
