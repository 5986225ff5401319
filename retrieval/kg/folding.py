"""What of a name counts when names are compared: its words, without case, accents and punctuation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trailforge.retrieval.words import words_of

_ACCENTS = re.compile("[\u0300-\u036f]+")
"""Marks over and under Latin, Greek and Cyrillic letters. Those of other scripts tell words apart and stay."""

_FUNCTION_WORDS = frozenset(
    "a an and are as at by did do does for from had has have how in is it its of on or that the to was were what when "
    "where which who whom whose why with".split()
)


def fold(text: str) -> str:
    """A text without case, accents and surplus white space."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    return " ".join(text.casefold().split())


def name_words(name: str) -> list[str]:
    """The words of a name in order. A name of signs alone ("!!!", a flag) is one word; none only for empty names."""
    folded = fold(name)
    return words_of(folded) or ([folded] if folded else [])


def content_words(text: str) -> set[str]:
    """The words of a text that say what it is about."""
    return {word for word in name_words(text) if word not in _FUNCTION_WORDS}


@dataclass(frozen=True, slots=True)
class Spellings:
    """Names as they are compared, name by name."""

    straight: list[str]
    """Their words with spaces between them."""
    in_order: list[str]
    """The same with the words sorted."""
    distinct: list[frozenset[str]]

    @classmethod
    def of(cls, names: Iterable[Sequence[str]]) -> Spellings:
        """From the words of names."""
        names = list(names)
        return cls(
            [" ".join(words) for words in names],
            [" ".join(sorted(words)) for words in names],
            [frozenset(words) for words in names],
        )
