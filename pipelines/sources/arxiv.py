"""Papers of arXiv, whose text is the abstract: rows of a listing, and entries of arXiv's feeds.

    {"arxiv_id": "2504.00016", "title": "…", "abstract": "…", "authors": ["…"], "listed_date": "2025-04-02", "url": "…"}

A paper has the same id wherever it comes from: that of arXiv without the version. arXiv's metadata, abstracts included,
are CC0 by its terms of use.
"""

from __future__ import annotations

import re
from typing import Any

from trailforge.pipelines.sources.columns import authors_of, one_line
from trailforge.pipelines.sources.fields import Fields, iso_date
from trailforge.schemas import InvalidInput, SourceDocument

NAME = "arxiv"
LICENCE = "CC0-1.0"
SITE = "arxiv.org"
COLUMNS = frozenset({"arxiv_id", "title", "abstract", "authors", "listed_date", "published", "url"})
"""All that are read."""

_KEYS = frozenset({"arxiv_id", "title", "abstract"})
_ID = re.compile(r"(?:.*arxiv\.org[:/](?:abs/)?)?(\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?", re.IGNORECASE)


def recognises(values: dict[str, Any]) -> bool:
    """Whether a row is one of a listing, or an entry of a feed of arXiv's."""
    return values.keys() >= _KEYS or (values.get("source") == SITE and _ID.fullmatch(str(values.get("id"))) is not None)


def read(row: Fields) -> SourceDocument:
    """A row as a document. Raises `InvalidInput` naming the field."""
    is_listed = "arxiv_id" in row
    id_field = "arxiv_id" if is_listed else "id"
    native = _ID.fullmatch(row.filled_text(id_field))
    if native is None:
        raise InvalidInput(f"expected an arXiv id as 2504.00016, found {row.text(id_field)[:40]!r}", field=id_field)
    day = next((name for name in ("listed_date", "published") if row.values.get(name)), None)
    return SourceDocument(
        id=native[1],
        source=NAME,
        kind="academic",
        title=one_line(row.filled_text("title")),
        text=one_line(row.filled_text("abstract" if is_listed else "text")),  # feeds break lines anywhere
        url=f"https://arxiv.org/abs/{native[1]}",
        published=iso_date(row.text(day), day) if day else None,
        language="en",
        authors=authors_of(row, "authors"),
        licence=LICENCE,
    )
