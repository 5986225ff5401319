"""SQuAD's answer normalisation, on which every metric here stands."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Sequence

from trailforge.schemas import Passage

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower case; ASCII punctuation deleted; a, an, the deleted; white space collapsed (Rajpurkar et al., 2016)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1.0 if the normalised prediction equals a normalised gold answer, else 0.0. Empty texts never match."""
    predicted = normalize_answer(prediction)
    return float(bool(predicted) and any(predicted == normalize_answer(gold) for gold in golds))


def f1(prediction: str, golds: Sequence[str]) -> float:
    """The best F1 over the gold answers, in [0, 1]: words as bags, as SQuAD counts them. Empty texts give 0.0."""
    return max((_f1(prediction, gold) for gold in golds), default=0.0)


def _f1(prediction: str, gold: str) -> float:
    predicted, wanted = normalize_answer(prediction).split(), normalize_answer(gold).split()
    common = (Counter(predicted) & Counter(wanted)).total()
    return 2 * common / (len(predicted) + len(wanted)) if common else 0.0


_NO_WORD = re.compile(r"[\W_]+")
_NUMBERS: tuple[str, ...] = tuple("zero one two three four five six seven eight nine ten eleven twelve".split())
_NUMBER = re.compile(rf"\b(?:{'|'.join(_NUMBERS)}|1[0-2]|[0-9])\b")


def cover_exact_match(prediction: str, golds: Sequence[str], *, word_boundary: bool = False) -> float:
    """1.0 if a normalised gold answer is part of the normalised prediction, else 0.0 (max over golds).

    By characters, as the published evaluators do it ("in" is covered by "Berlin"); `word_boundary` asks for whole
    words. Empty texts never match. CEM pays for verbosity: read it beside F1.
    """
    predicted = normalize_answer(prediction)
    covers = _has_words if word_boundary else _has_characters
    return float(any(covers(predicted, normalize_answer(gold)) for gold in golds))


def mentions(text: str, answer: str) -> bool:
    """Does the text mention the answer, as whole words after normalisation? An empty answer is never mentioned.

    By either reading of punctuation: deleted, as in every score ("U.S." is in "US troops"), or taken for a space
    ("Oslo" is in "Oslo's harbour" and "Oslo-based", which deleting would make "oslos" and "oslobased").
    """
    deleted = _has_words(normalize_answer(text), normalize_answer(answer))
    return deleted or _has_words(_spaced(text), _spaced(answer))


def states(text: str, answer: str) -> bool:
    """Does the text mention the answer, small numbers as words or as figures ("2" stands in "two moons")?"""
    lowered = answer.lower()
    in_figures = _NUMBER.sub(lambda m: m[0] if m[0].isdigit() else str(_NUMBERS.index(m[0])), lowered)
    in_words = _NUMBER.sub(lambda m: _NUMBERS[int(m[0])] if m[0].isdigit() else m[0], lowered)
    return any(mentions(text, wording) for wording in (answer, in_figures, in_words))


def _has_characters(text: str, part: str) -> bool:
    return bool(part) and part in text


def _has_words(text: str, words: str) -> bool:
    """Both normalised: words are parted by single spaces."""
    return bool(words) and f" {words} " in f" {text} "


def _spaced(text: str) -> str:
    return normalize_answer(_NO_WORD.sub(" ", text))


_NO_WORD = re.compile(r"[\W_]+")


def evidence_recall(evidence: Sequence[str], passages: Sequence[Passage]) -> float:
    """Share of the quotes that stand, word for word, in title and text of one of the passages.

    Case and punctuation aside. A quote without words stands nowhere. 0.0 when there are no quotes.
    """
    texts = [f" {_plain(passage.title)} {_plain(passage.text)} " for passage in passages]
    shown = [quote for quote in map(_plain, evidence) if quote and any(f" {quote} " in text for text in texts)]
    return len(shown) / len(evidence) if evidence else 0.0


def _plain(text: str) -> str:
    return _NO_WORD.sub(" ", text.casefold()).strip()


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
