"""Documents -> bundles -> questions -> a curriculum of them -> episodes (the second straight way of the house).

take in | clean | embed | bundle | write and filter questions | select | episodes | manifest

Every stage leaves receipts in the run's folder and is done once. Those that ask a model are `ModelStage`s, the others
have pipelines of their own.
"""

from __future__ import annotations

from pathlib import Path

from trailforge.generators import selecting
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.stages import cleaning, grouping, selection
from trailforge.pipelines import StageRun
from trailforge.pipelines.engine import Receipt, Shard
from trailforge.pipelines.runs import RunInputs, Settings, digest_of
from trailforge.pipelines.sources import take_in_documents


def take_in(inputs: RunInputs, folder: Path, config: BundleRunConfig) -> Settings:
    """Documents of files as shards in the run's folder, without what people refuse."""
    return take_in_documents(inputs, folder, config, shard_size=config.output.documents_per_shard)


def asks_questions(config: BundleRunConfig) -> bool:
    """Whether more than bundles is wanted."""
    return config.questions


def embedding_shards(cleaned: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """Of the documents that are left."""
    return cleaning.next_shards(receipts, grouping.EMBED)


def grouping_shards(embedded: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """One, of all documents."""
    return (grouping.only_shard(embedded, digest_of(receipts)),)


def selection_shards(bundles: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """One, of the questions of all bundles."""
    return (selecting.only_shard(bundles, digest_of(receipts)),)


def shards_made(before: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """Those that the only shard of the stage before cut its rows into."""
    return receipts[0].shards


def run_cleaning(run: StageRun) -> None:
    """Without duplicates and what has no content."""
    cleaning.clean(run)


def run_embedding(run: StageRun) -> None:
    """A vector for each document."""
    grouping.embed(run)


def run_grouping(run: StageRun) -> None:
    """Bundles of documents."""
    grouping.group(run)


def run_selection(run: StageRun) -> None:
    """A curriculum of the questions of all bundles."""
    selection.select(run)
