"""Find what each of two documents alone says about a name that both have, since a question can lead from one to the
other there.

A question calls a thing by what one document says of it, and asks for what the other one says. So a joint is a name
with a sentence of each document that has it and says what the other document does not: figures, and words with a
capital. Everything is decided by rule, from words alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from trailforge.retrieval import split_sentences, words_of

_MARKED = re.compile(r"(?<![\w-])(?:[^\W\d_a-z]\w|\d)[\w.,-]*")
"""A word with a capital, or a figure."""
_MOST_MARKS = 8
"""Marks of a sentence that count: a list of names tells no more for being long."""


class Joint(NamedTuple):
    """A name in two documents, with a sentence of each that says something about it which the other document does
    not.
    """

    weight: int
    """Number of figures and words with a capital that the poorer of the two sentences has for itself."""
    name: str
    """The name that both documents have, case-folded."""
    first: str
    """The sentence of the first document about the name."""
    second: str
    """The sentence of the second document about the name."""


@dataclass(frozen=True, slots=True)
class DocumentNames:
    """A document that is indexed for finding what it says about names."""

    sentences: tuple[tuple[str, str, frozenset[str]], ...]
    """The sentences as they stand, each with its case-folded text and with its marked words."""
    words: frozenset[str]
    """The words of the whole document, including its title."""

    @classmethod
    def of(cls, title: str, text: str) -> DocumentNames:
        """Index a document's title and text."""
        told = tuple(
            (
                shown := " ".join(sentence.split()),
                shown.casefold(),
                frozenset(words_of(" ".join(_MARKED.findall(shown)))),
            )
            for sentence in split_sentences(text)
        )
        return cls(told, frozenset(words_of(f"{title} {text}")))

    def best(self, name: str, other: DocumentNames) -> tuple[int, str]:
        """Return the sentence around a name with the most figures and capitalised words that the other document lacks,
        and their number; 0 and an empty text where there is none.

        Of equals the earlier sentence wins. The words of the name are not counted.
        """
        pattern = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        named = frozenset(words_of(name))
        found = [
            (min(len(marks - other.words - named), _MOST_MARKS), shown)
            for shown, folded, marks in self.sentences
            if pattern.search(folded)
        ]
        return max(found, key=lambda each: each[0], default=(0, ""))


def joints(first: DocumentNames, second: DocumentNames, names: Iterable[str]) -> list[Joint]:
    """Return a joint for each name about which both documents say something of their own, in the order of the names."""
    found = ((name, first.best(name, second), second.best(name, first)) for name in names)
    return [
        Joint(min(one, other), name, told, answered) for name, (one, told), (other, answered) in found if one and other
    ]
