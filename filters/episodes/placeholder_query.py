"""Reject plans with a query that points to another search's result: queries are run as written, none is filled in."""

from __future__ import annotations

import re
from collections.abc import Collection

from trailforge.schemas import SearchEpisode, Verdict

REASON = "placeholder_query"
_BRACKETED = re.compile(r"[\[{<](\w+)[\]}>]|#(\w+)")
_POINTING = re.compile(
    r"\b(?:found|given|named|identified|mentioned|returned|answered?|results?|findings?|output)\b[^,;]*?"
    r"\b(?:in|by|from|of|with)\s+(?:node\s+|step\s+|search\s+)?(\w+)",
    re.IGNORECASE,
)
"""`found in A`, `result of B`, `the person named by node A`."""


def check(episode: SearchEpisode) -> Verdict:
    """Score: how many queries do. `[A]`, `{A}`, `#A` are pointers, and so is `found in A`; an `A` elsewhere is not."""
    ids = {node.node_id for node in episode.plan_nodes}
    pointing = [node.query for node in episode.plan_nodes if _points(node.query, ids)]
    detail = f"{pointing[0]!r} points to another search" if pointing else ""
    return Verdict(keep=not pointing, reason=REASON, score=float(len(pointing)), detail=detail)


def _points(query: str, ids: Collection[str]) -> bool:
    named = [name for found in _BRACKETED.findall(query) for name in found if name]
    return any(name in ids for name in (*named, *_POINTING.findall(query)))
