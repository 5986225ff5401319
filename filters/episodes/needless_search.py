"""Reject episodes that search more than once where one of their searches brings all evidence.

They would teach to ask for what is at hand: their plan has parts and an order that it has no need of.
"""

from __future__ import annotations

from trailforge.rewards import evidence_recall
from trailforge.schemas import BundleQuestion, SearchEpisode, Verdict

REASON = "needless_search"


def check(episode: SearchEpisode, row: BundleQuestion) -> Verdict:
    """Score: the largest share of the question's evidence that one search brings. A single search is never needless."""
    evidence = [hop.evidence for hop in row.hops]
    shares = {search.node_id: evidence_recall(evidence, search.passages) for search in episode.searches}
    enough = [node_id for node_id, share in shares.items() if share == 1.0]
    keep = len(shares) < 2 or not enough
    detail = "" if keep else f"{enough[0]} alone brings the evidence of all hops"
    return Verdict(keep=keep, reason=REASON, score=round(max(shares.values(), default=0.0), 6), detail=detail)
