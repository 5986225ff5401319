"""What lexical retrieval takes for a word, and the words that are no names."""

from __future__ import annotations

import re
from importlib.resources import files

_WORD = re.compile(r"\w+")
COMMON_WORDS = frozenset((files("trailforge.retrieval") / "common_words.txt").read_text(encoding="utf-8").split())
"""English words that stand with a capital where a sentence begins, and are no names."""


def words_of(text: str) -> list[str]:
    """The words of a text in order: runs of letters, digits and underscores, case-folded."""
    return _WORD.findall(text.casefold())
