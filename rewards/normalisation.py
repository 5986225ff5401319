"""What counts as the same answer: SQuAD's normalisation (Rajpurkar et al., 2016), which every score here applies."""

from __future__ import annotations

import re
import string

_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalize_answer(text: str) -> str:
    """Lower case, ASCII punctuation deleted (not spaced), a/an/the dropped, runs of white space made one space.

    The order is SQuAD's. The result may be empty (`"The"`); scores treat an empty answer as no answer.
    """
    without_punctuation = text.lower().translate(_ASCII_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", without_punctuation).split())


def contains_words(text: str, words: str) -> bool:
    """Whether `words` occurs in `text` from word boundary to word boundary.

    Both are normalised already, so that words are parted by single spaces. Nothing contains an empty `words`.
    """
    return bool(words) and f" {words} " in f" {text} "
