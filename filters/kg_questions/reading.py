"""What the filters share: who answers from memory, whether it is right, and whether a text names something."""

from __future__ import annotations

import re
from typing import Protocol

from trailforge.rewards import cover_exact_match, exact_match, f1, mentions, normalize_answer
from trailforge.schemas import KgNode, KgQuestion

_SHORT = 4
"""Letters: a shorter name counts only as it is written, or `US` would stand in "of us"."""


class Reader(Protocol):
    """Answers a question from what a model knows."""

    async def answer(self, row: KgQuestion, sample: int) -> str | None:
        """`sample`: number of the draw. None when the reply was cut: it is no answer, right or wrong."""
        ...


def is_right(answer: str, row: KgQuestion) -> bool:
    """Does it say the whole answer, or an alias (cover-EM), or all but the kind that was asked for: `Arctic` ocean?"""
    golds, kind = row.as_question.golds, row.chain.answer.kind
    if cover_exact_match(answer, golds, word_boundary=True):
        return True
    return any(exact_match(text, golds) for text in (f"{answer} {kind}", f"{kind} {answer}"))


def closeness(answer: str, row: KgQuestion) -> float:
    """How near an answer comes, 0 to 1: F1 of the words."""
    return f1(answer, row.as_question.golds)


def names_in(text: str, node: KgNode) -> list[str]:
    """The names of an entity that a text has."""
    return [name for name in (node.label, *node.aliases) if _is_named(text, name)]


def _is_named(text: str, name: str) -> bool:
    if len(normalize_answer(name)) < _SHORT:
        return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
    return mentions(text, name)
