"""What an answer is held against its golds by: the one matcher of filters, trees and acceptance.

Each paper's own reward stays literal in its file; whoever asks whether an answer is right, whether two say the same, or
whether a text has an answer, asks here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from trailforge.rewards.text import cover_exact_match, exact_match, f1, has_words, normalize_answer
from trailforge.schemas import TrajectoryReward

_MOST_WORDS_RATIO = 3
_NO_WORD = re.compile(r"[\W_]+")
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


# Is it right?


def mcts_reward(prediction: str, golds: Sequence[str]) -> float:
    """1.0 if the prediction equals a gold answer, or covers one (whole words) in at most three times its words."""
    return float(any(_answers(prediction, gold) for gold in golds))


def same_answer(first: str, second: str) -> bool:
    """Do two answers say the same? The reward's rule, either way round; two empty answers are the same."""
    if normalize_answer(first) == normalize_answer(second):
        return True
    return _answers(first, second) or _answers(second, first)


def _answers(prediction: str, gold: str) -> bool:
    """One gold answer's worth of `mcts_reward`; being equal is the shortest way to cover."""
    words, gold_words = (len(normalize_answer(text).split()) for text in (prediction, gold))
    return words <= _MOST_WORDS_RATIO * gold_words and bool(cover_exact_match(prediction, (gold,), word_boundary=True))


def score_answer(prediction: str, golds: Sequence[str]) -> TrajectoryReward:
    """The reward columns of a trajectory; `total` is the MCTS reward."""
    return TrajectoryReward(
        total=mcts_reward(prediction, golds),
        exact_match=exact_match(prediction, golds),
        f1=f1(prediction, golds),
        cover_exact_match=cover_exact_match(prediction, golds),
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


# Does a text have it?


def mentions(text: str, answer: str) -> bool:
    """Does the text mention the answer, as whole words after normalisation? An empty answer is never mentioned.

    By either reading of punctuation: deleted, as in every score ("U.S." is in "US troops"), or taken for a space
    ("Oslo" is in "Oslo's harbour" and "Oslo-based", which deleting would make "oslos" and "oslobased").
    """
    deleted = has_words(normalize_answer(text), normalize_answer(answer))
    return deleted or has_words(_spaced(text), _spaced(answer))


def states(text: str, answer: str) -> bool:
    """Does the text mention the answer, small numbers as words or as figures ("2" stands in "two moons")?"""
    lowered = answer.lower()
    in_figures = _NUMBER.sub(lambda m: m[0] if m[0].isdigit() else str(_NUMBERS.index(m[0])), lowered)
    in_words = _NUMBER.sub(lambda m: _NUMBERS[int(m[0])] if m[0].isdigit() else m[0], lowered)
    return any(mentions(text, wording) for wording in (answer, in_figures, in_words))


def _spaced(text: str) -> str:
    return normalize_answer(_NO_WORD.sub(" ", text))


# Options


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
