"""Read FRAMES (Krishna et al., 2024): questions over 2 to 15 articles of Wikipedia, which are named but not included.

    {"id": "…", "question": "…", "answer": "…", "reasoning_types": "… | …",
     "wiki_links": ["https://en.wikipedia.org/wiki/Jane_Eyre", …]}

The published table, as rows of JSON, has `Prompt` and `Answer`, a number without a name for an id, and the links as the
text of a list. A link is an article to look up, and what it is called is in it; a few lead elsewhere (searches, short
links) and name none, and a few hold several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from trailforge.rows import Fields, expect
from trailforge.schemas import Question, SupportingDocument

NAME: str = "frames"
KEYS = frozenset({"reasoning_types", "wiki_links"})
_NUMBER = "Unnamed: 0"
_BETWEEN = re.compile(r",\s*(?=https?://|$)")
_ARTICLE = re.compile(r"/wiki/(?!Special:)(.+)")


def read(row: Fields) -> Question:
    """Read a row as a question. Raises `InvalidInput` naming the field."""
    is_published = "Prompt" in row
    links = list(dict.fromkeys(_links(row)))
    titles = dict.fromkeys(filter(None, map(_title_of, links)))
    return Question(
        id=str(row.integer(_NUMBER)) if _NUMBER in row and "id" not in row else row.filled_text("id"),
        question=row.filled_text("Prompt" if is_published else "question"),
        answer=row.filled_text("Answer" if is_published else "answer"),
        dataset=NAME,
        num_hops=len(links) or None,
        supporting=tuple(SupportingDocument(title=title) for title in titles),
    )


def _links(row: Fields) -> Iterator[str]:
    for position, value in enumerate(row.items("wiki_links")):
        yield from filter(None, _BETWEEN.split(expect(value, str, f"wiki_links[{position}]").strip()))


def _title_of(link: str) -> str:
    """What the article of a link is called; empty when it leads to none."""
    try:
        found = _ARTICLE.match(urlsplit(link).path)
    except ValueError:  # as of an address with half a bracket
        return ""
    return unquote(found[1]).replace("_", " ").strip() if found else ""
