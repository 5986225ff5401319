"""Remove accepted questions that repeat another one, and write the rest to a file for other generators."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from trailforge.filters import scores_of
from trailforge.filters.kg import AcceptedQuestions, same_facts
from trailforge.generators.kg_questions import NAME as TABLE
from trailforge.generators.select_stage import finish_selection, read_candidates, write_parts
from trailforge.pipelines import StageRun
from trailforge.pipelines.engine import file_entry, missing_shards, write_text
from trailforge.schemas import KgQuestion, Question, Verdict, to_dict

JSONL = "questions.jsonl"
"""Name of the file of selected questions in our own form (`pipelines.sources.jsonl`)."""


def select(run: StageRun) -> None:
    """Write the tables `kg_questions` and the rejected questions of a run, and the file `questions.jsonl`, unless that
    is done.
    """
    folder = run.folder
    for shard in missing_shards(folder, run.shards):
        kept, rejected = select_distinct(read_candidates(folder, run.before, KgQuestion))
        files, _ = write_parts(folder, TABLE, KgQuestion, kept, run.config.output.shard_size)
        (folder / JSONL).unlink(missing_ok=True)  # of an earlier try
        if kept:
            write_text(folder / JSONL, "".join(map(line_of, kept)))
            files = (*files, file_entry(folder, folder / JSONL, len(kept)))
        finish_selection(folder, shard, kept, rejected, files)


def select_distinct(candidates: Iterable[KgQuestion]) -> tuple[list[KgQuestion], list[tuple[KgQuestion, Verdict]]]:
    """Return the questions that are kept, each with the score of the filter that compares it with those before, and the
    others with the verdict that rejects them. Of two that ask the same the first is kept.
    """
    asked = AcceptedQuestions()
    kept: list[KgQuestion] = []
    rejected: list[tuple[KgQuestion, Verdict]] = []
    for row in candidates:
        verdict = same_facts(row, asked)
        if verdict.keep:
            asked.add(row)
            kept.append(replace(row, filters=(*row.filters, *scores_of([verdict]))))
        else:
            rejected.append((row, verdict))
    return kept, rejected


def line_of(row: KgQuestion) -> str:
    """Return a question as a line of `questions.jsonl`."""
    return json.dumps(to_dict(question_of(row)), ensure_ascii=False) + "\n"


def question_of(row: KgQuestion) -> Question:
    """Return a row as a `Question`, the input of generators of trajectories."""
    return Question(
        id=row.uid,
        question=row.question,
        answer=row.answer,
        answer_aliases=row.answer_aliases,
        decomposition=row.decomposition,
        dataset=TABLE,
    )
