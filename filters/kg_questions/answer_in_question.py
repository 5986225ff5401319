"""Reject questions that give their answer away, and those with a sub-question that gives its own away.

What a sub-question refers to is known when it is asked: who looks for the father of Alexandre Dumas has his name.
"""

from __future__ import annotations

from trailforge.filters.kg_questions.reading import names_in
from trailforge.schemas import KgNode, KgQuestion, Verdict

REASON = "answer_in_question"


def check(row: KgQuestion) -> Verdict:
    """Score: how many of the question and its sub-questions, with what is found before, name what they ask for."""
    found = row.chain.found
    asked: list[tuple[tuple[str, ...], KgNode]] = [((row.question,), row.chain.answer)]
    for place, (hop, node) in enumerate(zip(row.decomposition, found, strict=False)):
        asked.append(((hop.question, *(earlier.label for earlier in found[:place])), node))
    told = ([(name, text) for text in texts for name in names_in(text, node)] for texts, node in asked)
    leaks = [each[0] for each in told if each]
    detail = "{!r} stands in {!r}".format(*leaks[0]) if leaks else ""
    return Verdict(keep=not leaks, reason=REASON, score=float(len(leaks)), detail=detail)
