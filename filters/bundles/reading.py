"""What the measured filters need: a model that answers a question from given documents, and who says if it is right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations
from typing import Protocol

from trailforge.rewards import cover_exact_match, f1, option_f1
from trailforge.schemas import BundleQuestion, SourceDocument

_NAMED = re.compile(r"(?<![A-Za-z])([A-H])(?![A-Za-z])")
_CAUSE_AGREES = 0.5
"""F1 from which two explanations are taken for the same: no more than a rule, where no judge is asked."""


class Reader(Protocol):
    """Answers from documents; without any, from what the model knows."""

    async def answer(self, row: BundleQuestion, documents: Sequence[SourceDocument], sample: int) -> str | None:
        """`sample`: number of the draw. None when the reply was cut: it is no answer, right or wrong."""
        ...


def is_right(answer: str, row: BundleQuestion) -> bool:
    """Is this the answer? Choices: exactly the correct options. Facts: it says the whole answer (cover-EM)."""
    if row.options:
        return set(_NAMED.findall(answer)) == set(row.correct_options)
    if row.type == "causal":
        return f1(answer, [row.answer]) >= _CAUSE_AGREES
    return cover_exact_match(answer, [row.answer], word_boundary=True) > 0


def is_same_answer(row: BundleQuestion, other: BundleQuestion) -> bool:
    """Do two questions have one answer? One says the other in whole words; what is longer than a fact says about it."""
    if "factual" not in (row.type, other.type) and f1(row.answer, [other.answer]) >= _CAUSE_AGREES:
        return True
    answers = permutations((row.answer, other.answer))
    return any(cover_exact_match(said, [asked], word_boundary=True) > 0 for said, asked in answers)


def closeness(answer: str, row: BundleQuestion) -> float:
    """How near an answer comes, 0 to 1: F1 of the words, or of the options."""
    if not row.options:
        return f1(answer, [row.answer])
    return option_f1(_NAMED.findall(answer), row.correct_options)
