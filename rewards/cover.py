"""Cover exact match (CEM, also called contain-EM or sub-EM)."""

from __future__ import annotations

from collections.abc import Sequence

from rewards.normalisation import contains_words, normalize_answer


def cover_exact_match(prediction: str, golds: Sequence[str], *, word_boundary: bool = False) -> float:
    """1.0 when the normalised prediction contains any normalised gold answer, else 0.0 (max over golds).

    By default characters are compared, as Search-R1, R1-Searcher and RAGSearch do: "Berliner" covers "Berlin".
    With `word_boundary` the gold answer has to begin and end at a word boundary. CEM pays for verbosity: read it
    beside F1. An empty normalised gold answer is covered by nothing.
    """
    text = normalize_answer(prediction)
    covers = contains_words if word_boundary else _contains_characters
    return float(any(covers(text, normalize_answer(gold)) for gold in golds))


def _contains_characters(text: str, part: str) -> bool:
    return bool(part) and part in text
