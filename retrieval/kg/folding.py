"""Convert names into the forms in which they are compared: their words, without case, accents and punctuation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trailforge.retrieval.words import strip_accents, words_of

_BRACKET = re.compile(r"[\s_]*[\s_][(\[]")
_QUALIFIER = re.compile(r"[\s_]*[\s_][(\[]|,[\s_]")
"""Where what tells a name from its namesakes begins: a bracket or a comma, each with its space."""
_FUNCTION_WORDS = frozenset(
    "a an and are as at by did do does for from had has have how in is it its of on or that the to was were what when "
    "where which who whom whose why with".split()
)


def fold(text: str) -> str:
    """Return a text without case, accents and surplus white space."""
    return " ".join(strip_accents(text).casefold().split())


def unqualified(name: str) -> str:
    """Return a name without the addition that distinguishes it from namesakes: "Laserblast (1978 film)", "Jeanne de
    Bar, Countess of …". The result is empty where the name has no such addition, or no word before it.
    """
    return _cut(name, _QUALIFIER)


def unbracketed(name: str) -> str:
    """Return a name without its bracket, leaving any comma: "Albert, Margrave of Meissen (1934–2012)"; empty where it
    ends in no bracket.
    """
    return _cut(name, _BRACKET)


def _cut(name: str, at: re.Pattern[str]) -> str:
    found = at.search(name)
    core = name[: found.start()].strip() if found else ""
    return core if words_of(core) else ""


def name_words(name: str) -> list[str]:
    """Return the words of a name in order. A name of signs alone ("!!!", a flag) is one word; only empty names have
    none."""
    folded = fold(name)
    return words_of(folded) or ([folded] if folded else [])


def content_words(text: str) -> set[str]:
    """Return the content words of a text, which say what it is about."""
    return {word for word in name_words(text) if word not in _FUNCTION_WORDS}


@dataclass(frozen=True, slots=True)
class Spellings:
    """Names in the forms in which they are compared, name by name."""

    straight: list[str]
    """Words of each name, separated by spaces."""
    in_order: list[str]
    """Words of each name, sorted and separated by spaces."""
    distinct: list[frozenset[str]]
    """Distinct words of each name, or those of them that carry meaning."""

    @classmethod
    def of(
        cls, names: Iterable[Sequence[str]], distinct: Callable[[Sequence[str]], frozenset[str]] = frozenset
    ) -> Spellings:
        """Make the forms from the words of names; `distinct` returns the words of a name that are compared as a set."""
        names = list(names)
        return cls(
            [" ".join(words) for words in names],
            [" ".join(sorted(words)) for words in names],
            [distinct(words) for words in names],
        )

    def at(self, places: Sequence[int]) -> Spellings:
        """Return the compared forms of the names at these positions."""
        return Spellings(
            [self.straight[place] for place in places],
            [self.in_order[place] for place in places],
            [self.distinct[place] for place in places],
        )


def distinct_words(words: Sequence[str]) -> frozenset[str]:
    """Return the words that carry meaning; of a name that has none such ("The Who"), all words."""
    every = frozenset(words)
    return every - _FUNCTION_WORDS or every
