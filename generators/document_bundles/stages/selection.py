"""Accepted questions of all bundles against each other and against benchmarks, then in the order of a curriculum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trailforge.filters.bundles import duplicate_question
from trailforge.filters.contamination import Benchmarks, benchmarks_of, contaminated
from trailforge.generators.document_bundles.config import BundleRunConfig, SelectionConfig
from trailforge.generators.document_bundles.stages.embedding import encoder_of
from trailforge.generators.document_bundles.stages.questions import TABLE as CANDIDATES
from trailforge.inference import Usage
from trailforge.pipelines.engine.model_stage import rejected_row
from trailforge.pipelines.engine.shards import Receipt, Shard, missing_shards, write_receipt, write_table
from trailforge.pipelines.runs.accounting import stage
from trailforge.pipelines.sources import read_benchmark
from trailforge.retrieval.encoder import Encoder
from trailforge.schemas import BundleQuestion, FileEntry, FilterScore, RejectedRow, Verdict, read_parquet, to_dict

NAME = "select"
TABLE = "bundle_questions"
REJECTED = "part-selection"


def only_shard(bundles: Sequence[Shard], made_of: str = "") -> Shard:
    """The one shard of this stage: the questions of all bundles."""
    rows = sum(shard.rows for shard in bundles)
    return Shard(name="selection", input=CANDIDATES, first=0, rows=rows, made_of=made_of)


def select(folder: Path, bundles: Sequence[Shard], config: BundleRunConfig, made_of: str = "") -> None:
    """Write `bundle_questions/`, easy ones first, and who is rejected, unless that is done.

    `made_of`: as of the stage's only shard.
    """
    shard = only_shard(bundles, made_of)
    if not missing_shards(folder, [shard]):
        return
    candidates = list(candidates_of(folder, bundles))
    kept, rejected = sift(candidates, encoder_of(config.encoder), config.selection) if candidates else ([], [])
    rows = in_order(kept, config.selection.stages)
    files, shards = write_parts(folder, TABLE, BundleQuestion, rows, config.output.questions_per_shard)
    left = [rejected_row(NAME, row.uid, verdict, to_dict(row)) for row, verdict in rejected]
    entry = write_table(folder, "rejected", REJECTED, RejectedRow, left)
    books = stage(NAME, inputs=len(candidates), accepted=len(kept), rejected=[row.reason for row in left])
    everything = (*files, entry) if entry else files
    write_receipt(
        folder,
        Receipt(
            shard=shard.name, files=everything, stages=(books,), usage=Usage(), shards=shards, made_of=shard.made_of
        ),
    )


def candidates_of(folder: Path, bundles: Sequence[Shard]) -> Iterator[BundleQuestion]:
    """What the filters of single questions kept, in the order of the bundles."""
    for shard in bundles:
        path = folder / CANDIDATES / f"{shard.name}.parquet"
        if path.exists():
            yield from read_parquet(path, BundleQuestion)


def sift(
    candidates: Sequence[BundleQuestion], encoder: Encoder, config: SelectionConfig
) -> tuple[list[BundleQuestion], list[tuple[BundleQuestion, Verdict]]]:
    """Who stays, with two more scores in its row, and who does not and why.

    Of two that ask the same the first stays.
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
        against = next((verdict for verdict in verdicts if not verdict.keep), None)
        if against is not None:
            rejected.append((row, against))
            continue
        scores = [FilterScore(name=verdict.reason, score=verdict.score, passed=True) for verdict in verdicts]
        kept.append(replace(row, filters=(*row.filters, *scores)))
        places.append(place)
    return kept, rejected


def _benchmarks(config: SelectionConfig, encoder: Encoder) -> Benchmarks:
    """The questions of all files, each text once."""
    questions = {q: Path(path).name for path in config.benchmarks for q in read_benchmark(Path(path))}
    vectors = encoder.encode_documents(list(questions)) if questions else np.zeros((0, 1), np.float32)
    return benchmarks_of([(name, q) for q, name in questions.items()], vectors, config.benchmark_words)


def write_parts(
    folder: Path, table: str, record: type, rows: Sequence[Any], size: int
) -> tuple[tuple[FileEntry, ...], tuple[Shard, ...]]:
    """Write a table that one stage makes whole, `size` rows a file; its files, and these as shards of a next stage."""
    files: list[FileEntry] = []
    shards: list[Shard] = []
    for first in range(0, len(rows), size):
        batch = rows[first : first + size]
        content = json.dumps([to_dict(row) for row in batch], sort_keys=True)
        name = f"part-{len(shards):05d}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
        entry = write_table(folder, table, name, record, batch)
        assert entry is not None
        files.append(entry)
        shards.append(Shard(name=name, input=entry.path, first=first, rows=len(batch), made_of=entry.sha256))
    return tuple(files), tuple(shards)


def in_order(rows: Sequence[BundleQuestion], stages: int) -> list[BundleQuestion]:
    """The rows by complexity, the easy ones first, each with its stage: 1 to `stages`, as equal in size as they can be.

    Rows of the same complexity are in one stage, the earlier: of two that are as hard none is to be learnt before.
    """
    ordered = sorted(rows, key=lambda row: (row.complexity, row.uid))
    stage_of: dict[float, int] = {}
    for position, row in enumerate(ordered):
        stage_of.setdefault(row.complexity, 1 + position * stages // len(ordered))
    return [replace(row, curriculum_stage=stage_of[row.complexity]) for row in ordered]
