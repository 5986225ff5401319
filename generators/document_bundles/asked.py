"""Turn the questions of bundles into questions for other data sets, each with paragraphs to search in.

Only factual ones are turned: the others are answered by a sentence or by letters of options, which no match of short
answers scores. A question has the documents of its bundle among its paragraphs, and the run's documents that are most
like them, as MuSiQue has paragraphs that mislead. It has no gold decomposition, since no step's answer is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from trailforge.generators.document_bundles import NAME as DATASET
from trailforge.schemas import (
    Bundle,
    BundleQuestion,
    DocumentEmbedding,
    Question,
    SourceDocument,
    read_rows,
)


def ask_elsewhere(run: Path, distractors: int) -> tuple[list[Question], list[str]]:
    """Return the factual questions of the finished run in the folder `run`, in order, and the types of those that are
    left out. `distractors` is the number of paragraphs that each gets beside its own documents. The same run gives the
    same questions.
    """
    documents = {row.id: row for row in read_rows(_files(run, "documents"), SourceDocument)}
    bundles = {row.uid: row.document_ids for row in read_rows(_files(run, "bundles"), Bundle)}
    near = Neighbours(read_rows(_files(run, "embeddings"), DocumentEmbedding))
    questions: list[Question] = []
    left_out: list[str] = []
    for row in read_rows(_files(run, "bundle_questions"), BundleQuestion):
        if row.type != "factual":
            left_out.append(row.type)
            continue
        own = bundles[row.bundle_id]
        questions.append(question_of(row, [documents[i] for i in (*own, *near.of(own, distractors))]))
    return questions, left_out


def question_of(row: BundleQuestion, documents: Sequence[SourceDocument]) -> Question:
    """Return a factual question of a bundle with these documents as its paragraphs, in the order of their ids."""
    return Question(
        id=row.uid,
        question=row.question,
        answer=row.answer,
        paragraphs=tuple(document.document for document in sorted(documents, key=lambda each: each.id)),
        dataset=DATASET,
    )


class Neighbours:
    """Finds the documents that are most similar to some others, by cosine."""

    def __init__(self, rows: Iterable[DocumentEmbedding]) -> None:
        pairs = [(row.document_id, row.vector) for row in rows]
        self._ids = [name for name, _ in pairs]
        self._place = {name: place for place, name in enumerate(self._ids)}
        self._vectors = np.array([vector for _, vector in pairs], np.float32)

    def of(self, own: Sequence[str], count: int) -> list[str]:
        """Return the ids of the `count` documents nearest to the mean of these documents, themselves excluded; of two
        equally near ones, the smaller id.
        """
        places = [self._place[name] for name in own]
        alike = np.round(self._vectors @ self._vectors[places].mean(axis=0), 6)
        alike[places] = -np.inf
        count = min(count, len(alike) - len(set(places)))
        if count < 1:
            return []
        least = np.partition(alike, -count)[-count]  # of those who are in; more may be as near
        near = np.flatnonzero(alike >= least).tolist()
        near.sort(key=lambda place: (-alike[place], self._ids[place]))
        return [self._ids[place] for place in near[:count]]


def _files(run: Path, table: str) -> list[Path]:
    return sorted((run / table).glob("part-*.parquet"))
