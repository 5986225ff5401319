"""The text of a page: in parts of whole sentences, searched by words."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from trailforge.retrieval.page_tools import PagePart
from trailforge.retrieval.sentences import sentence_spans
from trailforge.retrieval.words import fold_text, strip_accents
from trailforge.schemas import NoSuchPage

PART_WORDS = 1000
_MOST_SPOTS = 20
_AROUND = 200
"""Characters on either side of what was found."""
_LONGEST_NAME = 200
"""Characters of a page's name in a message."""
_TOKEN = re.compile(r"\S+")
_PLAIN = str.maketrans("‘’“”‐‑–—", "''\"\"----")
"""Quotes and hyphens as a keyboard has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A place in a page where words stand."""

    part: int
    """Of the page, from 1."""
    text: str
    """The words with what is around them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWords:
    """What `/find` gives."""

    id: str
    title: str
    parts: int
    count: int
    """Of places in the page."""
    matches: tuple[Spot, ...]
    """Places in the page's order: the first of each part that has any, and of the others the first ones."""


def part_starts(text: str, words: int) -> list[int]:
    """Where each part begins, in characters; the first at 0.

    A part has at most so many words and ends where a sentence does; a sentence that is longer by itself is cut between
    words.
    """
    starts, room = list[int](), 0
    for first, last in sentence_spans(text):
        tokens = [token.start() for token in _TOKEN.finditer(text, first, last)]
        if len(tokens) > room:
            starts += tokens[::words]
            room = words - (len(tokens) - 1) % words - 1
        else:
            room -= len(tokens)
    return [0, *starts[1:]]


@dataclass(frozen=True)
class OpenedPage:
    """A text with a title."""

    id: str
    title: str
    text: str
    words: int = PART_WORDS
    """Of a part, at most."""
    start: int = 0
    """Where the passage begins that it was opened by, in characters."""

    @cached_property
    def starts(self) -> list[int]:
        """Where each part begins, in characters."""
        return part_starts(self.text, self.words)

    @property
    def parts(self) -> int:
        """How many there are, at least one."""
        return len(self.starts)

    def part_at(self, place: int) -> int:
        """The part, from 1, in which a character stands."""
        return max(1, bisect_right(self.starts, place))

    def part(self, number: int | None = None) -> PagePart:
        """One of the parts, from 1; None: the one in which the passage begins. Raises `NoSuchPage`."""
        number = self.part_at(self.start) if number is None else number
        if not 1 <= number <= self.parts:
            have = f"has {self.parts} parts" if self.parts > 1 else "has one part"
            raise NoSuchPage(f"there is no part {number}: the page {self.name!r} {have}")
        bounds = [*self.starts, len(self.text)]
        text = self.text[bounds[number - 1] : bounds[number]].strip()
        return PagePart(id=self.id, title=self.title, part=number, parts=self.parts, text=text)

    @property
    def name(self) -> str:
        """The title, else the id, as messages have it."""
        return (self.title or self.id)[:_LONGEST_NAME]

    def find(self, words: str) -> FoundWords:
        """Where these words stand there, one after the other, whatever their capitals, accents, kinds of quotes and
        hyphens, and the space between them.
        """
        wanted, tokens = folded(words), list(_TOKEN.finditer(self.text))
        plain = [_fold(token.group()) for token in tokens]
        starts = [0, *accumulate(len(token) + 1 for token in plain)]
        text, places = " ".join(plain), list[int]()
        at = text.find(wanted) if wanted else -1
        while at >= 0:
            places.append(at)
            at = text.find(wanted, at + len(wanted))

        def place(folded_at: int) -> int:
            """In the text as it is."""
            number = bisect_right(starts, folded_at, hi=len(tokens)) - 1
            return tokens[number].start() + _unfolded(tokens[number].group(), folded_at - starts[number])

        shown = self._shown(places, [token.start() for token in tokens], starts)
        spans = [(place(at), place(at + len(wanted) - 1) + 1) for at in shown]
        matches = tuple(Spot(part=self.part_at(first), text=_around(self.text, first, last)) for first, last in spans)
        return FoundWords(id=self.id, title=self.title, parts=self.parts, count=len(places), matches=matches)

    def _shown(self, places: Sequence[int], tokens: Sequence[int], starts: Sequence[int]) -> list[int]:
        """The places that are shown, rising. `tokens`: where each begins in the text; `starts`: where when folded."""
        bounds = [starts[min(bisect_left(tokens, each), len(tokens))] for each in self.starts]
        firsts = [bisect_left(places, bound) for bound in bounds]
        of_parts = [first for first, end in zip(firsts, [*firsts[1:], len(places)], strict=True) if first < end]
        chosen = dict.fromkeys((*of_parts, *range(min(len(places), _MOST_SPOTS))))
        return [places[number] for number in sorted(list(chosen)[:_MOST_SPOTS])]


def folded(text: str) -> str:
    """A text as it is compared: on one line, without capitals and accents, and with plain quotes and hyphens."""
    return " ".join(map(_fold, text.split()))


def _fold(word: str) -> str:
    return fold_text(strip_accents(word.translate(_PLAIN)))


def _unfolded(word: str, place: int) -> int:
    """The place in a word of the character that stands at a place of it when it is folded."""
    if len(_fold(word)) == len(word):
        return min(place, len(word))
    ends = list(accumulate(len(_fold(character)) for character in word))
    return min(bisect_right(ends, place), len(word))


def _around(text: str, first: int, last: int) -> str:
    """From word to word."""
    start, end = max(0, first - _AROUND), min(len(text), last + _AROUND)
    while 0 < start < first and not text[start - 1].isspace():
        start += 1
    while last < end < len(text) and not text[end].isspace():
        end -= 1
    return " ".join(text[start:end].split())
