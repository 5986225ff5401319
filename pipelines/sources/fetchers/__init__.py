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
from trailforge.pipelines.sources.fetchers.base import DocumentFetcher, check_request
from trailforge.pipelines.sources.fetchers.gnews import GNewsFetcher
from trailforge.pipelines.sources.fetchers.serper import SerperFetcher
from trailforge.retrieval.web.http import HttpConfig
from trailforge.schemas import InvalidInput, OutputError, ProviderError, SourceDocument, TrailforgeError, to_dict

__all__ = ["ArxivFetcher", "DocumentFetcher", "GNewsFetcher", "HttpConfig", "NewsFetcher", "SerperFetcher"]


class NewsFetcher:
    """GNews first; Serper when it gives fewer than `minimum` articles, or fails, as when its quota is used up."""

    def __init__(
        self, *, first: DocumentFetcher | None = None, second: DocumentFetcher | None = None, minimum: int = 10
    ) -> None:
        self._first = first or GNewsFetcher()
        self._second = second or SerperFetcher()
        self._minimum = minimum

    async def fetch(
        self, query: str, *, since: date | None = None, until: date | None = None, limit: int = 100
    ) -> AsyncIterator[SourceDocument]:
        """See `DocumentFetcher`. An error of the first provider is raised only if the second fails too."""
        check_request(query, since, until, limit)
        seen: set[str] = set()
        failure: ProviderError | None = None
        try:
            async for document in self._first.fetch(query, since=since, until=until, limit=limit):
                seen.add(document.id)
                yield document
        except ProviderError as error:
            failure = error
        if len(seen) >= min(self._minimum, limit):
            return
        try:
            async for document in self._second.fetch(query, since=since, until=until, limit=limit):
                if document.id not in seen:
                    seen.add(document.id)
                    yield document
                if len(seen) >= limit:
                    return
        except TrailforgeError as error:
            if failure is None:
                raise
            raise ProviderError(f"{failure}; then {error}") from None


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
