"""Reject questions that rest on a document from before a date: what a model may have read in training."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from trailforge.schemas import BundleQuestion, SourceDocument, Verdict

REASON = "stale_document"


def check(row: BundleQuestion, documents: Mapping[str, SourceDocument], *, since: str | None) -> Verdict:
    """Score: days from `since` (ISO date) to the oldest document; 0 when nothing is asked. No date is too old."""
    if since is None:
        return Verdict(keep=True, reason=REASON, score=0.0)
    used = [documents[hop.document_id] for hop in row.hops if hop.document_id in documents]
    undated = [document.id for document in used if not document.published]
    if undated or not used:
        return Verdict(keep=False, reason=REASON, score=0.0, detail=f"{(undated or ['no document'])[0]} has no date")
    oldest = min(used, key=lambda document: document.published or "")
    days = (date.fromisoformat((oldest.published or "")[:10]) - date.fromisoformat(since)).days
    detail = f"{oldest.id} is of {oldest.published}, before {since}" if days < 0 else ""
    return Verdict(keep=days >= 0, reason=REASON, score=float(days), detail=detail)
