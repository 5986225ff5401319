"""Google by way of Serper (serper.dev): the addresses, the key, and a reply's hits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from trailforge.retrieval.web.http import rows_of_reply, text_field

KEY_VARIABLE = "SERPER_API_KEY"
NEWS_URL = "https://google.serper.dev/news"
SEARCH_URL = "https://google.serper.dev/search"


@dataclass(frozen=True, slots=True, kw_only=True)
class SerperHit:
    """A page that was found; what Serper does not say is empty."""

    title: str
    link: str
    snippet: str
    date: str
    """As Google shows it: `5 hours ago`, `Aug 22, 2024`."""


def serper_hits(content: bytes, part: Literal["news", "organic"]) -> list[SerperHit]:
    """The hits of a reply in their order, those left out that have no title and link.

    Raises `ValueError` for another shape.
    """
    rows = rows_of_reply(content, part, missing=[])
    hits = (_hit(row) for row in rows)
    return [hit for hit in hits if hit.title and hit.link]


def _hit(row: dict[str, Any]) -> SerperHit:
    return SerperHit(**{name: text_field(row.get(name)) for name in ("title", "link", "snippet", "date")})
