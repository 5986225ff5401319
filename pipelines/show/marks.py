"""Find where answers and quotes occur in a text, so that a reader sees at once which passage says what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from trailforge.pipelines.show.parts import Mark
from trailforge.schemas import Document, Passage

_WORD = re.compile(r"\w+")
_TAGS = re.compile(r"\s*(?:<[^<>]{1,40}>\s*)+")
"""What a line of a tool's turn begins with, before its text."""
_RUN = 8
"""Words in a row that two texts have only where one took them from the other, or both from a third."""
_LONGEST = 40
"""Words of an answer that are looked for; a longer one is no phrase that a passage repeats."""

Place = tuple[int, int]
"""Positions in a text at which a part of it begins and ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A set of answers that are marked in the same way."""

    kind: str
    """Class of the mark: `gold`, `mended`, `wrong` or `step`."""
    answers: tuple[str, ...]


def spans(text: str, marks: Iterable[Marked]) -> list[Mark]:
    """Find where answers occur as whole words, ignoring case and punctuation; where two marks overlap, the first kind
    wins.
    """
    found: dict[tuple[int, int], str] = {}
    for mark in marks:
        for answer in mark.answers:
            pattern = _pattern(answer)
            for match in pattern.finditer(text) if pattern else ():
                found.setdefault(match.span(), mark.kind)
    return sorted(Mark(begin, end, kind) for (begin, end), kind in found.items())


def telling_first(passages: Sequence[Passage], marks: Sequence[Marked]) -> list[tuple[int, Passage, bool]]:
    """Return rank (from 1), passage, and whether its text has an answer; passages with an answer first, else by
    rank.
    """
    ranked = [(rank, each, bool(spans(each.text, marks))) for rank, each in enumerate(passages, start=1)]
    return sorted(ranked, key=lambda item: (not item[2], item[0]))


@lru_cache(maxsize=256)
def _pattern(answer: str) -> re.Pattern[str] | None:
    words = _WORD.findall(answer)
    if not 0 < len(words) <= _LONGEST:
        return None
    phrase = r"\W+".join(map(re.escape, words))
    return re.compile(rf"(?<!\w){phrase}(?!\w)", re.IGNORECASE)


@lru_cache(maxsize=1024)
def find_stating(text: str, answers: tuple[str, ...]) -> Place | None:
    """Return begin and end of the first sentence that states one of the answers, by the rules of `filters`; None
    without one.
    """
    from trailforge.filters import quote_of, says

    at = 0
    for line in text.splitlines(keepends=True):
        lead = _TAGS.match(line)
        begin = lead.end() if lead else 0
        part = line[begin:].rstrip()
        document = Document(id="", title="", text=part)
        for answer in answers:
            if part and says(document, answer):
                found = part.find(quote := quote_of(document, answer))
                start = at + begin + max(found, 0)
                return start, start + (len(quote) if found >= 0 else len(part))
        at += len(line)
    return None


def find_quote(text: str, quote: str) -> Place | None:
    """Return begin and end of the first place with a quote's words, ignoring white space; None without one."""
    words = quote.split()
    if not words:
        return None
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    return found.span() if found else None


def clip(span: Place, begin: int, end: int) -> Place | None:
    """Return the part of a span within two positions, counted from the first of these; None when there is none."""
    inner = max(span[0], begin) - begin, min(span[1], end) - begin
    return inner if inner[0] < inner[1] else None


def find_shared(text: str, others: Iterable[str]) -> list[Place]:
    """Return the places of a text where eight words or more in a row also occur in another text, ignoring case."""
    taken = {run for other in others for run in _runs([word.casefold() for word in _WORD.findall(other)])}
    words = list(_WORD.finditer(text))
    places: list[Place] = []
    for first, run in enumerate(_runs([word[0].casefold() for word in words])):
        if run not in taken:
            continue
        begin, end = words[first].start(), words[first + _RUN - 1].end()
        if places and begin <= places[-1][1]:
            begin = places.pop()[0]
        places.append((begin, end))
    return places


def _runs(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[first : first + _RUN]) for first in range(len(words) - _RUN + 1)]


def cut_out(places: Iterable[Place], holes: Iterable[Place]) -> list[Place]:
    """Return the places without the parts of them that are in `holes`."""
    left = list(places)
    for begin, end in holes:
        left = [
            part
            for place in left
            for part in ((place[0], min(place[1], begin)), (max(place[0], end), place[1]))
            if part[0] < part[1]
        ]
    return left
