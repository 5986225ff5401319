"""Patterns by which a question describes something to look up: regular expressions over the question with its names
masked.

Masked are names: quoted titles, `#k`, and runs of capitalised words with small words between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from trailforge.small_model.splitting.words import (
    AUXILIARIES,
    DETERMINERS,
    FOREIGN_ARTICLES,
    FUNCTION_WORDS,
    LOOSE_GLUE,
    PREPOSITIONS,
    SENTENCE_STARTERS,
    TITLE_GLUE,
)

MASK = "ꙮ"
"""The letter that stands for every character of a name: a word character that no question holds."""

WORD = re.compile(r"#\d+|[^\W_][\w.&/-]*(?:['’](?!s\b)\w+)*")
_QUOTED = re.compile(r"\"[^\"]+\"|“[^”]+”|(?<!\w)'[^']+'(?!\w)")


def mask_names(question: str) -> str:
    """Replace every character of a name, a quoted title or a `#k` by one letter, so that the length stays the same."""
    masked = list(question)
    for start, end in _name_runs(question):
        masked[start:end] = MASK * (end - start)
    return "".join(masked)


def _name_runs(question: str) -> list[tuple[int, int]]:
    """Where names stand: quoted titles, references, and runs of capitalised words with small words between them."""
    quoted = [match.span() for match in _QUOTED.finditer(question)]
    words = [m for m in WORD.finditer(question) if not any(s <= m.start() < e for s, e in quoted)]
    runs: list[tuple[int, int]] = []
    i = 0
    while i < len(words):
        if not _is_name(words, i):
            i += 1
            continue
        last = i
        while (following := _next_of_name(question, words, last)) is not None:
            last = following
        runs.append((words[i].start(), words[last].end()))
        i = last + 1
    return sorted(quoted + runs)


def _is_name(words: list[re.Match[str]], i: int) -> bool:
    """Capitalised, a number or a reference; the first word only when it cannot begin a question otherwise."""
    text = words[i][0]
    if text.startswith("#") or text[0].isdigit():
        return True
    if not text[0].isupper():
        return False
    if words[i].start() == 0 and text.lower() in SENTENCE_STARTERS:
        return text.lower() in DETERMINERS.split() and len(words) > 1 and words[1][0][0].isupper()
    return True


def _next_of_name(question: str, words: list[re.Match[str]], last: int) -> int | None:
    """Index of the word that continues the name that ends with word `last`."""
    if words[last][0].startswith("#"):
        return None
    for i in range(last + 1, min(last + 4, len(words))):
        gap = question[words[i - 1].end() : words[i].start()]
        text = words[i][0]
        if gap.strip(" :-") not in ("", "'s", "’s", "'", "’", ",", "&", "...") or text.startswith("#"):
            return None
        if gap.strip(" ") == "," and not (text[:1].isupper() and i == last + 1):
            return None
        if text[0].isupper() or text[0].isdigit() or words[i - 1][0] in FOREIGN_ARTICLES:
            return i
        if text not in TITLE_GLUE and text not in LOOSE_GLUE:
            return None
    return None


Kind = Literal[
    "subject_relative", "object_relative", "whose", "participle", "possessive", "compound", "of", "infinitive", "place"
]
"""The way in which a span describes what it stands for."""
RELATIVE_KINDS: tuple[Kind, ...] = ("subject_relative", "object_relative", "whose")


def _one_of(words: str) -> str:
    return "(?:" + "|".join(sorted(words.split(), key=len, reverse=True)) + r")\b"


_DET = _one_of(DETERMINERS)
_AUX = _one_of(AUXILIARIES)
_PREP = _one_of(PREPOSITIONS)
_NAME = rf"{MASK}+(?: {MASK}+)?"
_NOUN = rf"(?!(?:{'|'.join(sorted(FUNCTION_WORDS))})\b)[^\W{MASK}][^\W{MASK}]*(?:[-.'’](?!s\b)[^\W{MASK}]+)*"
_POSSESSIVE = r"(?:['’]s?(?=\s))"
_SIMPLE = rf"(?:{_DET} )?(?:(?:{_NOUN}|{_NAME}) ){{0,3}}(?:{_NOUN}|{_NAME})"
_OBJECT = rf"(?:{_NAME}{_POSSESSIVE} {_NOUN}(?: {_NOUN})?|{_SIMPLE})(?: (?:{_PREP}|and) {_SIMPLE}){{0,2}}"
_HEAD = rf"(?P<det>{_DET}) (?P<head>(?:(?:{_NOUN}) ){{0,3}}?{_NOUN})"
_SUBJECT = (
    rf"(?:(?:{_DET} )?(?:{_NOUN} ){{0,2}}{_NAME}|{_DET} (?:{_NOUN} ){{0,3}}{_NOUN}|{_NAME}{_POSSESSIVE} {_NOUN}"
    rf"(?: {_NOUN})?)(?: {_PREP} (?:{_DET} )?(?:{_NOUN} )?{_NAME})?|they"
)
_PARTICIPLE = (
    r"(?:[a-z-]+ed|made|born|written|known|held|won|sung|built|found|led|run|spoken|set|shown|drawn|done|sent)"
)
_ADVERB = r"(?:[a-z]+ly|also|first|last|now)"
_VERB_GROUP = (
    rf"(?:{_AUX}(?: {_AUX})?(?: {_ADVERB})?(?: {_NOUN})?(?: {_PREP})?"
    rf"|{_AUX} {_DET} {_NOUN}(?: {_PREP})?"
    rf"|(?:{_NOUN}) (?:{_PREP} ){{0,2}}{_OBJECT}"
    rf"|{_AUX}(?: {_NOUN}) (?:{_PREP} )?{_OBJECT}"
    rf"|{_NOUN}(?: {_PREP}){{0,2}})"
)

BEGINS_SPAN = re.compile(rf"(?!(?:that|his|her|its|their)\b)(?:{_DET}|{MASK}.*)", re.IGNORECASE)
APPOSITION = re.compile(rf"{_DET} (?:{_NOUN} )*{_NOUN} of (?:{_DET} )?{_NAME}", re.IGNORECASE)
STRANDED = re.compile(rf"(?:^| ){_PREP}$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression for one way to describe something, with its weight and the whole phrase that it matches."""

    kind: Kind
    weight: float
    regex: re.Pattern[str]


