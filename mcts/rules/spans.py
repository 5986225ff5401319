"""Where a question can be split: every stretch that a pattern matches, scored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mcts.rules.asking import ask_for, singular
from mcts.rules.names import MASK, WORD, mask_names
from mcts.rules.patterns import APPOSITION, BEGINS_SPAN, NAME_THEN_NOUN, PATTERNS, Kind, Pattern
from mcts.rules.words import (
    APPOSED,
    AUXILIARIES,
    DO,
    FUNCTION_WORDS,
    LIGHT,
    PREPOSITIONS,
    RELATIONAL,
    RELATIVES,
    SITUATED,
)

_TOKEN = re.compile(r"[^\s,;:?!()]+")
_PAST = re.compile(
    r"[a-z]{2,}ed|became|began|made|won|wrote|took|had|got|went|fell|located|born|die|have|plays?|held", re.IGNORECASE
)
_AUX_WORDS = set(AUXILIARIES.split())
_RELATIVE_WORDS = set(RELATIVES.split())
_PREPOSITION_WORDS = set(PREPOSITIONS.split())
_LONGEST_SPAN = 26
_MOST_TOKENS = 90


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the question that can be looked up on its own, and the question that asks for it."""

    start: int
    end: int
    score: float
    first: str


def spans(question: str) -> Iterator[Span]:
    """Every stretch that a pattern matches, scored."""
    masked = mask_names(question)
    body_end = len(masked.rstrip(" ?.!"))
    tokens = [match.span() for match in _TOKEN.finditer(masked, 0, body_end)][:_MOST_TOKENS]
    for i, (start, token_end) in enumerate(tokens):
        if not BEGINS_SPAN.fullmatch(masked, start, token_end):
            continue
        for _, end in tokens[i + 1 : i + _LONGEST_SPAN]:
            found = _first_match(masked, start, end)
            if found is None or not _asks_something(f"{masked[:start]} {masked[end:]}", found[0].kind):
                continue
            pattern, match = found
            score = pattern.weight + _inside(pattern.kind, match) + _around(masked, start, end, body_end)
            if score > 0:
                yield Span(start, end, score, ask_for(pattern.kind, match, question))


def _first_match(masked: str, start: int, end: int) -> tuple[Pattern, re.Match[str]] | None:
    """The first pattern that matches the whole stretch."""
    for pattern in PATTERNS:
        if (match := pattern.regex.fullmatch(masked, start, end)) is not None:
            return pattern, match
    return None


def _inside(kind: Kind, match: re.Match[str]) -> float:
    """What a span holds: one look-up's worth, with a name to look it up by."""
    groups = match.groupdict()
    text = match[0]
    head = groups["head"].split()[-1].lower()
    score = -0.12 * len(text.split())
    if MASK not in text:
        score -= 2.5
    if head in LIGHT:
        score -= 4
    score += 1.0 if singular(head) in RELATIONAL else -1.0
    if kind == "of" and head in APPOSED and APPOSITION.fullmatch(text):
        score -= 8
    if kind not in ("possessive", "compound") and NAME_THEN_NOUN.search(text):
        score -= 1.5
    return score


def _around(masked: str, start: int, end: int, body_end: int) -> float:
    """What stands before and after a span: does the question go on as it should?"""
    before = masked[:start].lower().split()
    after = masked[end:body_end].lower().split()
    previous = before[-1] if before else ""
    if not after:
        return -6.0 if previous in DO else 1.5
    following = after[0].strip(",")
    if not following or after[0] == ",":
        return 0.5
    if following in _AUX_WORDS:
        outer = [word for word in before[1:] if word in _AUX_WORDS or word in _RELATIVE_WORDS]
        return -4.0 if outer and outer[-1] in _AUX_WORDS else 0.5
    if following in _RELATIVE_WORDS or following == "of":
        return -4.0
    if following in _PREPOSITION_WORDS:
        return -4.0 if previous in DO else -1.0
    if following == "and" or following == "or":
        return -0.5
    if previous in DO:
        return 1.0
    return 0.0 if previous in _AUX_WORDS or _PAST.fullmatch(following) else -1.5


def _asks_something(rest: str, kind: Kind) -> bool:
    """Is there a content word left outside the span, so that the second half asks for more than the first?"""
    light = LIGHT | (SITUATED if kind in ("of", "place", "possessive") else set())
    return any(word not in FUNCTION_WORDS and word not in light for word in WORD.findall(rest.lower()))
