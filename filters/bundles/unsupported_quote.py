"""Reject questions with evidence that does not stand in its document, word for word, up to white space."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trailforge.schemas import BundleQuestion, SourceDocument, Verdict

REASON = "unsupported_quote"
_SHORTEST = 3
"""Words: a shorter quote shows nothing."""


def check(row: BundleQuestion, documents: Mapping[str, SourceDocument]) -> Verdict:
    """Score: share of the hops whose quote, of three words or more, occurs in their document."""
    wrong = [hop for hop in row.hops if not _occurs(hop.evidence, documents.get(hop.document_id))]
    detail = f"{wrong[0].document_id} does not say {wrong[0].evidence[:100]!r}" if wrong else ""
    score = 1 - len(wrong) / len(row.hops) if row.hops else 0.0
    return Verdict(keep=bool(row.hops) and not wrong, reason=REASON, score=score, detail=detail or _none(row))


def _occurs(quote: str, document: SourceDocument | None) -> bool:
    if document is None or len(quote.split()) < _SHORTEST:
        return False
    return _plain(quote) in _plain(f"{document.title} {document.text}")


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _none(row: BundleQuestion) -> str:
    return "" if row.hops else "no hop has evidence"
