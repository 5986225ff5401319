"""Read a text as the matcher compares it: words without case, accents and articles; numbers as numbers; dates;
countries.

Two readings of punctuation within a word: joined ("U.S." is `us`, "AC/DC" is `acdc`) and parted ("Oslo-based" is
`oslo based`). Whatever the reading, a number is one word: nothing is found inside "23,597" or "3.12".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import TypeVar

from trailforge.rewards.figures import FRACTION_SIGNS

T = TypeVar("T")
_LONGEST_KEPT = 2000
"""Characters of a short text."""
_ARTICLES = frozenset(("a", "an", "the"))
_ACCENTS = re.compile("[\u0300-\u036f]")
_LETTERS = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"', "−": "-", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d"}
    | {"Đ": "D", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ı": "i", "þ": "th", "Þ": "Th", "ð": "d", "Ð": "D"}
    | FRACTION_SIGNS
)
_OTHER_DIGIT = re.compile(r"[^\D0-9]")

_RAISED = re.compile(r"(?<=[^\W\d_])\$?\^\{?(\w+)\}?\$?")
"""`SD$^2$`, `SD^2`: as `SD²`, which is SD2 without its accents. 10^5 is a power, and not 105."""
_NUMBER = r"(?:(?<![^\s(])-)?(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:[.:/]\d+)*)"
_LETTER = r"[^\W\d_]"
_PUNCTUATION = r"[!-/:-@\[-`{-~]"
_PARTED = re.compile(rf"{_NUMBER}[^\W_]*|{_LETTER}[^\W_]*(?P<owner>'s(?![^\W_]))?")
_JOINED = re.compile(rf"{_NUMBER}[^\W_]*|{_LETTER}(?:[^\W_]|{_PUNCTUATION}+(?={_LETTER}))*")
_NOT_IN_WORDS = re.compile(_PUNCTUATION)

_MONTHS: tuple[str, ...] = tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_DATE = re.compile(
    r"(?<![^\W_])(?:"
    r"(\d{4})-(\d{2})-(\d{2})"
    rf"|{_DAY}(?: of)? {_MONTH}(?:,? (\d{{4}}))?"
    rf"|{_MONTH} {_DAY}(?:,? (\d{{4}}))?"
    rf"|{_MONTH},? (\d{{4}})"
    r")(?![^\W_]|[.,:/-]\d)"
)

LONGEST_NAME = 200
"""Largest number of characters of a name."""
Date = tuple[int | None, int | None, int | None]
"""A date as year, month and day; None for a part that is not given."""


@dataclass(frozen=True, slots=True)
class WordSequence:
    """The words of a text, and the characters between them."""

    words: tuple[str, ...]
    gaps: tuple[str, ...]
    """Characters around the words, one entry more than words: `gaps[i]` comes before word i; articles and a possessive
    `'s` are part of them."""

    def __str__(self) -> str:
        """The words, each between spaces."""
        return f" {' '.join(self.words)} "

    def positions(self, other: WordSequence, most: int) -> Iterator[int]:
        """Return where the words of another reading begin in this one, as positions of words from 0; no more than
        `most` of them.
        """
        if not other.words:
            return
        text, part, at, counted, word = str(self), str(other), 0, 0, 0
        for _ in range(most):
            at = text.find(part, at)
            if at < 0:
                return
            word += text.count(" ", counted, at)
            yield word
            counted, at = at, at + 1

    def part(self, start: int, end: int) -> WordSequence:
        """Return the words from `start` to `end`."""
        return WordSequence(self.words[start:end], self.gaps[start : end + 1])

    def has(self, other: WordSequence) -> bool:
        """Tell whether the words of `other` occur in this sequence in a row; false when it has no words."""
        return bool(other.words) and str(other) in str(self)


def fold(text: str) -> str:
    """Return a text without case, accents and marks of raised figures; white space is collapsed, and apostrophes,
    quotes and digits are plain."""
    if not text.isascii():
        text = _OTHER_DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text)
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.translate(_LETTERS)))
    if "^" in text:
        text = _RAISED.sub(r"\1", text)
    return " ".join(text.casefold().split())


def read(folded: str, *, joined: bool) -> WordSequence:
    """Return the words of a folded text (see `fold`). Punctuation within a word is left out when `joined` ("U.S." is
    one word), and separates words otherwise.
    """
    words, gaps, held, end = [], [], [], 0
    for match in (_JOINED if joined else _PARTED).finditer(folded):
        word, start = match[0], match.start()
        gap = folded[end:start]
        end = start + len(word)
        is_owner = False
        if not word.isalpha():
            is_owner = not joined and match["owner"]
            word = word[:-2] if is_owner else word
            word = _plain_number(word) if word[0] == "-" or word[0].isdigit() else _NOT_IN_WORDS.sub("", word)
        if word in _ARTICLES:
            held += (gap, word)
            continue
        words.append(word)
        gaps.append("".join((*held, gap)) if held else gap)
        held = ["'s"] if is_owner else []
    return WordSequence(tuple(words), (*gaps, "".join((*held, folded[end:]))))


def keep_for_texts(function: Callable[[str], T]) -> Callable[[str], T]:
    """Cache the results of a function of one text: those of many short texts, since passages are compared with many
    answers, and those of the last two long ones.
    """
    short, long = lru_cache(4096)(function), lru_cache(2)(function)
    return lambda text: short(text) if len(text) <= _LONGEST_KEPT else long(text)


@keep_for_texts
def readings(folded: str) -> tuple[WordSequence, WordSequence]:
    """Return both readings of a folded text: with joined and with separated punctuation."""
    return read(folded, joined=True), read(folded, joined=False)


def find_dates(folded: str) -> Iterator[tuple[re.Match[str], Date]]:
    """Return the days and months of a text, in their order. A year alone is a number."""
    for match in _DATE.finditer(folded):
        year, number, day, day1, month1, year1, month2, day2, year2, month3, year3 = match.groups()
        name = month1 or month2 or month3
        month = _MONTHS.index(name[:3]) + 1 if name else int(number)
        days = day or day1 or day2
        date = _whole(year or year1 or year2 or year3), month, _whole(days)
        if 1 <= month <= 12 and (date[2] is None or 1 <= date[2] <= 31):
            yield match, date


def date_of(folded: str) -> Date | None:
    """Return the date that the text is, if it is one and nothing else."""
    text = folded.strip(" .,")
    found = next(find_dates(text), None)
    return found[1] if found and found[0].span() == (0, len(text)) else None


def covers_date(date: Date, gold: Date) -> bool:
    """Tell whether a date says all that another says."""
    return all(wanted is None or part == wanted for part, wanted in zip(date, gold, strict=True))


def is_number(word: str) -> bool:
    """Tell whether a word of a reading is a number."""
    return word.lstrip("-").replace(".", "", 1).isdecimal()


@cache
def nations() -> dict[str, tuple[str, ...]]:
    """Return for each name of a country or its people all of them, from the lines of `nations.txt`."""
    names = [tuple(name.strip() for name in re.split(r"[:/]", line)) for line in _nation_lines()]
    return {name_key(name): each for each in names for name in each}


@cache
def peoples() -> frozenset[str]:
    """Return the keys of the names of peoples alone, which come after the colon of a line of `nations.txt`."""
    return frozenset(name_key(name) for line in _nation_lines() for name in line.partition(":")[2].split("/"))


def _nation_lines() -> list[str]:
    text = files("trailforge.rewards").joinpath("nations.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip()]


@keep_for_texts
def name_key(name: str) -> str:
    """Return a key that is equal for all spellings of a name; empty for a text that is too long for one."""
    return str(read(fold(name), joined=True)) if len(name) < LONGEST_NAME else ""


def _whole(figures: str | None) -> int | None:
    return int(figures) if figures else None


def _plain_number(word: str) -> str:
    return word.replace(",", "")
