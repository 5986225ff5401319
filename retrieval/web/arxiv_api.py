"""arXiv's export API (info.arxiv.org/help/api/user-manual): words as a query, and a page of its Atom reply.

Its terms of use allow one request in three seconds and one connection at a time. Errors come as an entry with status
200.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

from trailforge.retrieval.web.feeds import feed_rows
from trailforge.retrieval.web.http import HttpConfig
from trailforge.schemas import InvalidInput, RequestRefused

QUERY_URL = "https://export.arxiv.org/api/query"
_WORDS = re.compile(r"[^\s\"():\[\]]+")
_TOTAL = re.compile(rb"<(?:\w++:)?totalResults[^<>]*+>\s*+(\d{1,18})\s*+<")


@dataclass(frozen=True, slots=True)
class ArxivPage:
    """A page of results."""

    total: int
    """Of all pages, counted too high at times."""
    entries: list[dict[str, Any]]
    """As `feeds.feed_rows` gives them."""


def arxiv_http() -> HttpConfig:
    """The pace that arXiv asks for."""
    return HttpConfig(interval_s=3.0)


def all_words(text: str) -> list[str]:
    """The words of a text, each as a term that looks for it anywhere in a paper, to be joined by AND or OR."""
    return [f"all:{word}" for word in _WORDS.findall(text)]


def read_page(content: bytes) -> ArxivPage:
    """A reply. Raises `ValueError` for what is no feed, as a bare `Rate exceeded.`, `RequestRefused` for an error."""
    try:
        entries = [entry.value for entry in feed_rows(io.BytesIO(content), "reply")]
    except InvalidInput as error:
        raise ValueError(error.problem) from None
    if entries and entries[0].get("title") == "Error" and "/api/errors" in entries[0].get("id", ""):
        raise RequestRefused(f"arXiv: {entries[0]['text'].strip()[:200]}")
    total = _TOTAL.search(content)
    return ArxivPage(int(total[1]) if total else len(entries), entries)
