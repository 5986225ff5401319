"""Word overlap after normalisation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trailforge.rewards.normalisation import normalize_answer


def f1(prediction: str, golds: Sequence[str]) -> float:
    """The best F1 over the gold answers, in [0, 1]: words as bags, as SQuAD counts them. Empty texts give 0.0."""
    return max((_f1(prediction, gold) for gold in golds), default=0.0)


def _f1(prediction: str, gold: str) -> float:
    predicted, wanted = normalize_answer(prediction).split(), normalize_answer(gold).split()
    common = (Counter(predicted) & Counter(wanted)).total()
    return 2 * common / (len(predicted) + len(wanted)) if common else 0.0
