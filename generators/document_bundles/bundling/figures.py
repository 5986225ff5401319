"""Find the figures in a sentence by rule, with their kinds: sums of money, shares, dates, ages, and counts of
things.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from trailforge.retrieval import COMMON_WORDS

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_SUM = re.compile(r"[$€£]\s?\d[\d,.]*\d?(?:\s?(?:thousand|million|billion|trillion)\b)?", re.IGNORECASE)
_SHARE = re.compile(r"(?<!\w)(?<!\d\.)\d(?:\.?\d)*+\s?(?:%|percent\b|per cent\b)", re.IGNORECASE)
_DAY = re.compile(rf"\b(?:{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?|\d{{1,2}}\s{_MONTH}(?:\s\d{{4}})?)\b")
_AGE = re.compile(r"(?<![\w.,-])\d{1,3}(?:-year-old\b| years old\b)|(?<=[a-z], )\d\d(?=[,.](?: |$))")
_NUMBER = r"\d[\d,]*+(?:\.\d++)?(?: (?:thousand|million|billion))?|two|three|four|five|six|seven|eight|nine|ten"
_COUNT = re.compile(rf"(?<![\w$€£.,/-])(?P<number>{_NUMBER}) (?:[a-z-]++ )?(?P<noun>[a-z]{{3,}}s)\b")
_KINDS = (("sums", _SUM), ("shares", _SHARE), ("dates", _DAY), ("ages", _AGE))


class Figure(NamedTuple):
    """A figure in a sentence: its kind and its text."""

    kind: str
    """The kind of figure: `sums`, `shares`, `dates`, `ages`, or the things that are counted."""
    at: int
    """Position in the sentence at which the figure begins."""
    text: str
    """The figure's text, case-folded; for a count its number and what is counted."""


def figures_of(sentence: str) -> list[Figure]:
    """Return the sums of money, shares, dates, ages and counts in a sentence. A number after a capitalised word counts
    nothing: Section 4, Table 2, H.R. 4.
    """
    found: list[Figure] = []
    for kind, pattern in _KINDS:
        found += [
            Figure(kind, match.start(), match[0].casefold().rstrip(",. ")) for match in pattern.finditer(sentence)
        ]
        sentence = pattern.sub(lambda match: " " * len(match[0]), sentence)
    for match in _COUNT.finditer(sentence):
        at, number, noun = match.start(), match["number"], match["noun"]
        if noun not in COMMON_WORDS and not (number[0].isdigit() and _is_label(sentence, at)):
            found.append(Figure(noun, at, f"{number} {noun}".casefold()))
    return found


def _is_label(sentence: str, at: int) -> bool:
    """Is the word before a place one with a capital, and not the sentence's first?"""
    end = start = at - 1
    while start > 0 and not sentence[start - 1].isspace():
        start -= 1
    return start > 0 and sentence[end] == " " and sentence[start].isupper()
