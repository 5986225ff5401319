"""Search tools of the web: for plans those of R-Search (section 4.1), for all other agents pages by a configured
provider.

Google is asked by way of Serper. What the sources find differs from day to day. A tool remembers what it found, so that
within a process the same search gives the same passages and is paid once; a run that is taken up again searches anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from trailforge.retrieval.base import Retriever
from trailforge.retrieval.sentences import first_sentences
from trailforge.retrieval.web.http import HttpConfig, Provider, canonical_url, key_from
from trailforge.retrieval.web.pages import PageReader
from trailforge.retrieval.web.providers import (
    ARXIV_URL,
    GNEWS_KEY,
    GNEWS_URL,
    SERPER_KEY,
    SERPER_NEWS_URL,
    SERPER_SEARCH_URL,
    arxiv_http,
    arxiv_page,
    arxiv_words,
    gnews_hits,
    gnews_query,
    serper_hits,
)
from trailforge.retrieval.web.search_api import USUAL, WebHit, open_api
from trailforge.schemas import Passage, ProviderError, RequestRefused, RetrievalError

_LOG = logging.getLogger(__name__)
_REMEMBERED = 10_000
"""Searches of one tool."""
_LANGUAGE = "en"
"""Of what is searched."""
_Fetch = Callable[[str, int], Awaitable[list[Passage]]]


class WebTool:
    """A `Retriever` over a live source. Scores are 1, 1/2, 1/3 …, since the sources give only ranks."""

    def __init__(self, fetch: _Fetch, longest: int | None = None) -> None:
        """`fetch`: the best passages for a query, at most so many. `longest`: words of a passage; None: no limit."""
        self._fetch, self._longest = fetch, longest
        self._under_way: dict[tuple[str, int], asyncio.Lock] = {}
        self._found: OrderedDict[tuple[str, int], list[Passage]] = OrderedDict()

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Return passages in the source's own order. Raises `RetrievalError` when it refuses this query, and
        `ProviderError` for other refusals.
        """
        asked = (" ".join(query.split()), k)
        if not asked[0] or k < 1:
            return []
        if asked in self._found:
            return list(self._found[asked])
        # What two ask at once is paid once. Other searches need not wait until a slow page is read.
        async with self._under_way.setdefault(asked, asyncio.Lock()):
            try:
                return list(self._found[asked] if asked in self._found else await self._search(asked))
            finally:
                self._under_way.pop(asked, None)

    async def _search(self, asked: tuple[str, int]) -> list[Passage]:
        try:
            found = await self._fetch(*asked)
        except RequestRefused as refusal:
            raise RetrievalError(str(refusal)) from None
        if self._longest is not None:
            found = [replace(passage, text=first_sentences(passage.text, self._longest)) for passage in found]
        self._found[asked] = found
        if len(self._found) > _REMEMBERED:
            self._found.popitem(last=False)
        return found


def serper_tools(
    *,
    news_url: str = SERPER_NEWS_URL,
    search_url: str = SERPER_SEARCH_URL,
    http: HttpConfig | None = None,
    longest: int | None = None,
) -> tuple[WebTool, WebTool]:
    """Open Google News and Google, sharing one rate limit. `longest`: most words of a passage; None: no limit. Raises
    `InvalidInput`, naming the environment variable, when the key is not set.
    """
    key = key_from(SERPER_KEY, "Serper")
    provider = Provider("Serper", http or HttpConfig(), SERPER_KEY)

    def tool(url: str, part: Literal["news", "organic"]) -> WebTool:
        async def fetch(query: str, k: int) -> list[Passage]:
            body = {"q": query, "hl": _LANGUAGE, "num": k}
            async with provider.connection(key) as connection:
                hits = await connection.ask(
                    url, lambda content: serper_hits(content, part), headers={"X-API-KEY": key}, body=body
                )
            return _passages([hit for hit in hits if hit.text][:k])

        return WebTool(fetch, longest)

    return tool(news_url, "news"), tool(search_url, "organic")


