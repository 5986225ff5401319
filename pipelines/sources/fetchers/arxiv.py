"""arXiv's export API (info.arxiv.org/help/api/user-manual): Atom, page by page, the newest papers first.

What it does otherwise than one would think: a page may be empty before the end, and be there a moment later; and the
number of results is counted too high, so that an empty page that stays empty is the end. See `retrieval.web.providers`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import date
from typing import Any

from trailforge.pipelines.sources.archives import read_paper
from trailforge.pipelines.sources.columns import with_full_id
from trailforge.pipelines.sources.fetchers.base import check_request, is_within, unseen
from trailforge.pipelines.sources.fields import Fields
from trailforge.retrieval.web.http import Connection, HttpConfig, Provider
from trailforge.retrieval.web.providers import ARXIV_URL, ArxivPage, arxiv_http, arxiv_page, arxiv_words
from trailforge.schemas import InvalidInput, SourceDocument

_MOST = 30_000
"""Results of one query that the API gives."""
_EMPTY_TRIES = 3
_FIRST_DAY, _LAST_DAY = date(1991, 1, 1), date(2100, 1, 1)
_FIELDS = re.compile(r"\b(?:ti|au|abs|co|jr|cat|rn|id|all|submittedDate|lastUpdatedDate):")


class ArxivFetcher:
    """Papers by the day of their first version. Use one for all fetches: it keeps the pace."""

    def __init__(
        self,
        *,
        base_url: str = ARXIV_URL,
        page_size: int = 200,
        http: HttpConfig | None = None,
    ) -> None:
        self._base_url, self._page_size = base_url, page_size
        self._provider = Provider("arXiv", http or arxiv_http())

    async def fetch(
        self, query: str, *, since: date | None = None, until: date | None = None, limit: int = 100
    ) -> AsyncIterator[SourceDocument]:
        """See `DocumentFetcher`. A query in arXiv's syntax (`cat:cs.CL AND ti:search`), or words that all must occur.

        At most 30,000 results: for more, split the window.
        """
        search = _search_query(check_request(query, since, until, limit), since, until)
        if limit > _MOST:
            raise InvalidInput(f"arXiv gives at most {_MOST:,} results of a query; split the window", field="limit")
        seen: set[str] = set()
        async with self._provider.connection() as connection:
            for start in range(0, _MOST, self._page_size):
                page = await self._page(connection, search, start)
                for document in unseen(map(_document, page.entries), seen):
                    if is_within(document, since, until):
                        yield document
                        limit -= 1
                    if not limit:
                        return
                if not page.entries or start + self._page_size >= page.total:
                    return

    async def _page(self, connection: Connection, search: str, start: int) -> ArxivPage:
        """A page; tried again while it is empty and should not be."""
        params = {
            "search_query": search,
            "start": str(start),
            "max_results": str(self._page_size),
            "sortBy": "submittedDate",
            "sortOrder": "descending",
        }
        for _ in range(_EMPTY_TRIES):
            page = await connection.ask(self._base_url, arxiv_page, params=params)
            if page.entries or start >= page.total:
                break
        return page


def _search_query(query: str, since: date | None, until: date | None) -> str:
    """The query within the window, whose days are those of Greenwich."""
    if not _FIELDS.search(query):
        words = arxiv_words(query)
        if not words:
            raise InvalidInput(f"no word to search for in {query[:40]!r}", field="query")
        query = " AND ".join(words)
    if since is None and until is None:
        return query
    first, last = since or _FIRST_DAY, until or _LAST_DAY
    return f"({query}) AND submittedDate:[{first:%Y%m%d}0000 TO {last:%Y%m%d}2359]"


def _document(entry: dict[str, Any]) -> SourceDocument | None:
    """The paper; None for an entry that lacks what a document needs."""
    try:
        return with_full_id(read_paper(Fields(entry)))
    except InvalidInput:
        return None
