"""Live sources of documents behind one protocol: arXiv's export API, GNews, and Google News by way of Serper.

Keys come from the environment when a fetch begins, and stand in no error. What is fetched differs from day to day:
write it to a file first, and make runs from that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import date
from pathlib import Path

from trailforge.pipelines.engine.files import write_text
from trailforge.pipelines.sources.fetchers.arxiv import ArxivFetcher
from trailforge.pipelines.sources.fetchers.base import DocumentFetcher
from trailforge.pipelines.sources.fetchers.gnews import GNewsFetcher
from trailforge.pipelines.sources.fetchers.news import NewsFetcher
from trailforge.pipelines.sources.fetchers.serper import SerperFetcher
from trailforge.retrieval.web.http import HttpConfig
from trailforge.schemas import InvalidInput, OutputError, SourceDocument, to_dict

__all__ = ["ArxivFetcher", "DocumentFetcher", "GNewsFetcher", "HttpConfig", "NewsFetcher", "SerperFetcher"]


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
