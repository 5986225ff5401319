"""GNews (docs.gnews.io), search endpoint: the address, the key, words as a query, and a reply's articles."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trailforge.retrieval.english import AUXILIARIES, WIDE_PREPOSITIONS
from trailforge.retrieval.web.http import rows_of_reply, text_field

KEY_VARIABLE = "GNEWS_API_KEY"
SEARCH_URL = "https://gnews.io/api/v4/search"
CUT = re.compile(r"(?:\.\.\.|…)\s*+\[\d++ chars\]\s*+$")
"""How a text ends of which the plan gives the beginning only."""

_LONGEST_QUERY = 200
"""Characters; a longer one is refused."""
_WORD = re.compile(r"[^\W_]+(?:[-.'’/&][^\W_]+)*")
_PLAIN = re.compile(r"[^\W_]+")
_LEFT_OUT = frozenset("a an the and or not what which who whom whose when where why how".split()) | AUXILIARIES
_LEFT_OUT |= frozenset(WIDE_PREPOSITIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GNewsHit:
    """An article that was found; what GNews does not say is empty."""

    title: str
    url: str
    text: str
    """The beginning of its text, else its description."""
    published: str
    """The day, `2024-06-10`."""


def gnews_query(text: str) -> str:
    """The words of a text as GNews takes them. It finds what has all of them, so those that say little are left out,
    and with them its operators.

    Words with marks in them stand in quotes, as its syntax asks for. Empty where nothing is left.
    """
    query = ""
    for word in _WORD.findall(text):
        if word.lower() in _LEFT_OUT:
            continue
        term = word if _PLAIN.fullmatch(word) else f'"{word}"'
        if len(query) + 1 + len(term) > _LONGEST_QUERY:
            break
        query = f"{query} {term}".lstrip()
    return query


def gnews_hits(content: bytes) -> list[GNewsHit]:
    """The articles of a reply in their order, those left out that lack title, address or text.

    Raises `ValueError` for another shape.
    """
    rows = rows_of_reply(content, "articles")
    hits = (
        GNewsHit(
            title=text_field(row.get("title")),
            url=text_field(row.get("url")),
            text=CUT.sub("…", text_field(row.get("content"))) or text_field(row.get("description")),
            published=text_field(row.get("publishedAt"))[:10],
        )
        for row in rows
    )
    return [hit for hit in hits if hit.title and hit.url and hit.text]
