"""Reasons to reject a bundle's question, one per module: first those that cost nothing, then those that ask a model."""

from trailforge.filters.bundles import (
    answer_in_question,
    bad_options,
    closed_book,
    contaminated,
    duplicate_question,
    evidence,
    invalid_plan,
    single_source,
    stale_document,
    too_few_documents,
    unsupported_quote,
)
from trailforge.filters.bundles.judge import BundleFilterConfig, judge_question
from trailforge.filters.bundles.reading import Reader, is_right

__all__ = [
    "BundleFilterConfig",
    "Reader",
    "answer_in_question",
    "bad_options",
    "closed_book",
    "contaminated",
    "duplicate_question",
    "evidence",
    "invalid_plan",
    "is_right",
    "judge_question",
    "single_source",
    "stale_document",
    "too_few_documents",
    "unsupported_quote",
]
