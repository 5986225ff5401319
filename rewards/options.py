"""Answers to questions with options: the letters that an answer names."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from trailforge.schemas import TrajectoryReward

_WORD = re.compile(r"[\W_]+")
_NUMBERS: tuple[str, ...] = tuple("zero one two three four five six seven eight nine ten eleven twelve".split())
_NUMBER = re.compile(rf"\b(?:{'|'.join(_NUMBERS)}|1[0-2]|[0-9])\b")
_WORD = re.compile(r"\w+")
_LETTER = re.compile(r"[A-Za-z]")
# Capitals in a row, none twice.
_CAPITALS = re.compile(r"(?:([A-Z])(?!.*\1))+")
_PADDING = frozenset("the correct right final answer answers option options choice choices is are and both".split())
"""Words that may stand around letters without changing what is chosen. `or` and `not` would."""
_MARKED = re.compile(
    r"\(\s*([a-z])\s*\)|\[\s*([a-z])\s*\]"  # (A) or [A] anywhere
    r"|(?:^|[\n,;])[ \t*-]*([a-z])[ \t]*[.):](?=[\s*])",  # A. or A) or A: before an option's text
    re.IGNORECASE | re.ASCII,
)


def score_choice(prediction: str, correct_options: Sequence[str]) -> TrajectoryReward:
    """The same for a question with options, over the sets of chosen and correct letters; words would say nothing.

    `exact_match` and `total`: exactly the correct ones. `cover_exact_match`: all of them, and maybe others.
    """
    chosen, correct = option_letters(prediction), {letter.upper() for letter in correct_options}
    exact = float(bool(correct) and chosen == correct)
    return TrajectoryReward(
        total=exact,
        exact_match=exact,
        f1=option_f1(chosen, correct),
        cover_exact_match=float(bool(correct) and correct <= chosen),
    )


def option_letters(text: str) -> frozenset[str]:
    """The options that an answer names, as capital letters.

    A list of letters, however it is parted: `A, C`, `A and C`, `A;C`, `(a) (c)`, `The correct options are A and C.`
    Else the letters that are marked as an option's: `A. first text; C) third text`, `Both (A) and (C) hold`. Else one
    word of different capitals: `AC`. Other prose names none: its articles are not options.
    """
    tokens = [token for token in _WORD.findall(text) if token.lower() not in _PADDING]
    if all(map(_LETTER.fullmatch, tokens)):
        return frozenset("".join(tokens).upper())
    if marked := [letter for found in _MARKED.findall(text) for letter in found if letter]:
        return frozenset("".join(marked).upper())
    return frozenset(tokens[0]) if len(tokens) == 1 and _CAPITALS.fullmatch(tokens[0]) else frozenset()


def option_f1(predicted: Collection[str], correct: Collection[str]) -> float:
    """F1 between two sets of option letters (R-Search, section 3.4), in [0, 1]; 0.0 when either is empty."""
    chosen, wanted = ({letter.upper() for letter in letters} for letters in (predicted, correct))
    common = len(chosen & wanted)
    return 2 * common / (len(chosen) + len(wanted)) if common else 0.0
