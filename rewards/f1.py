"""Token F1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rewards.normalisation import normalize_answer


def f1(prediction: str, golds: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over bags of normalised words (SQuAD; max over golds), in [0, 1].

    A prediction or gold answer that normalises to nothing scores 0.0.
    """
    predicted = normalize_answer(prediction).split()
    return max((_f1(predicted, normalize_answer(gold).split()) for gold in golds), default=0.0)


def _f1(predicted: list[str], gold: list[str]) -> float:
    """With c words in common: precision c/|p|, recall c/|g|, and so F1 = 2c / (|p| + |g|)."""
    common = (Counter(predicted) & Counter(gold)).total()
    return 2 * common / (len(predicted) + len(gold)) if common else 0.0
