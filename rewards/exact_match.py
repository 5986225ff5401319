"""Exact match (EM)."""

from __future__ import annotations

from collections.abc import Sequence

from rewards.normalisation import normalize_answer


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1.0 when prediction and any gold answer are equal after normalising, else 0.0 (SQuAD; max over golds).

    A prediction that normalises to nothing scores 0.0, also against a gold answer that does.
    """
    normalized = normalize_answer(prediction)
    return float(bool(normalized) and normalized in map(normalize_answer, golds))
