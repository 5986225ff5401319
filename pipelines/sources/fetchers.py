"""Fetch documents from live sources behind one interface: arXiv's export API, GNews, and Google News by Serper.

Keys come from the environment when a fetch begins, and stand in no error. What is fetched differs from day to day:
write it to a file first, and make runs from that.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

from trailforge.pipelines.engine.files import write_text
from trailforge.pipelines.sources.columns import language_code, one_line, read_paper, tidy, with_full_id
from trailforge.retrieval.web import (
    ARXIV_URL,
    GNEWS_CUT,
    GNEWS_KEY,
    GNEWS_URL,
    SERPER_KEY,
    SERPER_NEWS_URL,
    Connection,
    HttpConfig,
    Provider,
    WebHit,
    arxiv_http,
    arxiv_page,
    arxiv_words,
    canonical_url,
    key_from,
    serper_hits,
    site_of,
)
from trailforge.rows import Fields, iso_date
from trailforge.schemas import (
    InvalidInput,
    OutputError,
    ProviderError,
    SourceDocument,
    TrailforgeError,
    parse_json,
    to_dict,
)


class DocumentFetcher(Protocol):
    """A live source of documents, found by a query."""

    def fetch(
        self, query: str, *, since: date | None = None, until: date | None = None, limit: int = 100
    ) -> AsyncIterator[SourceDocument]:
        """Yield up to `limit` documents that the source finds for the query, published from `since` to `until`
        (included).

        No document comes twice, and none without text. Raises `InvalidInput` for an impossible request or a key that is
        not set, `ServerUnavailable` when the source does not answer, and `ProviderError` when it refuses.
        """
        ...


def _check_request(query: str, since: date | None, until: date | None, limit: int) -> str:
    """The query without blanks around it. Raises `InvalidInput` for what no source can answer."""
    if not query.strip():
        raise InvalidInput("is empty; say what to search for", field="query")
    if limit < 1:
        raise InvalidInput(f"expected at least 1, found {limit}", field="limit")
    if since is not None and until is not None and since > until:
        raise InvalidInput(f"the window begins on {since} and ends before, on {until}", field="since")
    return query.strip()


def _unseen(documents: Iterable[SourceDocument | None], seen: set[str]) -> list[SourceDocument]:
    """The documents whose ids are not in `seen`, which they join."""
    new: list[SourceDocument] = []
    for document in documents:
        if document is not None and document.id not in seen:
            seen.add(document.id)
            new.append(document)
    return new


def _is_within(document: SourceDocument, since: date | None, until: date | None) -> bool:
    """Whether its day is in the window; a document of no known day is, as the source was asked for the window."""
    if document.published is None:
        return True
    day = date.fromisoformat(document.published)
    return (since is None or day >= since) and (until is None or day <= until)


class _PagedSource(ABC):
    """A source that is asked page by page. Use one for all fetches: it keeps the pace."""

    name: ClassVar[str]
    url: ClassVar[str]
    key_variable: ClassVar[str] = ""
    http: ClassVar[HttpConfig] = HttpConfig()
    most_per_page: ClassVar[int] = 100
    counts_results: ClassVar[bool] = False
    """Says how many results there are. Else a page that brings nothing new is the end: plans without pages give the
    first one again and again."""

    def __init__(self, *, base_url: str = "", page_size: int = 0, http: HttpConfig | None = None) -> None:
        """All in place of the source's own; no page is larger than its pages."""
        self._url = base_url or self.url
        self._page_size = min(page_size or self.most_per_page, self.most_per_page)
        self._provider = Provider(self.name, http or self.http, self.key_variable)

    async def fetch(
        self, query: str, *, since: date | None = None, until: date | None = None, limit: int = 100
    ) -> AsyncIterator[SourceDocument]:
        """See `DocumentFetcher`."""
        asked = self._asked(_check_request(query, since, until, limit), since, until, limit)
        key = key_from(self.key_variable, self.name) if self.key_variable else ""
        seen: set[str] = set()
        met = 0
        async with self._provider.connection(key) as connection:
            for page in itertools.count(1):
                found, is_last = await self._ask(connection, key, asked, page, met)
                met += len(found)
                new = _unseen(map(self._document, found), seen)
                for document in new:
                    if _is_within(document, since, until):
                        yield document
                        limit -= 1
                    if not limit:
                        return
                if is_last or not (new or (found and self.counts_results)):
                    return

    @abstractmethod
    def _asked(self, query: str, since: date | None, until: date | None, limit: int) -> dict[str, Any]:
        """What every page is asked for."""

    @abstractmethod
    async def _ask(
        self, connection: Connection, key: str, asked: dict[str, Any], page: int, met: int
    ) -> tuple[list[Any], bool]:
        """What page 1, 2, … holds, and whether it is the last one. `met`: how many the pages before held."""

    @abstractmethod
    def _document(self, found: Any) -> SourceDocument | None:
        """None for what lacks something that a document needs."""


