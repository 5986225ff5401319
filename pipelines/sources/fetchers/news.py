"""News from one provider, and from a second one when the first has too few."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date

from trailforge.pipelines.sources.fetchers.base import DocumentFetcher, check_request
from trailforge.pipelines.sources.fetchers.gnews import GNewsFetcher
from trailforge.pipelines.sources.fetchers.serper import SerperFetcher
from trailforge.schemas import ProviderError, SourceDocument, TrailforgeError


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
