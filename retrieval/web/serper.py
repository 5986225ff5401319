"""Google by way of Serper (serper.dev): the addresses, the key, and a reply's hits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from trailforge.retrieval.web.http import text_field
from trailforge.schemas import parse_json

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
    reply = parse_json(content)
    rows = reply.get(part, []) if isinstance(reply, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"expected an object with a list of objects {part!r}")
    hits = (_hit(row) for row in rows)
    return [hit for hit in hits if hit.title and hit.link]


def _hit(row: dict[str, Any]) -> SerperHit:
    return SerperHit(**{name: text_field(row.get(name)) for name in ("title", "link", "snippet", "date")})