def news_tool(
    second: Retriever,
    *,
    base_url: str = GNEWS_URL,
    http: HttpConfig,
    longest: int | None = None,
) -> WebTool:
    """Open GNews, with `second` as a supplement where GNews has too few articles or fails, as when its quota is used
    up. `longest`: most words of a passage; None: no limit. Raises `InvalidInput`, naming the environment variable, when
    the key is not set.
    """
    key = key_from(GNEWS_KEY, "GNews")
    provider = Provider("GNews", http, GNEWS_KEY)

    async def first(query: str, k: int) -> list[Passage]:
        asked = gnews_query(query)
        if not asked:
            return []
        params = {"q": asked, "lang": _LANGUAGE, "max": str(k), "sortby": "relevance", "apikey": key}
        async with provider.connection(key) as connection:
            hits = await connection.ask(base_url, gnews_hits, params=params)
        return _passages(hits[:k])

    async def fetch(query: str, k: int) -> list[Passage]:
        try:
            found = await first(query, k)
        except ProviderError as error:
            _LOG.warning("%s; Google News is asked instead", error)
            found = []
        if len(found) >= k:
            return found
        known = {canonical_url(passage.id) for passage in found}
        more = [passage for passage in await second.retrieve(query, k) if canonical_url(passage.id) not in known]
        return [replace(p, score=round(1 / rank, 6)) for rank, p in enumerate([*found, *more][:k], 1)]

    return WebTool(fetch, longest)


def arxiv_tool(*, base_url: str = ARXIV_URL, http: HttpConfig | None = None, longest: int | None = None) -> WebTool:
    """Open arXiv's search for abstracts by relevance. A paper need not have all words of the query: few have all words
    of a sentence. `longest`: most words of a passage; None: no limit."""
    provider = Provider("arXiv", http or arxiv_http())

    async def fetch(query: str, k: int) -> list[Passage]:
        words = arxiv_words(query)
        if not words:
            return []
        params = {"search_query": " OR ".join(words), "start": "0", "max_results": str(k), "sortBy": "relevance"}
        async with provider.connection() as connection:
            page = await connection.ask(base_url, arxiv_page, params=params)
        papers = [
            WebHit(url=p.get("id", ""), title=p["title"], text=p["text"], published=p.get("published", "")[:10])
            for p in page.entries
            if p["title"] and p["text"]
        ]
        return _passages(papers[:k])

    return WebTool(fetch, longest)


def pages_tool(
    *,
    provider: str = "",
    base_url: str = "",
    http: HttpConfig | None = None,
    longest: int | None = None,
    read_pages: int = 0,
    reader: PageReader | None = None,
) -> WebTool:
    """Open a search for pages by a provider of `search_api`, at its own address or another one.

    A query that it refuses finds nothing. Of the first `read_pages` results the page itself is read; for the others the
    search's own text is used. `longest`: most words of a passage; None: no limit for the search's own text, and
    `LONGEST_PASSAGE` for a page. Raises `InvalidInput` when the key is not set, naming its environment variable, and
    for text that is no address.
    """
    api = open_api(provider, base_url)
    name = Path(provider or USUAL).stem.capitalize()
    key = key_from(api.key, name) if api.key else ""
    source = Provider(name, http or HttpConfig(), api.key)
    reader = reader or PageReader(longest)

    async def fetch(query: str, k: int) -> list[Passage]:
        asked = api.request(query, k)
        form = {"body": asked} if api.method == "post" else {"params": {name: str(asked[name]) for name in asked}}
        try:
            async with source.connection(key) as connection:
                hits = await connection.ask(api.url, api.hits, headers=api.headers(key), **form)
        except RequestRefused as refusal:
            _LOG.warning("%s; this search finds nothing", refusal)
            return []
        found = _passages(hits[:k])
        return [*await asyncio.gather(*(reader.read(each, query) for each in found[:read_pages])), *found[read_pages:]]

    return WebTool(fetch, longest)


def _passages(hits: Sequence[WebHit]) -> list[Passage]:
    found: list[Passage] = []
    for rank, hit in enumerate(hits, 1):
        text = f"{hit.published}: {hit.text}" if hit.published else hit.text
        title, text = (" ".join(each.split()) for each in (hit.title, text))
        found.append(Passage(id=hit.url, title=title, text=text, score=round(1 / rank, 6)))
    return found
