"""Reasons to reject a question made of a knowledge graph, one per module: first those that cost nothing."""

from trailforge.filters.kg_questions import (
    answer_in_question,
    bridge_named,
    closed_book,
    duplicate_question,
    malformed,
    not_unique,
    shortcut,
    start_missing,
    ungrounded_name,
)
from trailforge.filters.kg_questions.duplicate_question import Asked
from trailforge.filters.kg_questions.judge import KgFilterConfig, judge_question
from trailforge.filters.kg_questions.reading import Reader, is_right

__all__ = [
    "Asked",
    "KgFilterConfig",
    "Reader",
    "answer_in_question",
    "bridge_named",
    "closed_book",
    "duplicate_question",
    "is_right",
    "judge_question",
    "malformed",
    "not_unique",
    "shortcut",
    "start_missing",
    "ungrounded_name",
]
