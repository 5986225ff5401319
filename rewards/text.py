"""Compute the text metrics of the published evaluators, on SQuAD's answer normalisation."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from trailforge.schemas import Passage

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_LONGEST_KEPT = 1_000
"""Characters of a text whose normalised form is kept: an answer's, not a conversation's."""


def normalize_answer(text: str) -> str:
    """Normalise an answer: lower case; ASCII punctuation deleted; a, an, the deleted; white space collapsed (Rajpurkar
    et al., 2016).

    Before that, letters and their accents are composed (NFC): a text is the same however its characters are stored.
    """
    return _normalize(text) if len(text) <= _LONGEST_KEPT else _normalize.__wrapped__(text)


@lru_cache(maxsize=1024)  # the answers of one question are compared again and again
def _normalize(text: str) -> str:
    plain = _compose(_compose(text).lower().translate(_PUNCTUATION))
    return " ".join(_ARTICLES.sub(" ", plain).split())


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """Return 1.0 if the normalised prediction equals a normalised gold answer, else 0.0. Empty texts never match.

    Two texts of which normalising leaves nothing ("A", "The The", "!!!") are compared without it, ignoring case and
    white space.
    """
    predicted = normalize_answer(prediction)
    if not predicted:
        return float(any(_is_same_emptied(prediction, gold) for gold in golds))
    return float(any(predicted == normalize_answer(gold) for gold in golds))


def f1(prediction: str, golds: Sequence[str]) -> float:
    """Return the best F1 over the gold answers, in [0, 1]: words as bags, as SQuAD counts them. Empty texts give 0.0.

    Where normalising leaves nothing of both texts, 1.0 if they are the same as `exact_match` has it, else 0.0.
    """
    return max((_f1(prediction, gold) for gold in golds), default=0.0)


def _f1(prediction: str, gold: str) -> float:
    predicted, wanted = normalize_answer(prediction).split(), normalize_answer(gold).split()
    if not predicted and not wanted:
        return float(_is_same_emptied(prediction, gold))
    common = (Counter(predicted) & Counter(wanted)).total()
    return 2 * common / (len(predicted) + len(wanted)) if common else 0.0


def _is_same_emptied(prediction: str, gold: str) -> bool:
    """Are two texts the same though nothing is left of both when they are normalised? Never of empty texts."""
    if normalize_answer(prediction) or normalize_answer(gold):
        return False
    one, other = (" ".join(_compose(text).casefold().split()) for text in (prediction, gold))
    return bool(one) and one == other


def _compose(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


_NO_WORD = re.compile(r"[\W_]+")


def cover_exact_match(prediction: str, golds: Sequence[str], *, word_boundary: bool = False) -> float:
    """Return 1.0 if a normalised gold answer is part of the normalised prediction, else 0.0 (max over golds).

    Characters are compared, as in the published evaluators ("in" is covered by "Berlin"); `word_boundary` compares
    whole words. Empty texts never match; of texts of which normalising leaves nothing, only the same (`exact_match`).
    CEM rewards verbosity: read it beside F1.
    """
    predicted = normalize_answer(prediction)
    if not predicted:
        return exact_match(prediction, golds)
    covers = has_words if word_boundary else _has_characters
    return float(any(covers(predicted, normalize_answer(gold)) for gold in golds))


def _has_characters(text: str, part: str) -> bool:
    return bool(part) and part in text


def has_words(text: str, words: str) -> bool:
    """Tell whether the words occur in the text, in a row. Both must be normalised: words are separated by single
    spaces."""
    return bool(words) and f" {words} " in f" {text} "


def evidence_recall(evidence: Sequence[str], passages: Sequence[Passage]) -> float:
    """Return the share of the quotes that occur, word for word, in title and text of one of the passages.

    Case and punctuation are ignored. A quote without words never occurs. The result is 0.0 when there are no quotes.
    """
    texts = [f" {_plain(passage.title)} {_plain(passage.text)} " for passage in passages]
    shown = [quote for quote in map(_plain, evidence) if quote and any(f" {quote} " in text for text in texts)]
    return len(shown) / len(evidence) if evidence else 0.0


def _plain(text: str) -> str:
    return _NO_WORD.sub(" ", text.casefold()).strip()