class ArxivFetcher(_PagedSource):
    """Fetches from arXiv's export API (info.arxiv.org/help/api/user-manual): papers by the day of their first version,
    newest first.

    Queries use its syntax (`cat:cs.CL AND ti:search`), or words that all must occur. At most 30,000 results: for more,
    split the window. A page may be empty before the end, and be there a moment later; and the number of results is
    counted too high, so that an empty page that stays empty is the end. See `retrieval.web.providers`.
    """

    name = "arXiv"
    url = ARXIV_URL
    http = arxiv_http()
    most_per_page = 200
    counts_results = True

    def _asked(self, query: str, since: date | None, until: date | None, limit: int) -> dict[str, Any]:
        search = _search_query(query, since, until)
        if limit > _MOST_PAPERS:
            problem = f"arXiv gives at most {_MOST_PAPERS:,} results of a query; split the window"
            raise InvalidInput(problem, field="limit")
        order = {"sortBy": "submittedDate", "sortOrder": "descending"}
        return {"search_query": search, "max_results": str(self._page_size), **order}

    async def _ask(
        self, connection: Connection, key: str, asked: dict[str, Any], page: int, met: int
    ) -> tuple[list[Any], bool]:
        start = (page - 1) * self._page_size
        for _ in range(_EMPTY_TRIES):
            found = await connection.ask(self._url, arxiv_page, params=asked | {"start": str(start)})
            if found.entries or start >= found.total:
                break
        return found.entries, start + self._page_size >= min(found.total, _MOST_PAPERS)

    def _document(self, found: dict[str, Any]) -> SourceDocument | None:
        try:
            return with_full_id(read_paper(Fields(found)))
        except InvalidInput:
            return None


_MOST_PAPERS = 30_000
"""Results of one query that the API gives."""
_EMPTY_TRIES = 3
_FIRST_DAY, _LAST_DAY = date(1991, 1, 1), date(2100, 1, 1)
_FIELDS = re.compile(r"\b(?:ti|au|abs|co|jr|cat|rn|id|all|submittedDate|lastUpdatedDate):")


def _search_query(query: str, since: date | None, until: date | None) -> str:
    """The query within the window, whose days are those of Greenwich."""
    if not _FIELDS.search(query):
        words = arxiv_words(query)
        if not words:
            raise InvalidInput(f"no word to search for in {query[:40]!r}; give at least one", field="query")
        query = " AND ".join(words)
    if since is None and until is None:
        return query
    first, last = since or _FIRST_DAY, until or _LAST_DAY
    return f"({query}) AND submittedDate:[{first:%Y%m%d}0000 TO {last:%Y%m%d}2359]"


_LANGUAGE = "en"
"""Of what is searched."""


class GNewsFetcher(_PagedSource):
    """Fetches from GNews' search endpoint (docs.gnews.io): articles with the beginning of their text, newest first.

    Queries use its syntax: words, "phrases", AND, OR, NOT. The free plan allows one request a second.
    """

    name = "GNews"
    url = GNEWS_URL
    key_variable = GNEWS_KEY

    def _asked(self, query: str, since: date | None, until: date | None, limit: int) -> dict[str, Any]:
        params = {"q": query, "lang": _LANGUAGE, "max": str(min(limit, self._page_size)), "sortby": "publishedAt"}
        if since is not None:
            params["from"] = f"{since.isoformat()}T00:00:00Z"
        if until is not None:
            params["to"] = f"{until.isoformat()}T23:59:59Z"
        return params

    async def _ask(
        self, connection: Connection, key: str, asked: dict[str, Any], page: int, met: int
    ) -> tuple[list[Any], bool]:
        total, found = await connection.ask(self._url, _parse_gnews, params=asked | {"apikey": key, "page": str(page)})
        return found, met + len(found) >= total

    def _document(self, found: Fields) -> SourceDocument | None:
        try:
            published = found.text_or_empty("publishedAt")
            return _article(
                url=found.text("url"),
                title=found.text("title"),
                text=GNEWS_CUT.sub("", found.text_or_empty("content")).rstrip() or found.text_or_empty("description"),
                published=iso_date(published, "publishedAt") if published else None,
                language=language_code(found.text_or_empty("lang") or _LANGUAGE),
            )
        except InvalidInput:
            return None


