"""Google News by way of Serper (serper.dev): titles and snippets of articles."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from trailforge.pipelines.sources.columns import language_code
from trailforge.pipelines.sources.fetchers.base import article, check_request, is_within, unseen
from trailforge.pipelines.sources.fields import iso_date
from trailforge.retrieval.web.http import HttpConfig, Provider, key_from
from trailforge.retrieval.web.providers import SERPER_KEY, SERPER_NEWS_URL, WebHit, serper_hits
from trailforge.schemas import InvalidInput, SourceDocument

_LARGEST_PAGE = 100
_LANGUAGE = "en"
"""Of what is searched."""
_AGO = re.compile(r"(\d+) (second|sec|minute|min|hour|day)s? ago")
_WRITTEN = ("%b %d, %Y", "%d %b %Y", "%B %d, %Y", "%d %B %Y")


def _utc_today() -> date:
    return datetime.now(UTC).date()


class SerperFetcher:
    """Articles in Google's order. Use one for all fetches: it keeps the pace."""

    def __init__(
        self,
        *,
        base_url: str = SERPER_NEWS_URL,
        page_size: int = _LARGEST_PAGE,
        http: HttpConfig | None = None,
        today: Callable[[], date] = _utc_today,
    ) -> None:
        self._base_url, self._today = base_url, today
        self._page_size = min(page_size, _LARGEST_PAGE)
        self._provider = Provider("Serper", http or HttpConfig(), SERPER_KEY)

    async def fetch(
        self, query: str, *, since: date | None = None, until: date | None = None, limit: int = 100
    ) -> AsyncIterator[SourceDocument]:
        """See `DocumentFetcher`. A query as one types it at Google. `3 weeks ago` names no day, so it is left out."""
        query = check_request(query, since, until, limit)
        key = key_from(SERPER_KEY, "Serper")
        body: dict[str, Any] = {"q": query, "hl": _LANGUAGE, "num": min(limit, self._page_size)}
        if since is not None or until is not None:
            body["tbs"] = _window(since, until)
        seen: set[str] = set()
        page = 0
        async with self._provider.connection(key) as connection:
            while True:
                page += 1
                asked = body | {"page": page}
                found = await connection.ask(self._base_url, _parse, headers={"X-API-KEY": key}, body=asked)
                new = unseen(map(self._document, found), seen)
                for document in new:
                    if is_within(document, since, until):
                        yield document
                        limit -= 1
                    if not limit:
                        return
                if not new:
                    return

    def _document(self, hit: WebHit) -> SourceDocument | None:
        """The article; None for one that lacks what a document needs."""
        return article(
            url=hit.url,
            title=hit.title,
            text=hit.text,
            published=_day(hit.published, self._today()),
            language=language_code(_LANGUAGE),
        )


def _window(since: date | None, until: date | None) -> str:
    """Google's range of days; it writes the month first."""
    parts = ["cdr:1"]
    parts += [f"cd_min:{since:%m/%d/%Y}"] if since is not None else []
    parts += [f"cd_max:{until:%m/%d/%Y}"] if until is not None else []
    return ",".join(parts)


def _day(text: str, today: date) -> str | None:
    """The day of `5 hours ago`, `yesterday`, `Aug 22, 2024` or an ISO date; None for what names none."""
    text = text.strip()
    if ago := _AGO.fullmatch(text.lower()):
        days = int(ago[1]) if ago[2] == "day" else 0
        return (today - timedelta(days=days)).isoformat()
    if text.lower() in ("today", "yesterday"):
        return (today - timedelta(days=text.lower() == "yesterday")).isoformat()
    for written in _WRITTEN:
        try:
            return datetime.strptime(text, written).date().isoformat()
        except ValueError:
            continue
    try:
        return iso_date(text, "date")
    except InvalidInput:
        return None


def _parse(content: bytes) -> list[WebHit]:
    return serper_hits(content, "news")
