"""One question to its KG-search episodes (DynaSearcher, sections 3.1 and 3.2).

generated = await generate(question, context)          n episodes, annotated and rewarded
chosen = selection.select(generated.candidates)        the best of those that every filter keeps
await hold_against_documents(chosen.selected, …)       what the graph says and the documents do not
selection.contrastive_pairs(chosen.selected, chosen.rejected, config.max_pairs)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from trailforge.generators.kg_trajectories.config import (
    LEADERS,
    KgContext,
    KgGeneratorConfig,
)
from trailforge.generators.kg_trajectories.reading import Offer, Reading, find_conflicts
from trailforge.generators.kg_trajectories.rows import (
    holds_format,
    made_of,
    row_of,
    steps_of,
    support_texts,
)
from trailforge.generators.kg_trajectories.tool import SearchTool
from trailforge.inference import Meter
from trailforge.inference.asker import Asker
from trailforge.inference.judge import Judge, Judged
from trailforge.protocols.episodes import EpisodeRun, run_episode
from trailforge.protocols.turns import Observation, Search
from trailforge.rewards import is_near_miss, mcts_reward
from trailforge.schemas import ITEM_ERRORS, InvalidInput, KgTrajectory, MalformedReply, Question, TrailforgeError
from trailforge.schemas.plugins import load_plugin


class Leader(Protocol):
    """Leads a model along the gold decomposition of a question that it could not search for by itself."""

    offer: Offer
    """What its model may answer with when it reads."""

    async def lead(self, tool: SearchTool, asker: Asker, sample: int) -> EpisodeRun:
        """One episode. `asker.meter` counts its calls. Raises what retrieval and the client raise."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LostEpisode:
    """A draw without an end: a reply that it needed stayed malformed or cut, or its prompt grew too long."""

    sample: int
    error: TrailforgeError


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedEpisodes:
    """What one question gave: episodes that no filter has seen yet, in the order of their draws."""

    candidates: tuple[KgTrajectory, ...]
    lost: tuple[LostEpisode, ...] = ()
    meter: Meter = field(default_factory=Meter)
    """Has counted the distinct calls behind it."""


async def generate(question: Question, context: KgContext) -> GeneratedEpisodes:
    """All episodes of a question, made at once.

    Raises `InvalidInput` for a guided question without gold decomposition or a question without paragraphs to search,
    what the client raises, and the first episode's error when all were lost.
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
    made = await asyncio.gather(*(work.draw(number) for number in range(context.config.episodes)))
    lost = tuple(drawn for drawn, _ in made if isinstance(drawn, LostEpisode))
    if len(lost) == len(made):
        raise lost[0].error
    meter = sum((meter for _, meter in made), Meter())
    rows = tuple(drawn for drawn, _ in made if isinstance(drawn, KgTrajectory))
    return GeneratedEpisodes(candidates=rows, lost=lost, meter=meter)


async def hold_against_documents(
    rows: Sequence[KgTrajectory], question: Question, context: KgContext
) -> tuple[tuple[KgTrajectory, ...], Meter]:
    """The self-check of a question's selected episodes: the same rows with their conflicts, all found at once.

    The meter has counted the calls, of which episodes that found the same share one. Raises what the client raises; a
    fact whose reading is cut or too long is left unchecked.
    """
    if context.config.self_check == "off":
        return tuple(rows), Meter()
    held = await asyncio.gather(*(_held(row, question, context) for row in rows))
    return tuple(row for row, _ in held), sum((meter for _, meter in held), Meter())


async def _held(row: KgTrajectory, question: Question, context: KgContext) -> tuple[KgTrajectory, Meter]:
    meter = Meter()
    offer = _leader_of(context.config).offer if context.config.is_led else None
    reading = Reading(context=context, asker=_asker(question, context, meter), offer=offer)
    conflicts = await find_conflicts(row.steps, reading)
    # The facts are read at once, so that the order of these calls is that of their keys, not of their ends.
    keys = tuple(dict.fromkeys((*row.provenance.call_keys, *sorted(meter.keys))))
    row = replace(row, conflicts=conflicts, provenance=replace(row.provenance, call_keys=keys))
    return replace(row, **made_of(row, question, context.config)), meter


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

    async def draw(self, sample: int) -> tuple[KgTrajectory | LostEpisode, Meter]:
        """A draw as its row, and its calls. One that is lost costs the others nothing."""
        meter = Meter()
        try:
            return await self._episode(sample, meter), meter
        except ITEM_ERRORS as error:
            return LostEpisode(sample=sample, error=error), meter

    async def _episode(self, sample: int, meter: Meter) -> KgTrajectory:
        asker = _asker(self.question, self.context, meter)
        run = await (self.leader.lead(self.tool, asker, sample) if self.leader else self._free(asker, sample))
        nearest = await self._nearest(run)
        row = row_of(self.question, run, self.context, sample=sample, call_keys=(), nearest=nearest)
        score = await self._judged(row, asker)
        provenance = replace(row.provenance, call_keys=meter.keys)
        row = replace(row, judge_score=score, provenance=provenance)
        return replace(row, **made_of(row, self.question, self.context.config)) if score is not None else row

    async def _judged(self, row: KgTrajectory, asker: Asker) -> float | None:
        """The judge's score of a near miss in the right form; None for other answers, and for no verdict."""
        options = self.context.config.judge
        if not options.near_misses or not holds_format(row.messages) or mcts_reward(row.final_answer, row.golds):
            return None
        if not is_near_miss(row.final_answer, row.golds):
            return None
        judge = Judge(
            client=asker.client,
            model=options.model or asker.model,
            max_tokens=options.max_tokens,
            purpose="grade",
            priority=asker.priority,
        )
        judged = Judged(question=self.question.question, answer=row.final_answer, golds=row.golds)
        try:
            return await judge.score(judged, asker.meter)
        except MalformedReply:
            return None

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
        threshold = self.context.config.recall_similarity
        found = [document for step in steps_of(run) for document in step.documents]
        return await self.context.retrieval.measure_nearest(support_texts(self.question), found, threshold)
