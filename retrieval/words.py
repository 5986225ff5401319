"""What is taken for a word, in search and in comparisons, and the words that are no names."""

from __future__ import annotations

import re
from importlib.resources import files

_WORD = re.compile(r"\w+")
COMMON_WORDS = frozenset((files("trailforge.retrieval") / "common_words.txt").read_text(encoding="utf-8").split())
"""English words that stand with a capital where a sentence begins, and are no names."""


def words_of(text: str) -> list[str]:
    """The words of a text in order: runs of letters, digits and underscores, case-folded."""
    return _WORD.findall(text.casefold())


def ngrams_of(text: str, n: int) -> set[str]:
    """Runs of n words, case-folded; a shorter text is one run."""
    words = words_of(text)
    return {" ".join(words[i : i + n]) for i in range(max(1, len(words) - n + 1))} if words else set()
