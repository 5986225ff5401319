"""Documents -> bundles -> questions -> a curriculum of them -> episodes (the second straight way of the house).

take in | clean | embed | bundle | write and filter questions | select | episodes | manifest

Every stage leaves receipts in the run's folder and is done once. Those that ask a model run by `shards.run_pipeline`,
the others as Beam pipelines of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from trailforge.generators.document_bundles.card import card
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.stages import cleaning, embedding, episodes, grouping, questions, selection
from trailforge.pipelines.dataset import Dataset, Stage, digest_of, following
from trailforge.pipelines.engine.shards import run_pipeline
from trailforge.pipelines.runs.intake import Settings, take_in_documents
from trailforge.pipelines.sources.refused import NONE, Refusals
from trailforge.schemas import (
    Bundle,
    BundleInput,
    BundleQuestion,
    DocumentEmbedding,
    Manifest,
    RejectedRow,
    SearchEpisode,
    SftRow,
    SourceDocument,
    SourceKind,
    to_dict,
)

DATASET = "document_bundles"
BEFORE_MODEL = (cleaning.NAME, embedding.NAME, grouping.NAME)
WITH_MODEL = (questions.NAME, selection.NAME, episodes.NAME)
"""The stages, in order."""
TABLES: Mapping[str, type] = {
    cleaning.TABLE: SourceDocument,
    embedding.TABLE: DocumentEmbedding,
    grouping.TABLE: Bundle,
    grouping.INPUTS: BundleInput,
    questions.TABLE: BundleQuestion,
    selection.TABLE: BundleQuestion,
    episodes.TABLE: SearchEpisode,
    episodes.SFT: SftRow,
    "rejected": RejectedRow,
}


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
        dataset=DATASET,
        config_hash=config.hash,
        config=json.dumps(to_dict(config)),
        shard_size=config.output.documents_per_shard,
        limit=limit,
        column_map=column_map,
        source=source,
        kind=kind,
        refused=refused,
    )


def stages_of(folder: Path, settings: Settings) -> list[Stage]:
    """All stages in their order, with the shards that are known so far."""
    config: BundleRunConfig = BUNDLES.configuration(settings)
    cleaned = following(folder, settings.shards, lambda made: cleaning.next_shards(made, embedding.NAME))
    together = following(folder, cleaned, lambda made: (grouping.only_shard(cleaned or (), digest_of(made)),))
    stages = [
        Stage(name=cleaning.NAME, unit="documents", shards=settings.shards),
        Stage(name=embedding.NAME, unit="documents", shards=cleaned),
        Stage(name=grouping.NAME, unit="documents", shards=together),
    ]
    if not config.questions:
        return stages
    bundles = following(folder, together, lambda made: made[0].shards)
    selecting = following(folder, bundles, lambda made: (selection.only_shard(bundles or (), digest_of(made)),))
    return [
        *stages,
        Stage(name=questions.NAME, unit="bundles", shards=bundles),
        Stage(name=selection.NAME, unit="bundles", shards=selecting),
        Stage(name=episodes.NAME, unit="questions", shards=following(folder, selecting, lambda made: made[0].shards)),
    ]


def run(
    name: str, folder: Path, settings: Settings, config: BundleRunConfig, preset: str, arguments: Sequence[str]
) -> None:
    """Run what of a stage is missing; the stages before it are finished."""
    folder = folder.absolute()  # workers may stand elsewhere
    shards = {stage.name: stage.shards or () for stage in stages_of(folder, settings)}
    output = config.output
    match name:
        case cleaning.NAME:
            cleaning.clean(folder, shards[name], config.content, config.duplicates, arguments)
        case embedding.NAME:
            embedding.embed(folder, shards[name], config.encoder, arguments)
        case grouping.NAME:
            documents = shards[embedding.NAME]
            per_shard, made_of = output.bundles_per_shard, next(iter(shards[name])).made_of
            grouping.group(folder, documents, config.bundles, config.seed, per_shard, arguments, made_of)
        case selection.NAME:
            selection.select(folder, shards[questions.NAME], config, next(iter(shards[name])).made_of)
        case questions.NAME:
            work = questions.QuestionWork(folder=str(folder), run_id=settings.run_id, config=config, preset=preset)
            run_pipeline(work, folder, shards[name], arguments, config.schedule.patience)
        case _:
            work = episodes.EpisodeWork(folder=str(folder), run_id=settings.run_id, config=config)
            run_pipeline(work, folder, shards[name], arguments, config.schedule.patience)


def _card(folder: Path, manifest: Manifest, settings: Settings) -> str:
    return card(folder, manifest, BUNDLES.configuration(settings))


BUNDLES = Dataset(
    name=DATASET,
    item=SourceDocument,
    tables=TABLES,
    config=BundleRunConfig,
    last_stage=selection.NAME,
    counted=(selection.TABLE, "type"),
    candidates=questions.TABLE,
    option="--documents",
    stages=stages_of,
    card=_card,
    beside={"plots": r"(funnel|documents|bundles)\.png", grouping.WORK: grouping.WORK_FILES},
)
