"""Reject questions that the model answers from memory: they would not need a search."""

from __future__ import annotations

import asyncio

from trailforge.filters.kg_questions.reading import Reader, closeness, is_right
from trailforge.schemas import KgQuestion, Verdict

REASON = "closed_book"


async def check(row: KgQuestion, reader: Reader, *, samples: int) -> Verdict:
    """Score: how near the best of so many draws comes (`closeness`); any right one rejects.

    A draw that was cut says neither; when all of them were, nobody knows, and the question is not taken.
    """
    draws = await asyncio.gather(*(reader.answer(row, sample) for sample in range(samples)))
    answers = [answer for answer in draws if answer is not None]
    if draws and not answers:
        return Verdict(keep=False, reason=REASON, score=0.0, detail=f"no verdict: all {samples} draws were cut")
    hits = [answer for answer in answers if is_right(answer, row)]
    detail = f"{len(hits)} of {len(answers)} draws know it, as {hits[0]!r}" if hits else ""
    score = max((closeness(answer, row) for answer in answers), default=0.0)
    return Verdict(keep=not hits, reason=REASON, score=round(score, 6), detail=detail)
