"""Pages to read on in: all passages of a corpus under one title, or one of the web; in parts, searched by words."""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from trailforge.retrieval.page_tools import PagePart
from trailforge.schemas import Document

PART_WORDS = 1000
_MOST_PASSAGES = 1000
"""Of one title."""
_MOST_SPOTS = 20
_AROUND = 200
"""Characters on either side of what was found."""
_BETWEEN = "\n\n"
_WORD, _TOKEN = re.compile(r"\S+\s*"), re.compile(r"\S+")


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
    """The first of them."""


@dataclass(frozen=True)
class OpenedPage:
    """A text with a title."""

    id: str
    title: str
    text: str
    words: int = PART_WORDS
    """Of a part."""
    start: int = 0
    """Where the passage begins that it was opened by, in characters."""

    @cached_property
    def starts(self) -> list[int]:
        """Where each part begins, in characters."""
        return [word.start() for number, word in enumerate(_WORD.finditer(self.text)) if number % self.words == 0] or [
            0
        ]

    @property
    def parts(self) -> int:
        """How many there are, at least one."""
        return len(self.starts)

    def part_at(self, place: int) -> int:
        """The part, from 1, in which a character stands."""
        return max(1, bisect_right(self.starts, place))

    def part(self, number: int) -> PagePart:
        """One of the parts, from 1."""
        bounds = [*self.starts, len(self.text)]
        text = self.text[bounds[number - 1] : bounds[number]].strip()
        return PagePart(id=self.id, title=self.title, part=number, parts=self.parts, text=text)

    def find(self, words: str) -> FoundWords:
        """Where these words stand there, one after the other, whatever their capitals and the space between them."""
        wanted, tokens = _folded(words), list(_TOKEN.finditer(self.text))
        folded = [token.group().casefold() for token in tokens]
        starts = [0, *accumulate(len(token) + 1 for token in folded)]
        text, places = " ".join(folded), list[int]()
        at = text.find(wanted) if wanted else -1
        while at >= 0:
            places.append(at)
            at = text.find(wanted, at + len(wanted))

        def place(folded_at: int) -> int:
            """In the text as it is."""
            number = bisect_right(starts, folded_at, hi=len(tokens)) - 1
            return min(tokens[number].start() + folded_at - starts[number], tokens[number].end())

        spans = [(place(at), place(at + len(wanted) - 1) + 1) for at in places[:_MOST_SPOTS]]
        matches = tuple(Spot(part=self.part_at(first), text=_around(self.text, first, last)) for first, last in spans)
        return FoundWords(id=self.id, title=self.title, parts=self.parts, count=len(places), matches=matches)


def _around(text: str, first: int, last: int) -> str:
    """From word to word."""
    start, end = max(0, first - _AROUND), min(len(text), last + _AROUND)
    while 0 < start < first and not text[start - 1].isspace():
        start += 1
    while last < end < len(text) and not text[end].isspace():
        end -= 1
    return " ".join(text[start:end].split())


class CorpusPages:
    """Finds pages of a corpus by the id of a passage, or by title."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._lock = threading.Lock()

    def find(self, name: str, words: int = PART_WORDS) -> OpenedPage | None:
        """The page of this name. The first call reads all titles: seconds for a million, so call it in a thread."""
        with self._lock:
            ids, titles = self._by_name
        found = next((row for row in ids.rows(name) if self._documents[row].id == name), None)
        title = _folded(name if found is None else self._documents[found].title)
        rows = [row for row in titles.rows(title)[:_MOST_PASSAGES] if _folded(self._documents[row].title) == title]
        if found is not None and (not title or found not in rows):
            rows = [found]
        if not rows or (found is None and not title):
            return None
        texts = {row: self._documents[row].text for row in rows}
        opened = rows[0] if found is None else found
        start = sum(len(text) + len(_BETWEEN) for row, text in texts.items() if row < opened)
        page = self._documents[opened]
        return OpenedPage(page.id, page.title, _BETWEEN.join(texts.values()), words, start)

    @cached_property
    def _by_name(self) -> tuple[_Rows, _Rows]:
        """By id and by title."""
        hashes = np.empty((2, len(self._documents)), np.int64)
        for row, document in enumerate(self._documents):
            hashes[:, row] = hash(document.id), hash(_folded(document.title))
        return _Rows(hashes[0]), _Rows(hashes[1])


class _Rows:
    """Rows by the hash of a text: 12 bytes a row, whatever the texts' length."""

    def __init__(self, hashes: np.ndarray) -> None:
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._rows = hashes[order], order.astype(np.int32)

    def rows(self, text: str) -> list[int]:
        """Those that may be of this text, rising."""
        wanted = np.int64(hash(text))
        first, last = (int(np.searchsorted(self._hashes, wanted, side)) for side in ("left", "right"))
        return self._rows[first:last].tolist()


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
