"""How near words and names are by their letters, by the rapidfuzz package, many at once.

An edit puts in a letter, leaves one out, replaces one, or swaps two neighbouring ones (optimal string alignment).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trailforge.schemas import RetrievalError


def check_package() -> None:
    """Raises `RetrievalError` when rapidfuzz is not installed."""
    _rapidfuzz()


def edits(word: str, others: Sequence[str], most: int) -> np.ndarray:
    """Edits from a word to each other one; `most + 1` where they are more than `most`. Shape (len(others),)."""
    process, alignment = _rapidfuzz()
    return process.cdist([word], others, scorer=alignment.distance, score_cutoff=most, dtype=np.uint8)[0]


def agreement(text: str, others: Sequence[str]) -> np.ndarray:
    """1 less the edits from a text to each other one, over the longer one's length. Shape (len(others),)."""
    process, alignment = _rapidfuzz()
    return process.cdist([text], others, scorer=alignment.normalized_similarity, dtype=np.float64)[0]


def _rapidfuzz() -> tuple[Any, Any]:
    """What compares, and how. Raises `RetrievalError` when the package is not installed."""
    try:
        from rapidfuzz import process
        from rapidfuzz.distance import OSA
    except ImportError as error:
        raise RetrievalError("matching names needs rapidfuzz: run `make install`") from error
    return process, OSA
