"""Exact match after normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from trailforge.rewards.normalisation import normalize_answer


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1.0 if the normalised prediction equals a normalised gold answer, else 0.0. Empty texts never match."""
    predicted = normalize_answer(prediction)
    return float(bool(predicted) and any(predicted == normalize_answer(gold) for gold in golds))
