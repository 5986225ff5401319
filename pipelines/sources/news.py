"""The archives of news that we know, told apart by what they call their source.

{"id": "wikinews_2019_000", "title": "…", "date": "2019-01-04", "source": "Wikinews", "text": "…", "url": "…"}
{"id": "dg_2010-10-22-…", "title": "…", "date": "2010-10-22", "source": "Digital.gov (GSA)", "text": "…", …}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trailforge.pipelines.sources.columns import one_line, tidy
from trailforge.pipelines.sources.fields import Fields, iso_date
from trailforge.schemas import SourceDocument

COLUMNS = frozenset({"id", "title", "date", "source", "text", "url"})
"""All that are read."""


@dataclass(frozen=True, slots=True)
class _Archive:
    name: str
    prefix: str
    """With which its ids begin."""
    licence: str


_ARCHIVES = {
    "Wikinews": _Archive("wikinews", "wikinews_", "CC-BY-2.5"),
    "Digital.gov (GSA)": _Archive("digitalgov", "dg_", "CC0-1.0"),
}


def recognises(values: dict[str, Any]) -> bool:
    """Whether a row is one of these archives'."""
    source = values.get("source")
    return isinstance(source, str) and source in _ARCHIVES and "date" in values


def read(row: Fields) -> SourceDocument:
    """A row as a document. Raises `InvalidInput` naming the field."""
    archive = _ARCHIVES[row.text("source")]
    return SourceDocument(
        id=row.filled_text("id").removeprefix(archive.prefix),
        source=archive.name,
        kind="news",
        title=one_line(row.filled_text("title")),
        text=tidy(row.filled_text("text")),
        url=row.text_or_empty("url"),
        published=iso_date(row.filled_text("date"), "date"),
        language="en",
        licence=archive.licence,
    )
