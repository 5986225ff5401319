"""Whether what was found says what an answer rests on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trailforge.schemas import Passage

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
