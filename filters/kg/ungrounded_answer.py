"""Reject episodes whose final answer stands in nothing they were shown. Yes and no are exempt."""

from __future__ import annotations

from trailforge.rewards import mentions, normalize_answer
from trailforge.schemas import KgStep, KgTrajectory, Verdict

REASON = "ungrounded_answer"
_NEVER_QUOTED = {"yes", "no"}


def check(row: KgTrajectory) -> Verdict:
    """Score: how many searches showed the answer, in a document or a kept triple."""
    showing = sum(shows(step, row.final_answer) for step in row.steps)
    keep = showing > 0 or normalize_answer(row.final_answer) in _NEVER_QUOTED
    detail = "" if keep else f"no document and no triple that was read says {row.final_answer!r}"
    return Verdict(keep=keep, reason=REASON, score=float(showing), detail=detail)


def shows(step: KgStep, text: str) -> bool:
    """Does a search show a text, in title or words of a document or in a triple?"""
    documents = (f"{document.title}. {document.text}" for document in step.documents)
    return any(mentions(shown, text) for shown in (*documents, *(triple.text for triple in step.triples_kept)))
