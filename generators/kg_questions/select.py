"""Accepted questions of all paths against each other, and the file of them that the other generators take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from trailforge.generators.document_bundles.stages.selection import write_parts
from trailforge.generators.kg_questions import NAME as TABLE
from trailforge.generators.kg_questions.filters import AcceptedQuestions, duplicate_question
from trailforge.inference import Usage
from trailforge.pipelines.engine.files import write_text
from trailforge.pipelines.engine.model_stage import rejected_row
from trailforge.pipelines.engine.shards import Receipt, Shard, file_entry, missing_shards, write_receipt, write_table
from trailforge.pipelines.runs.accounting import stage
from trailforge.schemas import FilterScore, KgQuestion, RejectedRow, Verdict, read_parquet, to_dict

NAME = "select"
CANDIDATES = "candidates"
REJECTED = "part-selection"
JSONL = "questions.jsonl"
"""The selected questions in our own form (`pipelines.sources.jsonl`)."""


def only_shard(shards: Sequence[Shard], made_of: str = "") -> Shard:
    """The one shard of this stage: the questions of all paths."""
    rows = sum(shard.rows for shard in shards)
    return Shard(name="selection", input=CANDIDATES, first=0, rows=rows, made_of=made_of)


def select(folder: Path, shards: Sequence[Shard], size: int, made_of: str = "") -> None:
    """Write `kg_questions/`, `size` rows a file, `questions.jsonl`, and who is rejected, unless that is done.

    `made_of`: as of the stage's only shard.
    """
    shard = only_shard(shards, made_of)
    if not missing_shards(folder, [shard]):
        return
    candidates = list(candidates_of(folder, shards))
    kept, rejected = sift(candidates)
    files, _ = write_parts(folder, TABLE, KgQuestion, kept, size)
    (folder / JSONL).unlink(missing_ok=True)  # of an earlier try
    if kept:
        write_text(folder / JSONL, "".join(map(line_of, kept)))
        files = (*files, file_entry(folder, folder / JSONL, len(kept)))
    left = [rejected_row(NAME, row.uid, verdict, to_dict(row)) for row, verdict in rejected]
    entry = write_table(folder, "rejected", REJECTED, RejectedRow, left)
    books = stage(NAME, inputs=len(candidates), accepted=len(kept), rejected=[row.reason for row in left])
    everything = (*files, entry) if entry else files
    write_receipt(
        folder,
        Receipt(shard=shard.name, files=everything, stages=(books,), usage=Usage(), made_of=shard.made_of),
    )


def candidates_of(folder: Path, shards: Sequence[Shard]) -> Iterator[KgQuestion]:
    """What the filters of single questions kept, in the order of the paths."""
    for shard in shards:
        path = folder / CANDIDATES / f"{shard.name}.parquet"
        if path.exists():
            yield from read_parquet(path, KgQuestion)


def sift(candidates: Iterable[KgQuestion]) -> tuple[list[KgQuestion], list[tuple[KgQuestion, Verdict]]]:
    """Who stays, with one more score in its row, and who does not and why. Of two that ask the same the first stays."""
    asked = AcceptedQuestions()
    kept: list[KgQuestion] = []
    rejected: list[tuple[KgQuestion, Verdict]] = []
    for row in candidates:
        verdict = duplicate_question(row, asked)
        if verdict.keep:
            asked.add(row)
            score = FilterScore(name=verdict.reason, score=verdict.score, passed=True)
            kept.append(replace(row, filters=(*row.filters, score)))
        else:
            rejected.append((row, verdict))
    return kept, rejected


def line_of(row: KgQuestion) -> str:
    """Its line of `questions.jsonl`."""
    return json.dumps(to_dict(row.as_question), ensure_ascii=False) + "\n"
