"""Documents -> bundles -> questions -> a curriculum of them -> episodes (the second straight way of the house).

take in | clean | embed | bundle | write and filter questions | select | episodes | manifest

Every stage leaves receipts in the run's folder and is done once. Those that ask a model run by `shards.run_pipeline`,
the others as Beam pipelines of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from trailforge.generators.document_bundles import NAME
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.stages import cleaning, embedding, episodes, grouping, questions, selection
from trailforge.pipelines.dataset import StageRun
from trailforge.pipelines.engine.shards import Receipt, Shard, run_pipeline
from trailforge.pipelines.runs.intake import Settings, take_in_documents
from trailforge.pipelines.runs.stages import digest_of
from trailforge.pipelines.sources.refused import NONE, Refusals
from trailforge.schemas import (
    SourceKind,
    to_dict,
)


def take_in(
    sources: Sequence[Path],
    folder: Path,
    config: BundleRunConfig,
    limit: int | None,
    *,
    column_map: Mapping[str, str] | None = None,
    source: str | None = None,
    kind: SourceKind | None = None,
    refused: Refusals = NONE,
) -> Settings:
    """Documents of files as shards in the run's folder, without what people refuse."""
    return take_in_documents(
        sources,
        folder,
        dataset=NAME,
        config_hash=config.hash,
        config=json.dumps(to_dict(config)),
        shard_size=config.output.documents_per_shard,
        limit=limit,
        column_map=column_map,
        source=source,
        kind=kind,
        refused=refused,
    )


def asks_questions(config: BundleRunConfig) -> bool:
    """Whether more than bundles is wanted."""
    return config.questions


def embedding_shards(cleaned: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """Of the documents that are left."""
    return cleaning.next_shards(receipts, embedding.NAME)


def grouping_shards(embedded: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """One, of all documents."""
    return (grouping.only_shard(embedded, digest_of(receipts)),)


def selection_shards(bundles: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """One, of the questions of all bundles."""
    return (selection.only_shard(bundles, digest_of(receipts)),)


def shards_made(before: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """Those that the only shard of the stage before cut its rows into."""
    return receipts[0].shards


def run_cleaning(run: StageRun) -> None:
    """Without duplicates and what has no content."""
    cleaning.clean(run.folder, run.shards, run.config.content, run.config.duplicates, run.arguments)


def run_embedding(run: StageRun) -> None:
    """A vector for each document."""
    embedding.embed(run.folder, run.shards, run.config.encoder, run.arguments)


def run_grouping(run: StageRun) -> None:
    """Bundles of documents."""
    config: BundleRunConfig = run.config
    per_shard, made_of = config.output.bundles_per_shard, next(iter(run.shards)).made_of
    grouping.group(run.folder, run.before, config.bundles, config.seed, per_shard, run.arguments, made_of)


def run_questions(run: StageRun) -> None:
    """Questions of each bundle, filtered one by one."""
    config: BundleRunConfig = run.config
    work = questions.QuestionWork(folder=str(run.folder), run_id=run.settings.run_id, config=config, preset=run.preset)
    run_pipeline(work, run.folder, run.shards, run.arguments, config.schedule.patience)


def run_selection(run: StageRun) -> None:
    """A curriculum of the questions of all bundles."""
    selection.select(run.folder, run.before, run.config, next(iter(run.shards)).made_of)


def run_episodes(run: StageRun) -> None:
    """An episode for each question."""
    config: BundleRunConfig = run.config
    work = episodes.EpisodeWork(folder=str(run.folder), run_id=run.settings.run_id, config=config)
    run_pipeline(work, run.folder, run.shards, run.arguments, config.schedule.patience)
