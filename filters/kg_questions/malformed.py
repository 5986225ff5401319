"""Reject what is no single question, and decompositions whose references do not follow the facts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trailforge.schemas import KgQuestion, Verdict

REASON = "malformed"
_FEWEST_WORDS, _MOST_WORDS = 4, 80
_LEFT_OVER = re.compile(r"#\d|\bX\d\b|\bANSWER\b|[{}|]|\[\w+\]")


def check(row: KgQuestion) -> Verdict:
    """Score: how many rules are broken."""
    problems = list(_problems(row))
    return Verdict(keep=not problems, reason=REASON, score=float(len(problems)), detail=problems[0] if problems else "")


def _problems(row: KgQuestion) -> Iterator[str]:
    question = row.question
    own = question
    for start in row.chain.starts:
        own = own.replace(start.label, "")  # a film may be called X2, or end with a question mark itself
    if not question.endswith("?") or question.endswith("??") or own.count("?") > 1:
        yield "it does not end with its one question mark"
    if not _FEWEST_WORDS <= len(question.split()) <= _MOST_WORDS:
        yield f"{len(question.split())} words"
    if left := _LEFT_OVER.search(own):
        yield f"{left[0]!r} is left over"
    yield from (f"the id {key} stands in it" for key in _ids(row) if re.search(rf"\b{re.escape(key)}\b", own))
    if len(row.decomposition) != len(row.chain.found):
        yield f"{len(row.decomposition)} sub-questions for {len(row.chain.found)} findings"
        return
    for hop, node in zip(row.decomposition, row.chain.found, strict=True):
        used = tuple(sorted({int(number) for number in re.findall(r"#(\d{1,9})", hop.question)}))
        if used != row.chain.needed_for(node):
            yield f"{hop.question!r} refers to {used or 'nothing'}, not to {row.chain.needed_for(node) or 'nothing'}"
        if not hop.question.endswith("?"):
            yield f"{hop.question!r} is no question"


def _ids(row: KgQuestion) -> Iterator[str]:
    """Ids that are not names as well, as they are in some graphs."""
    for node in (*row.chain.starts, *row.chain.found):
        if node.id not in (node.label, *node.aliases):
            yield node.id
    for fact in row.chain.facts:
        if fact.triple.relation not in (fact.triple.relation_label, *fact.relation_aliases):
            yield fact.triple.relation
