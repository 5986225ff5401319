"""Reject questions with names or numbers that the facts do not have: a model added what no graph has borne out.

Names of bridges and answer, and placeholders, have reasons of their own.
"""

from __future__ import annotations

import re

from trailforge.schemas import KgQuestion, Verdict

REASON = "ungrounded_name"
_WORD = re.compile(r"[^\W_]+")


def check(row: KgQuestion) -> Verdict:
    """Score: how many capitalised words and numbers, the first word aside, neither facts nor kinds have."""
    chain = row.chain
    nodes, triples = (*chain.starts, *chain.found), [fact.triple for fact in chain.facts]
    texts = [text for node in nodes for text in (node.id, node.label, *node.aliases, node.kind, node.role)]
    texts += [text for triple in triples for text in (triple.relation, triple.relation_label)]
    texts += [alias for fact in chain.facts for alias in fact.relation_aliases]
    known = {word.casefold() for text in texts for word in _WORD.findall(text)} | {"s"}
    words = _WORD.findall(row.question)[1:]
    added = [w for w in words if (w[0].isupper() or w[0].isdigit()) and w.casefold() not in known]
    added = [w for w in added if not re.fullmatch(r"X\d+|ANSWER", w)]
    detail = f"{added[0]!r} stands in no fact" if added else ""
    return Verdict(keep=not added, reason=REASON, score=float(len(added)), detail=detail)
