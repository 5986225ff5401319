"""Reject questions that leave out a start: then nothing can be searched for, and more entities are answers."""

from __future__ import annotations

from trailforge.filters.kg_questions.reading import names_in
from trailforge.schemas import KgQuestion, Verdict

REASON = "start_missing"


def check(row: KgQuestion) -> Verdict:
    """Score: share of the starts that have a name in the question."""
    missing = [start.label for start in row.chain.starts if not names_in(row.question, start)]
    detail = f"{missing[0]!r} is not named" if missing else ""
    score = 1 - len(missing) / len(row.chain.starts)
    return Verdict(keep=not missing, reason=REASON, score=round(score, 6), detail=detail)
