"""The metrics of texts, as the published evaluators count them, on SQuAD's answer normalisation."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

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


def cover_exact_match(prediction: str, golds: Sequence[str], *, word_boundary: bool = False) -> float:
    """1.0 if a normalised gold answer is part of the normalised prediction, else 0.0 (max over golds).

    By characters, as the published evaluators do it ("in" is covered by "Berlin"); `word_boundary` asks for whole
    words. Empty texts never match. CEM pays for verbosity: read it beside F1.
    """
    predicted = normalize_answer(prediction)
    covers = has_words if word_boundary else _has_characters
    return float(any(covers(predicted, normalize_answer(gold)) for gold in golds))


def _has_characters(text: str, part: str) -> bool:
    return bool(part) and part in text


def has_words(text: str, words: str) -> bool:
    """Do the words stand in the text, in a row? Both normalised: words are parted by single spaces."""
    return bool(words) and f" {words} " in f" {text} "


def evidence_recall(evidence: Sequence[str], passages: Sequence[Passage]) -> float:
    """Share of the quotes that stand, word for word, in title and text of one of the passages.

    Case and punctuation aside. A quote without words stands nowhere. 0.0 when there are no quotes.
    """
    texts = [f" {_plain(passage.title)} {_plain(passage.text)} " for passage in passages]
    shown = [quote for quote in map(_plain, evidence) if quote and any(f" {quote} " in text for text in texts)]
    return len(shown) / len(evidence) if evidence else 0.0


def _plain(text: str) -> str:
    return _NO_WORD.sub(" ", text.casefold()).strip()
