"""One question to its KG-search episodes (DynaSearcher, sections 3.1 and 3.2).

generated = await generate(question, context)          n episodes, annotated and rewarded
chosen = selection.select(generated.candidates)        the best of those that every filter keeps
selection.contrastive_pairs(chosen.selected, chosen.rejected, config.max_pairs)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trailforge.generators.kg_trajectories.config import (
    LEADERS,
    GuidedConfig,
    KgContext,
    KgFilter,
    KgGeneratorConfig,
    KgPromptNames,
    ReadingConfig,
    SelfCheck,
)
from trailforge.generators.kg_trajectories.reading import Offer, Reading, find_conflicts
from trailforge.generators.kg_trajectories.rows import (
    made_of,
    reward_of,
    row_of,
    steps_of,
    support_texts,
    tells_its_steps,
)
from trailforge.generators.kg_trajectories.tool import SearchTool
from trailforge.inference import Meter, Usage
from trailforge.inference.asker import Asker
from trailforge.protocols import KG_SEARCH
from trailforge.protocols.episodes import EpisodeRun, run_episode
from trailforge.protocols.turns import Observation, Search
from trailforge.schemas import ITEM_ERRORS, InvalidInput, KgConflict, KgTrajectory, Question, TrailforgeError
from trailforge.schemas.plugins import load_plugin

__all__ = [
    "GeneratedEpisodes",
    "GuidedConfig",
    "KgContext",
    "KgFilter",
    "KgGeneratorConfig",
    "KgPromptNames",
    "LostEpisode",
    "ReadingConfig",
    "SelfCheck",
    "generate",
    "made_of",
    "reward_of",
    "tells_its_steps",
]


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
    usage: Usage = field(default_factory=Usage)
    """Of the distinct calls behind it."""


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
    leader = load_plugin(LEADERS, config.style, field="generator.style")() if config.is_led else None
    work = _Work(question, context, SearchTool.open(question, context), leader)
    made = await asyncio.gather(*(work.draw(number) for number in range(context.config.episodes)))
    lost = tuple(drawn for drawn, _ in made if isinstance(drawn, LostEpisode))
    if len(lost) == len(made):
        raise lost[0].error
    meter = sum((meter for _, meter in made), Meter())
    rows = tuple(drawn for drawn, _ in made if isinstance(drawn, KgTrajectory))
    return GeneratedEpisodes(candidates=rows, lost=lost, usage=meter.usage(context.prices))


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
        asker = Asker(
            client=self.context.client,
            model=self.context.model,
            style=self.context.config.episode.style,
            seed=self.context.seed,
            meter=meter,
            priority=2 * (self.question.hop_count or 0),
        )
        run = await (self.leader.lead(self.tool, asker, sample) if self.leader else self._free(asker, sample))
        conflicts, nearest = await self._conflicts(run, asker), await self._nearest(run)
        return row_of(
            self.question,
            run,
            self.context,
            sample=sample,
            call_keys=meter.keys,
            conflicts=conflicts,
            nearest=nearest,
        )

    async def _free(self, asker: Asker, sample: int) -> EpisodeRun:
        context = self.context

        async def respond(search: Search) -> Observation:
            return await self.tool.search(search, asker.meter)

        return await run_episode(
            self.question.question,
            KG_SEARCH,
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

    async def _conflicts(self, run: EpisodeRun, asker: Asker) -> Sequence[KgConflict]:
        """What graph and documents say differently; read plainly, so that episodes with one search share the call."""
        if self.context.config.self_check == "off":
            return ()
        reading = Reading(context=self.context, asker=asker, offer=self.leader.offer if self.leader else None)
        return await find_conflicts(steps_of(run), reading)
