"""Reject questions with names or numbers that the facts do not have: a model added what no graph has borne out."""

from __future__ import annotations

import re

from schemas import KgQuestion, Verdict

REASON = "ungrounded_name"
_WORD = re.compile(r"[^\W_]+")


def check(row: KgQuestion) -> Verdict:
    """Score: how many capitalised words and numbers, the first word aside, neither facts nor kinds have."""
    chain = row.chain
    texts = [name for start in chain.starts for name in (start.label, *start.aliases)]
    texts += [text for node in (*chain.starts, *chain.found) for text in (node.kind, node.role)]
    texts += [name for fact in chain.facts for name in (fact.triple.relation_label, *fact.relation_aliases)]
    known = {word.casefold() for text in texts for word in _WORD.findall(text)} | {"s"}
    words = _WORD.findall(row.question)[1:]
    added = [w for w in words if (w[0].isupper() or w[0].isdigit()) and w.casefold() not in known]
    detail = f"{added[0]!r} stands in no fact" if added else ""
    return Verdict(keep=not added, reason=REASON, score=float(len(added)), detail=detail)
