"""Answers to questions with options: the letters that an answer names."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from trailforge.schemas import TrajectoryReward

_WORD = re.compile(r"\w+")
_LETTER = re.compile(r"[A-Za-z]")
_RESULT = re.compile(
    r"\b(?:answer|option|choice)s?(?: to the question)?(?:\W{0,3}(?:is|are|would be|should be)\b|\*{0,2}:)",
    re.IGNORECASE,
)
# A list of letters before the end of its sentence or line, or before a reason.
_FIRST = re.compile(
    r"\W{0,9}([A-Z](?:(?: ?[,;/&] ?(?:and )?| and )[A-Z])*+)(?=\W{0,3}(?:[.\n]|$)|,? (?:because|since|as)\b)"
)
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

    Of an answer that says where its result stands (`…. The answer is: C`, the paper's figure 4) what follows the last
    such words, if that names any. A list of letters, however it is parted: `A, C`, `A and C`, `A;C`, `(a) (c)`, `The
    correct options are A and C.` Else the letters that are marked as an option's: `A. first text; C) third text`,
    `Both (A) and (C) hold`. Else one word of different capitals: `AC`. Other prose names none: its articles are not
    options.
    """
    said = list(_RESULT.finditer(text))
    if said:
        result = text[said[-1].end() :]
        first = _FIRST.match(result)
        if found := _letters(result) or (_letters(first[1]) if first else frozenset()):
            return found
    return _letters(text)


def _letters(text: str) -> frozenset[str]:
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
