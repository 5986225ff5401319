"""What a question can be answered with: the dates, figures or names of the sentences nearest to it.

The reader may answer with nothing else. So it guesses as well as it can when a document is missing, and a question that
can be guessed is found out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable

from trailforge.small_model.composing.mentions import MentionKind, mentions_of

_ANSWERS: dict[str, tuple[MentionKind, ...]] = {
    r"How many ": ("figure",),
    r"(?:(?:In|Since|Until) (?:which|what) year|When|Since when|Until when) ": ("date", "day", "year"),
}
"""Start of a question -> kinds of mentions that answer it; all others are answered with names."""
_COUNTED = re.compile(r"[a-z]{4,}")
"""Words near the start of `How many …` that a figure has after it when it answers."""
_WORD = re.compile(r"\w+")


def candidates(question: str, sentence: str, names: Collection[str]) -> list[str]:
    """Answers that a sentence offers, in reading order, without what the question says itself. `names`: sure ones."""
    kinds = next((kinds for start, kinds in _ANSWERS.items() if re.match(start, question)), ("name",))
    mentions = [m for m in mentions_of(sentence) if m.kind in kinds and (m.kind != "name" or m.text in names)]
    asked = set(_COUNTED.findall(question.removeprefix("How many")[:40]))
    counting = [m for m in mentions if m.kind == "figure" and asked & set(_WORD.findall(sentence, m.end)[:3])]
    return [t for t in dict.fromkeys(m.text for m in counting or mentions) if not _stands_in(t, question)]


def choice_of(texts: Iterable[str]) -> str:
    """A grammar (GBNF) for one of these, and the line's end."""
    return f'root ::= " " ({" | ".join(json.dumps(text, ensure_ascii=False) for text in dict.fromkeys(texts))}) "\\n"'


def _stands_in(text: str, question: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(text)}(?!\w)", question))
