"""Where a quote stands in a text."""

from __future__ import annotations

import re

Span = tuple[int, int]


def find_quote(text: str, quote: str) -> Span | None:
    """Begin and end of the first place with these words, whatever white space is between them; None without one."""
    words = quote.split()
    if not words:
        return None
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    return found.span() if found else None


def clipped(span: Span, begin: int, end: int) -> Span | None:
    """The part of a span that lies between two places, counted from the first; None when there is none."""
    inner = max(span[0], begin) - begin, min(span[1], end) - begin
    return inner if inner[0] < inner[1] else None
