"""Reject questions that all documents together do not answer, and those that fewer of them answer.

All documents have to suffice; every one alone, and every bundle that lacks one, has to fail. A reading that was cut
shows neither, so a question that hangs on one is not taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import combinations

from trailforge.filters.bundles.reading import Reader, is_right
from trailforge.schemas import BundleQuestion, SourceDocument, Verdict

NOT_ANSWERABLE = "not_answerable"
FEWER_SUFFICE = "fewer_documents_suffice"


async def check(row: BundleQuestion, documents: Sequence[SourceDocument], reader: Reader) -> list[Verdict]:
    """Verdicts for both reasons; the second only if the first keeps the row. `documents`: those that the hops quote.

    Scores: 1 when all documents give the answer, else 0; share of the smaller sets that do not give it.
    """
    whole = await reader.answer(row, documents, 0)
    if whole is None or not is_right(whole, row):
        given = f"all documents give {whole!r} and not {_gold(row)!r}"
        detail = "no verdict: the reading of all documents was cut" if whole is None else given
        return [Verdict(keep=False, reason=NOT_ANSWERABLE, score=0.0, detail=detail)]
    smaller = smaller_sets(documents)
    answers = await asyncio.gather(*(reader.answer(row, part, 0) for part in smaller))
    read = list(zip(smaller, answers, strict=True))
    enough = [part for part, answer in read if answer is not None and is_right(answer, row)]
    cut = [part for part, answer in read if answer is None]
    detail = f"no verdict: the reading of {_names(cut[0])} was cut" if cut else ""
    detail = f"{_names(enough[0])} give it" if enough else detail
    return [
        Verdict(keep=True, reason=NOT_ANSWERABLE, score=1.0),
        Verdict(
            keep=not enough and not cut,
            reason=FEWER_SUFFICE,
            score=1 - (len(enough) + len(cut)) / len(smaller) if smaller else 0.0,
            detail=detail,
        ),
    ]


def smaller_sets(documents: Sequence[SourceDocument]) -> list[tuple[SourceDocument, ...]]:
    """Every single document, and every set that lacks one: each once."""
    sizes = dict.fromkeys((1, len(documents) - 1))
    return [part for size in sizes if size >= 1 for part in combinations(documents, size) if size < len(documents)]


def _names(documents: Sequence[SourceDocument]) -> str:
    return " and ".join(document.id for document in documents)


def _gold(row: BundleQuestion) -> str:
    return ", ".join(row.correct_options) if row.options else row.answer
