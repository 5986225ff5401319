"""Documents of live sources into a file: what is fetched differs from day to day, and a run is made of what stays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import date
from pathlib import Path

from trailforge.pipelines.files import write_text
from trailforge.pipelines.sources.fetchers import (
    ArxivFetcher,
    DocumentFetcher,
    GNewsFetcher,
    NewsFetcher,
    SerperFetcher,
)
from trailforge.schemas import InvalidInput, OutputError, SourceDocument, to_dict

FETCHERS: Mapping[str, Callable[[], DocumentFetcher]] = {
    "arxiv": ArxivFetcher,
    "gnews": GNewsFetcher,
    "serper": SerperFetcher,
    "news": NewsFetcher,
}


def fetch_to_file(
    origin: str, query: str, path: Path, *, since: date | None = None, until: date | None = None, limit: int = 100
) -> int:
    """Write what a source finds as JSON Lines, and say how many documents that is. The file is whole or not there.

    Raises `OutputError` for a file that exists, `InvalidInput` for no documents at all, and as `DocumentFetcher.fetch`.
    """
    if path.exists():
        raise OutputError(f"{path} exists; give another --out")
    fetched = FETCHERS[origin]().fetch(query, since=since, until=until, limit=limit)
    lines = asyncio.run(_lines(fetched))
    if not lines:
        raise InvalidInput(f"{origin} finds nothing for {query!r} in that time", field="query")
    write_text(path, "".join(lines))
    return len(lines)


async def _lines(fetched: AsyncIterator[SourceDocument]) -> list[str]:
    return [json.dumps(to_dict(document), ensure_ascii=False) + "\n" async for document in fetched]
