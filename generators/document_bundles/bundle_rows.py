"""What a run holds on one bundle: its documents, its questions, and why some of them were rejected."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trailforge.pipelines.runs.finished import OpenRun
from trailforge.schemas import Bundle, BundleInput, BundleQuestion, InvalidInput, RejectedRow, SourceDocument, from_dict

Fate = Literal["kept", "rejected", "candidate"]
"""`candidate`: its bundle's filters pass it, and the run has not chosen among all candidates yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOutcome:
    """A question of a bundle, and what became of it."""

    row: BundleQuestion
    fate: Fate
    rejected: RejectedRow | None = None


def documents_of(run: OpenRun, bundle_id: str, ids: Sequence[str] = ()) -> tuple[SourceDocument, ...]:
    """A bundle's documents in its order; of a run that does not keep them together, those of the ids that it has."""
    number = run.find("bundle_inputs", bundle_id)
    if number is not None:
        item: BundleInput = run.record("bundle_inputs", number)
        return item.documents
    number = run.find("bundles", bundle_id)
    if number is not None:
        bundle: Bundle = run.record("bundles", number)
        ids = bundle.document_ids
    numbers = [run.find("documents", id) for id in dict.fromkeys(ids)]
    return tuple(run.record("documents", number) for number in numbers if number is not None)


def questions_of(run: OpenRun, bundle_id: str) -> list[QuestionOutcome]:
    """Each once: kept ones, then rejected ones, then those of which nothing is decided."""
    found: dict[str, QuestionOutcome] = {}
    for row in _rows(run, "bundle_questions", bundle_id):
        found[row.uid] = QuestionOutcome(row=row, fate="kept")
    for rejected in rejections_of(run, bundle_id):
        row = question_in(rejected)
        if row is not None and row.bundle_id == bundle_id and row.uid not in found:
            found[row.uid] = QuestionOutcome(row=row, fate="rejected", rejected=rejected)
    for row in _rows(run, "candidates", bundle_id):
        found.setdefault(row.uid, QuestionOutcome(row=row, fate="candidate"))
    return list(found.values())


def rejections_of(run: OpenRun, bundle_id: str) -> list[RejectedRow]:
    """Rejected rows that name a bundle, itself and its questions, as far as they are searched: `OpenRun.search_on`."""
    if "rejected" not in run.tables:
        return []
    return [run.record("rejected", number) for number in run.search("rejected", bundle_id).rows]


def question_in(rejected: RejectedRow) -> BundleQuestion | None:
    """The bundle question that was rejected; None when the row is something else."""
    try:
        return from_dict(BundleQuestion, json.loads(rejected.payload))
    except (ValueError, InvalidInput):
        return None


def _rows(run: OpenRun, table: str, bundle_id: str) -> Iterator[BundleQuestion]:
    if table in run.tables:
        for number in run.table(table).matching("bundle_id", bundle_id):
            yield run.record(table, number)
