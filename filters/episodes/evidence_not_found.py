"""Reject episodes whose searches do not bring the evidence: their answer would not follow from what was read."""

from __future__ import annotations

from trailforge.rewards import evidence_recall
from trailforge.schemas import BundleQuestion, SearchEpisode, Verdict

REASON = "evidence_not_found"


def check(episode: SearchEpisode, row: BundleQuestion, *, least: float) -> Verdict:
    """Score: share of the question's hops whose evidence stands in a passage that was found."""
    found = [passage for search in episode.searches for passage in search.passages]
    share = evidence_recall([hop.evidence for hop in row.hops], found)
    missing = next((hop for hop in row.hops if not evidence_recall([hop.evidence], found)), None)
    keep = share >= least
    detail = "" if keep or missing is None else f"no search shows {missing.evidence[:100]!r} of {missing.document_id}"
    return Verdict(keep=keep, reason=REASON, score=round(share, 6), detail=detail)
