"""Reject questions whose hops do not join at least two documents of their bundle."""

from __future__ import annotations

from trailforge.schemas import Bundle, BundleQuestion, Verdict

REASON = "too_few_documents"


def check(row: BundleQuestion, bundle: Bundle) -> Verdict:
    """Score: how many documents of the bundle the hops quote."""
    used = {hop.document_id for hop in row.hops}
    strange = used - set(bundle.document_ids)
    detail = f"{sorted(strange)[0]} is not in the bundle" if strange else ""
    if not detail and len(used) < 2:
        detail = "all evidence is in one document" if used else "no hop has evidence"
    return Verdict(keep=not detail, reason=REASON, score=float(len(used - strange)), detail=detail)
