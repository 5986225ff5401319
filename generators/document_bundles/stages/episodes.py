"""One R-Search episode for each selected question, and its SFT row."""

from __future__ import annotations

from pathlib import Path

from trailforge.filters.episodes import EpisodeFilterConfig, judge_episode
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.episodes import EpisodeContext, episode_sft_row, make_episodes
from trailforge.generators.document_bundles.stages.cleaning import TABLE as DOCUMENTS
from trailforge.inference import Meter, ModelClient
from trailforge.pipelines.engine.model_stage import ModelStage, ModelWork, rejected_row
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.accounting import stage
from trailforge.protocols import R_SEARCH
from trailforge.protocols.environment import open_environment
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


def open_context(work: ModelWork, client: ModelClient) -> EpisodeContext:
    """What all questions share; the documents are read whole, since any of them may be found."""
    config = work.config
    paths = sorted((Path(work.folder) / DOCUMENTS).glob("part-*.parquet"))
    documents = [] if config.tools.kind == "web" else list(read_rows(paths, SourceDocument))
    tools = open_environment(R_SEARCH, documents, search=config.tools).plan_tools
    assert tools is not None  # else it was not opened
    return EpisodeContext(
        run_id=work.run_id,
        seed=config.seed,
        config=config.episodes,
        tools=tools,
        model=config.model.name,
        client=client,
    )


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


episode_stage = ModelStage(
    name=NAME,
    item=BundleQuestion,
    tables={TABLE: SearchEpisode, SFT: SftRow, "rejected": RejectedRow},
    counted=(TABLE,),
    open_context=open_context,
    run_item=episode_of,
)


def against(episode: SearchEpisode, row: BundleQuestion, config: BundleRunConfig) -> Verdict | None:
    """The first verdict that rejects the episode."""
    limits = EpisodeFilterConfig(min_reward=config.episodes.min_reward, min_evidence=config.episodes.min_evidence)
    return next((verdict for verdict in judge_episode(episode, row, limits) if not verdict.keep), None)
