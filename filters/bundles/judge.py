"""All reasons in the order of their cost: what can be seen first, then what a model has to be asked for."""

from __future__ import annotations

from dataclasses import dataclass

from trailforge.filters.bundles import (
    answer_in_question,
    bad_options,
    closed_book,
    evidence,
    invalid_plan,
    single_source,
    stale_document,
    too_few_documents,
    unsupported_quote,
)
from trailforge.filters.bundles.reading import Reader
from trailforge.schemas import BundleInput, BundleQuestion, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFilterConfig:
    """What is asked of a bundle's question."""

    closed_book_samples: int = 4
    """Draws without documents; one right answer rejects."""
    since: str | None = None
    """ISO date: every document has to be as young. None: any date."""


async def judge_question(
    row: BundleQuestion, item: BundleInput, reader: Reader, config: BundleFilterConfig
) -> list[Verdict]:
    """Verdicts up to the first that rejects among those that ask a model; all of those that do not.

    The calls of a reader are made only for questions that are sound to look at.
    """
    documents = {document.id: document for document in item.documents}
    verdicts = [
        unsupported_quote.check(row, documents),
        too_few_documents.check(row, item.bundle),
        single_source.check(row, documents),
        bad_options.check(row),
        invalid_plan.check(row),
        answer_in_question.check(row),
        stale_document.check(row, documents, since=config.since),
    ]
    if not all(verdict.keep for verdict in verdicts):
        return verdicts
    used = [documents[name] for name in dict.fromkeys(hop.document_id for hop in row.hops)]
    verdicts += await evidence.check(row, used, reader)
    if all(verdict.keep for verdict in verdicts):
        verdicts.append(await closed_book.check(row, reader, samples=config.closed_book_samples))
    return verdicts
