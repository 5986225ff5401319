"""A small run of bundles, with one question of each fate, and one of a knowledge graph."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.filters.kg.test_episodes import FIRST, SECOND, episode, triple
from tests.support.bundle_questions import BUNDLE, DOCUMENTS, PAPER, STREET, question
from tests.support.graph_questions import question as kg_question
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.pipelines.runs.table_index import tables_of
from trailforge.schemas import (
    Bundle,
    BundleInput,
    BundleQuestion,
    ContrastivePair,
    DocumentEmbedding,
    FilterScore,
    KgConflict,
    KgQuestion,
    KgTrajectory,
    KgTriple,
    RejectedRow,
    SourceDocument,
    to_dict,
    write_parquet,
)

ALONE = Bundle(uid="alone", document_ids=("news:1", "arxiv:2"), sources=("news", "arxiv"), cohesion=0.5, theme="none")
PASSED = FilterScore(name="closed_book", score=0.25, passed=True)
FAILED = FilterScore(name="not_answerable", score=0.0, passed=False, reason="all documents give 'x'")
KEPT = question(uid="kept", filters=(PASSED,))
REJECTED = question(uid="rejected", question="Why is it rejected?", filters=(PASSED, FAILED))
WAITING = question(uid="waiting", question="Who waits?")


def rejected(row: BundleQuestion | Bundle, reason: str) -> RejectedRow:
    return RejectedRow(
        uid=row.uid, stage="filter", reason=reason, score=0.0, detail="said so", payload=json.dumps(to_dict(row))
    )


def write(folder: Path, table: str, record: type, rows: Sequence[object]) -> None:
    (folder / table).mkdir(parents=True)
    write_parquet(folder / table / "part-00000.parquet", record, rows)


def write_bundles(folder: Path, *, documents: tuple[SourceDocument, ...] = (STREET, PAPER)) -> None:
    """Bundles with documents and embeddings, without questions."""
    write(folder, "bundles", Bundle, [BUNDLE, ALONE])
    write(folder, "bundle_inputs", BundleInput, [BundleInput(id="b", bundle=BUNDLE, documents=documents)])
    write(folder, "documents", SourceDocument, list(DOCUMENTS.values()))
    vectors = {"news:1": (1.0, 0.0, 0.0), "arxiv:2": (0.0, 1.0, 0.0)}
    write(
        folder,
        "embeddings",
        DocumentEmbedding,
        [DocumentEmbedding(document_id=i, vector=v) for i, v in vectors.items()],
    )


def write_questions(folder: Path) -> None:
    """One is kept, one rejected, one waits; a bundle got none."""
    write(folder, "bundle_questions", BundleQuestion, [KEPT])
    write(folder, "candidates", BundleQuestion, [replace(KEPT, filters=()), WAITING])
    write(folder, "rejected", RejectedRow, [rejected(REJECTED, "not_answerable"), rejected(ALONE, "no_question")])


def write_kg(folder: Path) -> None:
    """An episode with a conflict and a bad counterpart, and a question made of a graph."""
    kept = triple("Fritz Lang", "place of birth", "Vienna")
    second = replace(SECOND, triples_offered=(kept, KgTriple(**{**to_dict(kept), "tail": "x"})), triples_kept=(kept,))
    good = episode(
        FIRST, second, flags=("stale_or_conflicting",),
        conflicts=(KgConflict(step=1, kg_value="Linz of the graph", document_value="Vienna of the documents"),),
    )  # fmt: skip
    bad = episode(FIRST, second, answer="Graz")
    pair = ContrastivePair(
        uid="p", question_id="q", question=good.question, answer="Vienna", good_uid=good.uid, bad_uid=bad.uid,
        good_messages=good.messages, bad_messages=bad.messages, diverges_at=len(good.messages) - 1,
        reason="wrong_answer", detail="'Graz' instead of 'Vienna'", good_reward=1.5, bad_reward=0.6, origin="oracle",
        parts_at_fault=True,
    )  # fmt: skip
    write(folder, "kg_trajectories", KgTrajectory, [good])
    write(folder, "pairs", ContrastivePair, [pair])
    write(folder, "kg_questions", KgQuestion, [replace(kg_question(), filters=(PASSED,))])


def opened(folder: Path, dataset: str = "document_bundles") -> OpenRun:
    """The run as the page opens it."""
    return OpenRun(
        folder=folder, run_id="r", dataset=dataset, config={}, sources=(), manifest=None, books=(),
        tables=tuple(tables_of(folder)),
    )  # fmt: skip