def _pattern(kind: Kind, weight: float, regex: str) -> Pattern:
    return Pattern(kind, weight, re.compile(regex, re.IGNORECASE))


PATTERNS = (
    # the country that produced Fist Power
    _pattern("subject_relative", 6.0, rf"{_HEAD},? (?P<link>that|which|who) (?P<clause>(?!{_DET}|[{MASK}]).+)"),
    # the city where X was born; the country X is from; the city in which X died
    _pattern(
        "object_relative",
        6.0,
        rf"{_HEAD},? (?P<link>(?:{_PREP} )?(?:which|whom)|that|where|when|who) "
        rf"(?P<subject>{_SUBJECT}) (?P<verb>{_VERB_GROUP})",
    ),
    # the country where the composer of the Peer Gynt suites was born
    _pattern(
        "object_relative",
        6.0,
        rf"{_HEAD},? (?P<link>(?:{_PREP} )?(?:which|whom)|that|where) (?P<subject>.*?{MASK}.*?) (?P<verb>{_AUX} .+)",
    ),
    _pattern(
        "object_relative",
        6.0,
        rf"{_HEAD}(?P<link>) (?P<subject>(?:{_DET} )?(?=[^ ]*{MASK}){_SUBJECT}) (?P<verb>{_VERB_GROUP})",
    ),
    # the state whose official sport is jousting
    _pattern("whose", 6.0, rf"{_HEAD},? (?P<link>whose) (?P<clause>(?:{_NOUN} ){{1,3}}{_AUX} (?:{_PREP} )?{_OBJECT})"),
    # the band named after X; the city located in X; the county containing X
    _pattern(
        "participle",
        5.0,
        rf"{_HEAD},? (?P<link>{_PARTICIPLE}(?: {_PREP})?|(?:[a-z]+ing)(?: {_PREP})?) (?P<clause>{_OBJECT})",
    ),
    # Suzanne Farrington's mother
    _pattern(
        "possessive",
        5.0,
        rf"(?P<name>(?:{_DET} (?:{_NOUN} ){{0,2}})?{_NAME}){_POSSESSIVE} (?P<head>(?:{_NOUN} ){{0,2}}{_NOUN})",
    ),
    # the It'll Be Me singer
    _pattern("compound", 4.0, rf"(?P<det>{_DET}) (?P<name>{_NAME}) (?P<head>{_NOUN})"),
    # the director of Metropolis
    _pattern("of", 4.5, rf"{_HEAD} (?P<link>of|to|for|behind) [^,]+"),
    # the first woman to win a Nobel Prize
    _pattern("infinitive", 4.5, rf"{_HEAD} (?P<link>to) {_NOUN} {_OBJECT}"),
    # the airport in Rome
    _pattern("place", 2.5, rf"{_HEAD} (?P<link>{_PREP}) [^,]+"),
)
