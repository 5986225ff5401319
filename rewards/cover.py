"""Cover exact match (also contain-EM, CEM): the gold answer stands in the prediction."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trailforge.rewards.normalisation import normalize_answer

_NO_WORD = re.compile(r"[\W_]+")
_NUMBERS: tuple[str, ...] = tuple("zero one two three four five six seven eight nine ten eleven twelve".split())
_NUMBER = re.compile(rf"\b(?:{'|'.join(_NUMBERS)}|1[0-2]|[0-9])\b")


def cover_exact_match(prediction: str, golds: Sequence[str], *, word_boundary: bool = False) -> float:
    """1.0 if a normalised gold answer is part of the normalised prediction, else 0.0 (max over golds).

    By characters, as the published evaluators do it ("in" is covered by "Berlin"); `word_boundary` asks for whole
    words. Empty texts never match. CEM pays for verbosity: read it beside F1.
    """
    predicted = normalize_answer(prediction)
    covers = _has_words if word_boundary else _has_characters
    return float(any(covers(predicted, normalize_answer(gold)) for gold in golds))


def mentions(text: str, answer: str) -> bool:
    """Does the text mention the answer, as whole words after normalisation? An empty answer is never mentioned.

    By either reading of punctuation: deleted, as in every score ("U.S." is in "US troops"), or taken for a space
    ("Oslo" is in "Oslo's harbour" and "Oslo-based", which deleting would make "oslos" and "oslobased").
    """
    deleted = _has_words(normalize_answer(text), normalize_answer(answer))
    return deleted or _has_words(_spaced(text), _spaced(answer))


def states(text: str, answer: str) -> bool:
    """Does the text mention the answer, small numbers as words or as figures ("2" stands in "two moons")?"""
    lowered = answer.lower()
    in_figures = _NUMBER.sub(lambda m: m[0] if m[0].isdigit() else str(_NUMBERS.index(m[0])), lowered)
    in_words = _NUMBER.sub(lambda m: _NUMBERS[int(m[0])] if m[0].isdigit() else m[0], lowered)
    return any(mentions(text, wording) for wording in (answer, in_figures, in_words))


def _has_characters(text: str, part: str) -> bool:
    return bool(part) and part in text


def _has_words(text: str, words: str) -> bool:
    """Both normalised: words are parted by single spaces."""
    return bool(words) and f" {words} " in f" {text} "


def _spaced(text: str) -> str:
    return normalize_answer(_NO_WORD.sub(" ", text))
