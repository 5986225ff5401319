"""What lexical retrieval takes for a word."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """The words of a text in order: runs of letters, digits and underscores, case-folded."""
    return _WORD.findall(text.casefold())
