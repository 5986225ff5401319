"""Questions and a knowledge graph -> annotated search episodes -> pairs, SFT rows (the third straight way).

read_questions | cut into shards | n episodes, select (per question) | write shard | manifest
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from trailforge.generators.kg_trajectories.card import card
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.generators.kg_trajectories.generate import KgContext, LostEpisode, generate
from trailforge.generators.kg_trajectories.rows import kg_sft_row
from trailforge.generators.kg_trajectories.selection import contrastive_pairs, select
from trailforge.inference import ModelClient
from trailforge.pipelines.dataset import Dataset, Stage
from trailforge.pipelines.engine.model_work import ModelSession, ModelWork, rejected_row
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.accounting import stage
from trailforge.pipelines.runs.intake import Settings, take_in_questions
from trailforge.pipelines.sources.refused import NONE, Refusals
from trailforge.retrieval import open_retrieval
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import (
    ContrastivePair,
    InvalidInput,
    KgTrajectory,
    Manifest,
    Question,
    RejectedRow,
    SftRow,
    read_rows,
    to_dict,
)

DATASET = "kg_trajectories"
SEARCH, EPISODE, FILTER = "search", "episode", "filter"
TABLES: Mapping[str, type] = MappingProxyType(
    {DATASET: KgTrajectory, "pairs": ContrastivePair, "sft": SftRow, "rejected": RejectedRow}
)


def take_in(source: Path, folder: Path, config: KgRunConfig, limit: int | None, refused: Refusals = NONE) -> Settings:
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
        needs_decomposition=config.generator.is_led,
        refused=refused,
    )


def _card(folder: Path, manifest: Manifest, settings: Settings) -> str:
    rows = read_rows(sorted((folder / DATASET).glob("part-*.parquet")), KgTrajectory)
    rejected = read_rows(sorted((folder / "rejected").glob("part-*.parquet")), RejectedRow)
    episodes = (row for row in rejected if row.stage == FILTER)
    return card(folder, manifest, KG.configuration(settings), rows, episodes)


KG = Dataset(
    name=DATASET,
    item=Question,
    tables=TABLES,
    config=KgRunConfig,
    last_stage=FILTER,
    counted=(DATASET, "origin"),
    stages=lambda folder, settings: [Stage(name=SEARCH, unit="questions", shards=settings.shards)],
    card=_card,
    beside={"plots": r"(funnel|rewards)\.png"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KgWork(ModelWork):
    """Searches documents and graph for questions."""

    config: KgRunConfig

    item = Question
    tables = TABLES
    stage = SEARCH

    async def open(self) -> KgSession:
        """Connect; fails at once when model, index or graph is not there."""
        if not self.config.kg:
            raise InvalidInput("no knowledge graph", field="kg")
        store = KgStore.open(Path(self.config.kg))
        return KgSession(self, await self.client(), store)


class KgSession(ModelSession):
    """A worker at work."""

    def __init__(self, work: KgWork, client: ModelClient, store: KgStore) -> None:
        ModelSession.__init__(self, client)
        config = self._config = work.config
        self._context = KgContext(
            run_id=work.run_id,
            model=config.model.name,
            seed=config.seed,
            prices=config.model.prices,
            config=config.generator,
            client=client,
            retrieval=open_retrieval(config.retrieval),
            store=store,
        )

    async def run(self, item: Question, position: int) -> ItemResult:
        """Make and select the episodes of one question."""
        result = await episodes_of(item, self._context, self._config)
        self.count(result, *(row.origin for row in result.rows[DATASET]))
        return result


async def episodes_of(question: Question, context: KgContext, config: KgRunConfig) -> ItemResult:
    """The selected episodes of a question, the others with what is against them, pairs of both."""
    generated = await generate(question, context)
    lost = [_lost_row(question, episode) for episode in generated.lost]
    selection = select(generated.candidates, config.selection)
    rejected = [rejected_row(FILTER, row.uid, verdict, to_dict(row)) for row, verdict in selection.rejected]
    books = (
        stage(SEARCH, inputs=1, accepted=1),
        stage(
            EPISODE,
            inputs=len(generated.candidates) + len(lost),
            accepted=len(generated.candidates),
            failed=[row.reason for row in lost],
        ),
        stage(
            FILTER,
            inputs=len(generated.candidates),
            accepted=len(selection.selected),
            rejected=[row.reason for row in rejected],
        ),
    )
    return ItemResult(
        rows={
            DATASET: selection.selected,
            "pairs": contrastive_pairs(selection.selected, selection.rejected, config.generator.max_pairs),
            "sft": [kg_sft_row(row) for row in selection.selected],
            "rejected": [*lost, *rejected],
        },
        stages=books,
        usage=generated.usage,
    )


def _lost_row(question: Question, episode: LostEpisode) -> RejectedRow:
    return RejectedRow(
        uid=f"{question.id}:{episode.sample}",
        stage=EPISODE,
        reason=episode.error.reason,
        score=0.0,
        detail=str(episode.error),
        payload=json.dumps(to_dict(question), ensure_ascii=False),
    )
