"""Remove accepted questions that repeat another one or a benchmark's, and order the rest as a curriculum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from trailforge.filters import first_rejection, scores_of
from trailforge.filters.bundle_twins import duplicate_question
from trailforge.filters.bundles import Benchmarks, benchmarks_of, contaminated
from trailforge.generators.document_bundles.config import BundleRunConfig, SelectionConfig, encoder_of
from trailforge.generators.select_stage import finish_selection, read_candidates, write_parts
from trailforge.pipelines import StageRun
from trailforge.pipelines.engine import missing_shards
from trailforge.pipelines.sources import read_benchmark
from trailforge.retrieval.encoders import Encoder
from trailforge.schemas import BundleQuestion, Verdict

TABLE = "bundle_questions"


def select(run: StageRun) -> None:
    """Write the table `bundle_questions` of a run, easy questions first, and the rejected ones, unless that is done."""
    config: BundleRunConfig = run.config
    for shard in missing_shards(run.folder, run.shards):
        candidates = list(read_candidates(run.folder, run.before, BundleQuestion))
        kept, rejected = (
            select_distinct(candidates, encoder_of(config.encoder), config.selection) if candidates else ([], [])
        )
        rows = order_rows(kept, config.selection.stages)
        files, shards = write_parts(run.folder, TABLE, BundleQuestion, rows, config.output.questions_per_shard)
        finish_selection(run.folder, shard, rows, rejected, files, shards)


def select_distinct(
    candidates: Sequence[BundleQuestion], encoder: Encoder, config: SelectionConfig
) -> tuple[list[BundleQuestion], list[tuple[BundleQuestion, Verdict]]]:
    """Return the questions that are kept, each with two more scores (its likeness to another question and to a
    benchmark's), and the others with the verdict that rejects them. Of two that ask the same the first is kept.
    """
    benchmarks = _benchmarks(config, encoder)
    vectors = encoder.encode_documents([row.question for row in candidates])
    kept: list[BundleQuestion] = []
    places: list[int] = []
    rejected: list[tuple[BundleQuestion, Verdict]] = []
    for place, row in enumerate(candidates):
        verdicts = [
            duplicate_question(row, vectors[place], kept, vectors[places], most_alike=config.most_alike),
            contaminated(row.question, vectors[place], benchmarks, most_alike=config.most_alike_benchmark),
        ]
        against = first_rejection(verdicts)
        if against is not None:
            rejected.append((row, against))
            continue
        kept.append(replace(row, filters=(*row.filters, *scores_of(verdicts))))
        places.append(place)
    return kept, rejected


def _benchmarks(config: SelectionConfig, encoder: Encoder) -> Benchmarks:
    """The questions of all files, each text once."""
    questions = {q: Path(path).name for path in config.benchmarks for q in read_benchmark(Path(path))}
    vectors = encoder.encode_documents(list(questions)) if questions else np.zeros((0, 1), np.float32)
    return benchmarks_of([(name, q) for q, name in questions.items()], vectors, config.benchmark_words)


def order_rows(rows: Sequence[BundleQuestion], stages: int) -> list[BundleQuestion]:
    """Return the rows ordered by complexity, the easy ones first, each with its curriculum stage from 1 to `stages`.
    Stages are as equal in size as possible; rows of the same complexity share the earlier stage.
    """
    ordered = sorted(rows, key=lambda row: (row.complexity, row.uid))
    stage_of: dict[float, int] = {}
    for position, row in enumerate(ordered):
        stage_of.setdefault(row.complexity, 1 + position * stages // len(ordered))
    return [replace(row, curriculum_stage=stage_of[row.complexity]) for row in ordered]
