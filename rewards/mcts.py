"""When a rollout is right, and when two answers are the same one (MSearcher, section 3.1.3).

The paper rewards a rollout with r in {0, 1} "by comparing the final answer with the ground truth" and leaves the
comparison open. Ours: equal after normalising, or the gold answer covered on word boundaries by a prediction of at
most three times its words, so that "the city of Oslo" is right for "Oslo", and a paragraph about Norway is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rewards.normalisation import contains_words, normalize_answer

_LONGEST = 3
"""A prediction may have this many times the words of the answer that it covers."""

_WORD = re.compile(r"\w+")
_ARTICLES = frozenset({"a", "an", "the"})


def mcts_reward(prediction: str, golds: Sequence[str]) -> float:
    """1.0 when the prediction is, or briefly covers, one of the gold answers; else 0.0."""
    normalized = normalize_answer(prediction)
    return float(any(_is_or_covers(normalized, normalize_answer(gold)) for gold in golds))


def same_answer(a: str, b: str) -> bool:
    """`mcts_reward`'s rule, symmetric: equal, or one briefly covers the other. Two empty answers are the same."""
    first, second = normalize_answer(a), normalize_answer(b)
    return first == second or _is_or_covers(first, second) or _is_or_covers(second, first)


def mentions(text: str, answer: str) -> bool:
    """Whether the answer occurs in the text, from word boundary to word boundary; an empty answer never does.

    True by either of two readings of punctuation: deleted, as in every score ("U.S." is in "US troops"), or taken
    for a space ("Oslo" is in "Oslo's harbour" and in "Oslo-based", which deleting would make "oslos", "oslobased").
    """
    deleted = contains_words(normalize_answer(text), normalize_answer(answer))
    return deleted or contains_words(_spaced(text), _spaced(answer))


def _is_or_covers(prediction: str, gold: str) -> bool:
    """Both normalised already. False when either is empty."""
    if len(prediction.split()) > _LONGEST * len(gold.split()):
        return False
    return contains_words(prediction, gold)


def _spaced(text: str) -> str:
    return " ".join(word for word in _WORD.findall(text.lower()) if word not in _ARTICLES)
