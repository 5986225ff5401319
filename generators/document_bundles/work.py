"""The stages of a run: documents -> bundles -> questions -> a curriculum of them -> episodes.

take in | clean | embed | bundle | write and filter questions | select | episodes | manifest

Every stage leaves receipts in the run's folder and is done once. Those that ask a model are `ModelStage`s, the others
have pipelines of their own.
"""

from __future__ import annotations

from pathlib import Path

from trailforge.generators import select_stage
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.stages import cleaning, grouping, selection
from trailforge.pipelines import StageRun
from trailforge.pipelines.engine import Receipt, Shard
from trailforge.pipelines.runs import RunInputs, Settings, digest_of, take_in_documents


def take_in(inputs: RunInputs, folder: Path, config: BundleRunConfig) -> Settings:
    """Write the documents of the input files as shards into the run's folder, without those that people refuse; returns
    the run's settings.
    """
    return take_in_documents(inputs, folder, config, shard_size=config.output.documents_per_shard)


def asks_questions(config: BundleRunConfig) -> bool:
    """Tell whether a run makes questions and not only bundles."""
    return config.questions


def embedding_shards(cleaned: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """Return the shards of the documents that cleaning leaves."""
    return cleaning.next_shards(receipts, grouping.EMBED)


def grouping_shards(embedded: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """Return the one shard of grouping, which works on all documents together."""
    return (grouping.only_shard(embedded, digest_of(receipts)),)


def selection_shards(bundles: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """Return the one shard of selection, which works on the questions of all bundles together."""
    return (select_stage.only_shard(bundles, digest_of(receipts)),)


def shards_made(before: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """Return the shards into which the single shard of the preceding stage cut its rows, as its receipt says."""
    return receipts[0].shards


def run_cleaning(run: StageRun) -> None:
    """Run the stage that cleans documents, and drops duplicates and documents without content."""
    cleaning.clean(run)


def run_embedding(run: StageRun) -> None:
    """Run the stage that computes a vector for each document."""
    grouping.embed(run)


def run_grouping(run: StageRun) -> None:
    """Run the stage that bundles documents."""
    grouping.group(run)


def run_selection(run: StageRun) -> None:
    """Run the stage that makes a curriculum of the questions of all bundles."""
    selection.select(run)
