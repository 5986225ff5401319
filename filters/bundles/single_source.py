"""Reject questions whose evidence is all of one source.

Bundles mix sources so that a question has to join what different ones say (R-Search, 4.1); a bundle of only the
documents that such a question rests on would not have been made.
"""

from __future__ import annotations

from collections.abc import Mapping

from trailforge.schemas import BundleQuestion, SourceDocument, Verdict

REASON = "single_source"


def check(row: BundleQuestion, documents: Mapping[str, SourceDocument]) -> Verdict:
    """Score: how many sources the hops quote. Fewer than two documents are for `too_few_documents` to reject."""
    quoted = [documents[name] for name in {hop.document_id for hop in row.hops} if name in documents]
    sources = {document.source for document in quoted}
    keep = len(sources) > 1 or len(quoted) < 2
    detail = "" if keep else f"all evidence is of {quoted[0].source}"
    return Verdict(keep=keep, reason=REASON, score=float(len(sources)), detail=detail)
