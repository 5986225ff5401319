"""Reject questions that the model answers without any document (R-Search: they would not need a search)."""

from __future__ import annotations

import asyncio

from filters.bundles.reading import Reader, is_right
from schemas import BundleQuestion, Verdict

REASON = "closed_book"


async def check(row: BundleQuestion, reader: Reader, *, samples: int) -> Verdict:
    """Score: share of right answers in so many draws without documents; any right one rejects."""
    readings = await asyncio.gather(*(reader.answer(row, (), sample) for sample in range(samples)))
    hits = [reading for reading in readings if is_right(reading.answer, row)]
    detail = f"{len(hits)} of {samples} draws know it, as {hits[0].answer!r}" if hits else ""
    return Verdict(keep=not hits, reason=REASON, score=len(hits) / samples if samples else 0.0, detail=detail)
