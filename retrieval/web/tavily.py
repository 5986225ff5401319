"""Tavily (docs.tavily.com), search endpoint, and servers that speak as it does: address, key, a reply's pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from trailforge.retrieval.web.http import rows_of_reply, site_of, text_field
from trailforge.schemas import InvalidInput

KEY_VARIABLE = "TAVILY_API_KEY"
SEARCH_URL = "https://api.tavily.com/search"

_LONGEST_QUERY = 400
"""Characters; a longer one is refused."""
_MOST_RESULTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TavilyHit:
    """A page that was found."""

    title: str
    """Its site where it has no title."""
    url: str
    content: str
    """What of the page fits the query."""
    published: str
    """As the server writes it; of news only, else empty."""


def tavily_request(query: str, k: int) -> dict[str, Any]:
    """The body that asks for at most `k` pages. A long query loses its last words, as longer ones are refused."""
    if len(query) > _LONGEST_QUERY:
        query = query[: _LONGEST_QUERY + 1].rsplit(" ", 1)[0][:_LONGEST_QUERY]
    return {"query": query, "max_results": min(k, _MOST_RESULTS)}


def tavily_hits(content: bytes) -> list[TavilyHit]:
    """The pages of a reply in their order, those left out that have no address or no text.

    Raises `ValueError` for another shape.
    """
    rows = rows_of_reply(content, "results")
    hits = (
        TavilyHit(
            title=text_field(row.get("title")) or site_of(text_field(row.get("url"))),
            url=text_field(row.get("url")),
            content=text_field(row.get("content")),
            published=text_field(row.get("published_date")),
        )
        for row in rows
    )
    return [hit for hit in hits if hit.url and hit.title and hit.content]


def search_address(url: str) -> str:
    """Where to search: this address, or Tavily's own for an empty one. Raises `InvalidInput` for what is none."""
    if not url:
        return SEARCH_URL
    if not site_of(url) or urlsplit(url).path in ("", "/"):
        raise InvalidInput(f"{url!r} is no address of a search, as {SEARCH_URL} is", field="web_url")
    return url
