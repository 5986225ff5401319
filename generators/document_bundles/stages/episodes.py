"""Make one R-Search episode for each selected question, and its SFT row."""

from __future__ import annotations

from pathlib import Path

from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.episode_rows import episode_sft_row
from trailforge.generators.document_bundles.planned_episodes import EpisodeContext, make_episodes, planner_of
from trailforge.generators.document_bundles.stages.cleaning import TABLE as DOCUMENTS
from trailforge.inference import Meter, ModelClient
from trailforge.pipelines.engine import ItemResult, ModelStage, ModelWork, rejected_row
from trailforge.pipelines.runs import stage
from trailforge.retrieval import open_tools
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
DRAW = "draw"
"""The name of the line in the run's books that counts candidates: draws of the model and gold plans."""
ANOTHER = "another_is_kept"
"""The reason for rejecting a candidate that every filter keeps, when another one is taken."""
TABLE, SFT = "episodes", "sft"


def open_context(work: ModelWork, client: ModelClient) -> EpisodeContext:
    """Open what all questions share. All documents are read, since any of them may be found by a search."""
    config = work.config
    paths = sorted((Path(work.folder) / DOCUMENTS).glob("part-*.parquet"))
    documents = [] if config.tools.kind == "web" else list(read_rows(paths, SourceDocument))
    return EpisodeContext(
        **work.shared(client),
        config=config.episodes,
        tools=open_tools(config.tools, documents),
        planner=planner_of(config.episodes, None if config.tools.kind == "web" else {each.kind for each in documents}),
        judge=config.judge,
        retriever=config.tools.kind,
    )


async def episode_of(row: BundleQuestion, context: EpisodeContext, config: BundleRunConfig) -> ItemResult:
    """Return the best candidate episode if every filter keeps it; all others, and a question without any, become
    rejected rows.
    """
    meter = Meter()
    best, *others = await make_episodes(row, context, meter)
    lost = others if best.verdict is None else [best, *others]
    another = Verdict(keep=False, reason=ANOTHER, score=1.0, detail=f"{best.episode.uid} is")
    rejected = [rejected_row(DRAW, each.episode.uid, each.verdict or another, to_dict(each.episode)) for each in lost]
    candidates = stage(
        DRAW, inputs=1 + len(others), accepted=int(best.verdict is None), rejected=[r.reason for r in rejected]
    )
    reasons: list[str] = []
    if best.verdict is not None:
        reasons.append(best.verdict.reason)
        rejected.append(rejected_row(NAME, row.uid, best.verdict, to_dict(row)))
    books = stage(NAME, inputs=1, accepted=1 - len(reasons), rejected=reasons)
    episodes = [best.episode] if best.verdict is None else []
    return ItemResult(
        rows={TABLE: episodes, SFT: [episode_sft_row(e) for e in episodes], "rejected": rejected},
        stages=(candidates, books),
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
