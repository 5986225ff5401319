"""What of a name counts when names are compared: its words, without case, accents and punctuation."""

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
    """A text without case, accents and surplus white space."""
    return " ".join(strip_accents(text).casefold().split())


def unqualified(name: str) -> str:
    """A name without what only tells it from its namesakes: "Laserblast (1978 film)", "Jeanne de Bar, Countess of …".

    Empty where nothing of the kind stands behind it, or no word before it.
    """
    return _cut(name, _QUALIFIER)


def unbracketed(name: str) -> str:
    """A name without its bracket, whatever comma it has: "Albert, Margrave of Meissen (1934–2012)". Empty as above."""
    return _cut(name, _BRACKET)


def _cut(name: str, at: re.Pattern[str]) -> str:
    found = at.search(name)
    core = name[: found.start()].strip() if found else ""
    return core if words_of(core) else ""


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
    """Of each its words, or those that say something, each once."""

    @classmethod
    def of(
        cls, names: Iterable[Sequence[str]], distinct: Callable[[Sequence[str]], frozenset[str]] = frozenset
    ) -> Spellings:
        """From the words of names, of which `distinct` makes what they share."""
        names = list(names)
        return cls(
            [" ".join(words) for words in names],
            [" ".join(sorted(words)) for words in names],
            [distinct(words) for words in names],
        )

    def at(self, places: Sequence[int]) -> Spellings:
        """Some of them."""
        return Spellings(
            [self.straight[place] for place in places],
            [self.in_order[place] for place in places],
            [self.distinct[place] for place in places],
        )


def distinct_words(words: Sequence[str]) -> frozenset[str]:
    """Those that say something; of a name that has none such ("The Who"), all."""
    every = frozenset(words)
    return every - _FUNCTION_WORDS or every
