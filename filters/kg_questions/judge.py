"""All reasons that one question shows by itself, in the order of their cost."""

from __future__ import annotations

from dataclasses import dataclass

from trailforge.filters.kg_questions import (
    answer_in_question,
    bridge_named,
    closed_book,
    malformed,
    not_unique,
    shortcut,
    start_missing,
    ungrounded_name,
)
from trailforge.filters.kg_questions.reading import Reader
from trailforge.schemas import KgQuestion, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class KgFilterConfig:
    """What is asked of a question."""

    closed_book_samples: int = 4
    """Draws from memory; one right answer rejects. 0: nothing is asked."""


async def judge_question(row: KgQuestion, reader: Reader, config: KgFilterConfig) -> list[Verdict]:
    """Verdicts of all filters that ask no model, and that of `closed_book` when they keep the row.

    `duplicate_question` is for those who know the accepted rows.
    """
    verdicts = [
        malformed.check(row),
        not_unique.check(row),
        shortcut.check(row),
        answer_in_question.check(row),
        bridge_named.check(row),
        start_missing.check(row),
        ungrounded_name.check(row),
    ]
    if all(verdict.keep for verdict in verdicts) and config.closed_book_samples:
        verdicts.append(await closed_book.check(row, reader, samples=config.closed_book_samples))
    return verdicts
