"""Archives of documents that are known by their fields: arXiv's papers, and news by what they call their source.

    {"arxiv_id": "2504.00016", "title": "…", "abstract": "…", "authors": ["…"], "listed_date": "2025-04-02", "url": "…"}
    {"id": "wikinews_2019_000", "title": "…", "date": "2019-01-04", "source": "Wikinews", "text": "…", "url": "…"}
    {"id": "dg_2010-10-22-…", "title": "…", "date": "2010-10-22", "source": "Digital.gov (GSA)", "text": "…", …}

A paper's text is its abstract, in rows of a listing and entries of arXiv's feeds alike, and it has the same id wherever
it comes from: that of arXiv without the version. arXiv's metadata, abstracts included,
are CC0 by its terms of use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trailforge.pipelines.sources.columns import authors_of, one_line, tidy
from trailforge.pipelines.sources.fields import Fields, iso_date
from trailforge.schemas import InvalidInput, SourceDocument

NAME = "arxiv"
LICENCE = "CC0-1.0"
SITE = "arxiv.org"
_KEYS = frozenset({"arxiv_id", "title", "abstract"})
_ID = re.compile(r"(?:.*arxiv\.org[:/](?:abs/)?)?(\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """Rows whose fields need no map."""

    columns: frozenset[str]
    """All that are read."""
    recognises: Callable[[Mapping[str, object]], bool]
    """Whether a row is one of its."""
    read: Callable[[Fields], SourceDocument]
    """A row as a document with the row's own id. Raises `InvalidInput` naming the field."""


def _is_paper(values: Mapping[str, object]) -> bool:
    """Whether a row is one of a listing, or an entry of a feed of arXiv's."""
    return values.keys() >= _KEYS or (values.get("source") == SITE and _ID.fullmatch(str(values.get("id"))) is not None)


def read_paper(row: Fields) -> SourceDocument:
    """A row of arXiv as a document. Raises `InvalidInput` naming the field."""
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


@dataclass(frozen=True, slots=True)
class _Publisher:
    name: str
    prefix: str
    """With which its ids begin."""
    licence: str


_PUBLISHERS = {
    "Wikinews": _Publisher("wikinews", "wikinews_", "CC-BY-2.5"),
    "Digital.gov (GSA)": _Publisher("digitalgov", "dg_", "CC0-1.0"),
}
"""By what their rows call their source."""


def _is_news(values: Mapping[str, object]) -> bool:
    source = values.get("source")
    return isinstance(source, str) and source in _PUBLISHERS and "date" in values


def _read_news(row: Fields) -> SourceDocument:
    publisher = _PUBLISHERS[row.text("source")]
    return SourceDocument(
        id=row.filled_text("id").removeprefix(publisher.prefix),
        source=publisher.name,
        kind="news",
        title=one_line(row.filled_text("title")),
        text=tidy(row.filled_text("text")),
        url=row.text_or_empty("url"),
        published=iso_date(row.filled_text("date"), "date"),
        language="en",
        licence=publisher.licence,
    )


ARCHIVES = (
    Archive(
        columns=frozenset({"arxiv_id", "title", "abstract", "authors", "listed_date", "published", "url"}),
        recognises=_is_paper,
        read=read_paper,
    ),
    Archive(columns=frozenset({"id", "title", "date", "source", "text", "url"}), recognises=_is_news, read=_read_news),
)
"""In the order in which they are tried."""
