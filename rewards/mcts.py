"""The reward of a rollout (MSearcher, section 3.1.3), and when two answers are the same.

The paper pays r in {0, 1} for the final answer and leaves the comparison open. Ours takes "city of Oslo" for "Oslo",
but not a paragraph about Norway.
"""

from __future__ import annotations

from collections.abc import Sequence

from trailforge.rewards.cover import cover_exact_match
from trailforge.rewards.normalisation import normalize_answer

_MOST_WORDS_RATIO = 3


def mcts_reward(prediction: str, golds: Sequence[str]) -> float:
    """1.0 if the prediction equals a gold answer, or covers one (whole words) in at most three times its words."""
    return float(any(_answers(prediction, gold) for gold in golds))


def same_answer(first: str, second: str) -> bool:
    """Do two answers say the same? The reward's rule, either way round; two empty answers are the same."""
    if normalize_answer(first) == normalize_answer(second):
        return True
    return _answers(first, second) or _answers(second, first)


def _answers(prediction: str, gold: str) -> bool:
    """One gold answer's worth of `mcts_reward`; being equal is the shortest way to cover."""
    words, gold_words = (len(normalize_answer(text).split()) for text in (prediction, gold))
    return words <= _MOST_WORDS_RATIO * gold_words and bool(cover_exact_match(prediction, (gold,), word_boundary=True))
