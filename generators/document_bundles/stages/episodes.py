"""One R-Search episode for each selected question, and its SFT row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from trailforge.filters.episodes import EpisodeFilterConfig, judge_episode
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.episodes import EpisodeContext, episode_sft_row, make_episodes
from trailforge.generators.document_bundles.stages.cleaning import TABLE as DOCUMENTS
from trailforge.inference import Meter, ModelClient
from trailforge.pipelines.engine.model_work import ModelSession, ModelWork, rejected_row
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.accounting import stage
from trailforge.retrieval.plan_tools import Tools, open_tools
from trailforge.schemas import (
    BundleQuestion,
    RejectedRow,
    SearchEpisode,
    SftRow,
    SourceDocument,
    Verdict,
    read_rows,
    to_dict,
)

NAME = "episode"
TABLE, SFT = "episodes", "sft"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeWork(ModelWork):
    """Runs the plans of questions over the run's documents, or over the web."""

    config: BundleRunConfig

    item = BundleQuestion
    tables = MappingProxyType({TABLE: SearchEpisode, SFT: SftRow, "rejected": RejectedRow})
    stage = NAME

    async def open(self) -> EpisodeSession:
        """Connect; the documents are read whole, since any of them may be found."""
        paths = sorted((Path(self.folder) / DOCUMENTS).glob("part-*.parquet"))
        documents = [] if self.config.tools.kind == "web" else list(read_rows(paths, SourceDocument))
        return EpisodeSession(self, await self.client(), open_tools(self.config.tools, documents))


class EpisodeSession(ModelSession):
    """A worker at work."""

    def __init__(self, work: EpisodeWork, client: ModelClient, tools: Tools) -> None:
        ModelSession.__init__(self, client)
        self._config = work.config
        self._context = EpisodeContext(
            run_id=work.run_id,
            seed=work.config.seed,
            config=work.config.episodes,
            tools=tools,
            model=work.config.model.name,
            client=client,
        )

    async def run(self, item: BundleQuestion, position: int) -> ItemResult:
        """Make the episode of one question."""
        result = await episode_of(item, self._context, self._config)
        self.count(result, *(["episode"] * len(result.rows[TABLE])))
        return result


async def episode_of(row: BundleQuestion, context: EpisodeContext, config: BundleRunConfig) -> ItemResult:
    """The best candidate that every filter keeps; else the best one, rejected for the first reason against it."""
    meter = Meter()
    candidates = await make_episodes(row, context, meter)
    judged = [(episode, against(episode, row, config)) for episode in candidates]
    kept = next((episode for episode, verdict in judged if verdict is None), None)
    rejected: list[RejectedRow] = []
    if kept is None:
        episode, verdict = judged[0]
        assert verdict is not None
        rejected.append(rejected_row(NAME, row.uid, verdict, to_dict(episode)))
    books = stage(NAME, inputs=1, accepted=int(kept is not None), rejected=[r.reason for r in rejected])
    episodes = [] if kept is None else [kept]
    return ItemResult(
        rows={TABLE: episodes, SFT: [episode_sft_row(e) for e in episodes], "rejected": rejected},
        stages=(books,),
        usage=meter.usage(config.model.prices),
    )


def against(episode: SearchEpisode, row: BundleQuestion, config: BundleRunConfig) -> Verdict | None:
    """The first verdict that rejects the episode."""
    limits = EpisodeFilterConfig(min_reward=config.episodes.min_reward, min_evidence=config.episodes.min_evidence)
    return next((verdict for verdict in judge_episode(episode, row, limits) if not verdict.keep), None)
