"""Requests and replies of the sources of R-Search's tools: Serper (serper.dev) for Google, GNews (docs.gnews.io), and
arXiv's export API (info.arxiv.org/help/api/user-manual). Searches that need only configuration are in `search_api`."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from trailforge.retrieval.english import AUXILIARIES, WIDE_PREPOSITIONS
from trailforge.retrieval.web.feeds import feed_rows
from trailforge.retrieval.web.http import HttpConfig, rows_of_reply, text_field
from trailforge.retrieval.web.search_api import WebHit
from trailforge.rows import InvalidRow, JsonRow
from trailforge.schemas import InvalidInput, RequestRefused

SERPER_KEY, GNEWS_KEY = "SERPER_API_KEY", "GNEWS_API_KEY"
"""Environment variables of the API keys."""
SERPER_NEWS_URL, SERPER_SEARCH_URL = "https://google.serper.dev/news", "https://google.serper.dev/search"
GNEWS_URL = "https://gnews.io/api/v4/search"
ARXIV_URL = "https://export.arxiv.org/api/query"
GNEWS_CUT = re.compile(r"(?:\.\.\.|…)\s*+\[\d++ chars\]\s*+$")
"""Pattern of the end of a text of which the user's GNews plan gives only the beginning."""

_LONGEST_GNEWS_QUERY = 200
"""Characters; a longer one is refused."""
_WORD = re.compile(r"[^\W_]+(?:[-.'’/&][^\W_]+)*")
_PLAIN = re.compile(r"[^\W_]+")
_TERM = re.compile(r"[^\s\"():\[\]]+")
_ARXIV_TOTAL = re.compile(rb"<(?:\w++:)?totalResults[^<>]*+>\s*+(\d{1,18})\s*+<")
_LEFT_OUT = frozenset("a an the and or not what which who whom whose when where why how".split()) | AUXILIARIES
_LEFT_OUT |= frozenset(WIDE_PREPOSITIONS)


def serper_hits(content: bytes, part: Literal["news", "organic"]) -> list[WebHit]:
    """Return the hits of a reply in their order, without those that have no title and address.

    Raises `ValueError` for another shape.
    """
    rows = rows_of_reply(content, part, missing=[])
    hits = (_hit(row, url="link", text="snippet", published="date") for row in rows)
    return [hit for hit in hits if hit.title and hit.url]


def gnews_query(text: str) -> str:
    """Return the words of a text in GNews's syntax. It finds what has all of them, so words that say little are left
    out, and with them its operators.

    Words with punctuation are put in quotes, as the syntax asks for. The result is empty where nothing is left.
    """
    query = ""
    for word in _WORD.findall(text):
        if word.lower() in _LEFT_OUT:
            continue
        term = word if _PLAIN.fullmatch(word) else f'"{word}"'
        if len(query) + 1 + len(term) > _LONGEST_GNEWS_QUERY:
            break
        query = f"{query} {term}".lstrip()
    return query


def gnews_hits(content: bytes) -> list[WebHit]:
    """Return the articles of a reply in their order, each with the beginning of its text, else its description; those
    that lack title, address or text are left out.

    Raises `ValueError` for another shape.
    """
    found: list[WebHit] = []
    for row in rows_of_reply(content, "articles"):
        hit = _hit(row, url="url", text="content", published="publishedAt")
        text = GNEWS_CUT.sub("…", hit.text) or text_field(row.get("description"))
        found.append(replace(hit, text=text, published=hit.published[:10]))
    return [hit for hit in found if hit.title and hit.url and hit.text]


def _hit(row: dict[str, Any], *, url: str, text: str, published: str) -> WebHit:
    """By the names that a provider has for the fields."""
    title, address, shown, day = (text_field(row.get(name)) for name in ("title", url, text, published))
    return WebHit(title=title, url=address, text=shown, published=day)


@dataclass(frozen=True, slots=True)
class ArxivPage:
    """A page of arXiv's results: its entries and the total number of results."""

    total: int
    """Number of results over all pages, at times counted too high."""
    entries: list[dict[str, Any]]
    """Entries of the page, as `feeds.feed_rows` returns them."""


def arxiv_http() -> HttpConfig:
    """Return the pace that arXiv's terms of use ask for: one request in three seconds, and one connection at a time."""
    return HttpConfig(interval_s=3.0)


def arxiv_words(text: str) -> list[str]:
    """Return the words of a text, each as a term that searches a whole paper, to be joined by AND or OR."""
    return [f"all:{word}" for word in _TERM.findall(text)]


def arxiv_page(content: bytes) -> ArxivPage:
    """Parse a page of arXiv's Atom reply, whose errors come as an entry with status 200.

    Raises `ValueError` for what is no feed, such as a bare `Rate exceeded.`, and `RequestRefused` for an error.
    """
    try:
        rows = list(feed_rows(io.BytesIO(content), "reply"))
    except InvalidInput as error:
        raise ValueError(error.problem) from None
    broken = next((row for row in rows if isinstance(row, InvalidRow)), None)
    if broken is not None:
        raise ValueError(f"entry {broken.row}: {broken.problem}")
    entries = [row.value for row in rows if isinstance(row, JsonRow)]
    if entries and entries[0].get("title") == "Error" and "/api/errors" in entries[0].get("id", ""):
        raise RequestRefused(f"arXiv: {entries[0]['text'].strip()[:200]}")
    total = _ARXIV_TOTAL.search(content)
    return ArxivPage(int(total[1]) if total else len(entries), entries)