def _parse_gnews(content: bytes) -> tuple[int, list[Fields]]:
    """How many articles there are in all, and those of the page. Raises `ValueError` for another shape."""
    try:
        reply = Fields(parse_json(content))
        return reply.integer("totalArticles"), reply.objects("articles")
    except InvalidInput as error:
        raise ValueError(str(error)) from None


class SerperFetcher(_PagedSource):
    """Fetches from Google News through Serper (serper.dev): titles and snippets of articles, in Google's order.

    Queries are written as for Google. An article whose date is only `3 weeks ago` is left out, since that names no day.
    """

    name = "Serper"
    url = SERPER_NEWS_URL
    key_variable = SERPER_KEY

    def _asked(self, query: str, since: date | None, until: date | None, limit: int) -> dict[str, Any]:
        window = [f"cd_min:{since:%m/%d/%Y}"] if since is not None else []  # Google writes the month first
        window += [f"cd_max:{until:%m/%d/%Y}"] if until is not None else []
        asked: dict[str, Any] = {"q": query, "hl": _LANGUAGE, "num": min(limit, self._page_size)}
        return asked | ({"tbs": ",".join(["cdr:1", *window])} if window else {})

    async def _ask(
        self, connection: Connection, key: str, asked: dict[str, Any], page: int, met: int
    ) -> tuple[list[Any], bool]:
        parse, body = partial(serper_hits, part="news"), asked | {"page": page}
        return await connection.ask(self._url, parse, headers={"X-API-KEY": key}, body=body), False

    def _document(self, found: WebHit) -> SourceDocument | None:
        published = _day(found.published, _utc_today())
        return _article(url=found.url, title=found.title, text=found.text, published=published, language=_LANGUAGE)


_AGO = re.compile(r"(\d+) (second|sec|minute|min|hour|day)s? ago")
_WRITTEN = ("%b %d, %Y", "%d %b %Y", "%B %d, %Y", "%d %B %Y")


def _utc_today() -> date:
    return datetime.now(UTC).date()


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


def _article(*, url: str, title: str, text: str, published: str | None, language: str | None) -> SourceDocument | None:
    """A news article; its source is the site that it stands on. None for one without an address or a text."""
    # JSON may hold halves of surrogate pairs, which UTF-8 cannot.
    url, title, text = (each.encode("utf-8", "replace").decode("utf-8") for each in (url, title, text))
    source, body = site_of(url), tidy(text)
    if not source or not body:
        return None
    return SourceDocument(
        id=f"{source}:{canonical_url(url)}",
        source=source,
        kind="news",
        title=one_line(title),
        text=body,
        url=url.strip(),
        published=published,
        language=language,
    )


class NewsFetcher:
    """Fetches from GNews first; from Serper when GNews gives fewer than `minimum` articles or fails (quota used up)."""

    def __init__(
        self, *, first: DocumentFetcher | None = None, second: DocumentFetcher | None = None, minimum: int = 10
    ) -> None:
        self._first = first or GNewsFetcher()
        self._second = second or SerperFetcher()
        self._minimum = minimum

    async def fetch(
        self, query: str, *, since: date | None = None, until: date | None = None, limit: int = 100
    ) -> AsyncIterator[SourceDocument]:
        """Fetch as `DocumentFetcher.fetch` does. Raises the first provider's error only if the second fails, too."""
        _check_request(query, since, until, limit)
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
            raise ProviderError(f"both providers failed, the first with: {failure}; then {error}") from None


FETCHERS: Mapping[str, Callable[[], DocumentFetcher]] = {
    "arxiv": ArxivFetcher,
    "gnews": GNewsFetcher,
    "serper": SerperFetcher,
    "news": NewsFetcher,
}


def fetch_to_file(
    origin: str, query: str, path: Path, *, since: date | None = None, until: date | None = None, limit: int = 100
) -> int:
    """Write what a source finds as JSON Lines, and return the number of documents. The file is whole or absent. Raises
    `OutputError` for a file that exists, `InvalidInput` when nothing is found, and what `DocumentFetcher.fetch` raises.
    """
    if path.exists():
        raise OutputError(f"{path} exists; give another --out")
    fetched = FETCHERS[origin]().fetch(query, since=since, until=until, limit=limit)
    lines = asyncio.run(_lines(fetched))
    if not lines:
        raise InvalidInput(f"{origin} finds nothing for {query!r} in that time; take other words", field="query")
    write_text(path, "".join(lines))
    return len(lines)


async def _lines(fetched: AsyncIterator[SourceDocument]) -> list[str]:
    return [json.dumps(to_dict(document), ensure_ascii=False) + "\n" async for document in fetched]
