"""GNews (docs.gnews.io), search endpoint: articles with a beginning of their text, or all of it with a paid plan."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date

from trailforge.pipelines.sources.columns import language_code
from trailforge.pipelines.sources.fetchers.base import article, check_request, is_within, unseen
from trailforge.pipelines.sources.fields import Fields, iso_date
from trailforge.retrieval.web.http import HttpConfig, Provider, key_from
from trailforge.retrieval.web.providers import GNEWS_CUT, GNEWS_KEY, GNEWS_URL
from trailforge.schemas import InvalidInput, SourceDocument, parse_json

_LARGEST_PAGE = 100
_LANGUAGE = "en"
"""Of what is searched."""


class GNewsFetcher:
    """Articles, the newest first. Use one for all fetches: it keeps the pace (free plan: one request a second)."""

    def __init__(
        self,
        *,
        base_url: str = GNEWS_URL,
        page_size: int = _LARGEST_PAGE,
        whole_text: bool = False,
        http: HttpConfig | None = None,
    ) -> None:
        self._base_url, self._whole_text = base_url, whole_text
        self._page_size = min(page_size, _LARGEST_PAGE)
        self._provider = Provider("GNews", http or HttpConfig(), GNEWS_KEY)

    async def fetch(
        self, query: str, *, since: date | None = None, until: date | None = None, limit: int = 100
    ) -> AsyncIterator[SourceDocument]:
        """See `DocumentFetcher`. A query in GNews's syntax: words, "phrases", AND, OR, NOT."""
        query = check_request(query, since, until, limit)
        key = key_from(GNEWS_KEY, "GNews")
        params = self._params(query, since, until, limit) | {"apikey": key}
        seen: set[str] = set()
        met = page = 0
        async with self._provider.connection(key) as connection:
            while True:
                page += 1
                total, found = await connection.ask(self._base_url, _parse, params=params | {"page": str(page)})
                met += len(found)
                new = unseen(map(self._document, found), seen)
                for document in new:
                    if is_within(document, since, until):
                        yield document
                        limit -= 1
                    if not limit:
                        return
                if not new or met >= total:  # nothing new: plans without pages give the first one again
                    return

    def _params(self, query: str, since: date | None, until: date | None, limit: int) -> dict[str, str]:
        params = {"q": query, "lang": _LANGUAGE, "max": str(min(limit, self._page_size)), "sortby": "publishedAt"}
        if since is not None:
            params["from"] = f"{since.isoformat()}T00:00:00Z"
        if until is not None:
            params["to"] = f"{until.isoformat()}T23:59:59Z"
        return params | ({"expand": "content"} if self._whole_text else {})

    def _document(self, row: Fields) -> SourceDocument | None:
        """The article; None for one that lacks what a document needs."""
        try:
            published = row.text_or_empty("publishedAt")
            return article(
                url=row.text("url"),
                title=row.text("title"),
                text=GNEWS_CUT.sub("", row.text_or_empty("content")).rstrip() or row.text_or_empty("description"),
                published=iso_date(published, "publishedAt") if published else None,
                language=language_code(row.text_or_empty("lang") or _LANGUAGE),
            )
        except InvalidInput:
            return None


def _parse(content: bytes) -> tuple[int, list[Fields]]:
    """How many articles there are in all, and those of the page. Raises `ValueError` for another shape."""
    try:
        reply = Fields(parse_json(content))
        return reply.integer("totalArticles"), reply.objects("articles")
    except InvalidInput as error:
        raise ValueError(str(error)) from None
