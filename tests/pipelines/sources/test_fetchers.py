"""Live sources against recorded replies in the providers' formats: paging, windows, faults, keys, and the fall back."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import date
from html import escape
from typing import Any

import pytest

from tests.support.recorded import Answer, recorded
from trailforge.pipelines.sources import fetchers
from trailforge.pipelines.sources.fetchers import (
    ArxivFetcher,
    DocumentFetcher,
    GNewsFetcher,
    NewsFetcher,
    SerperFetcher,
)
from trailforge.retrieval.web.http import HttpConfig
from trailforge.schemas import InvalidInput, ProviderError, ServerUnavailable, SourceDocument

KEY = "s3cret/key+of=mine"
QUICK = HttpConfig(interval_s=0.0, backoff_s=0.01, timeout_s=5.0, max_attempts=3, longest_wait_s=2.0)
TODAY = date(2024, 6, 15)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, and no proxy before loopback."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("GNEWS_API_KEY", KEY)
    monkeypatch.setenv("SERPER_API_KEY", KEY)


def paper(
    number: int, *, day: str = "2025-04-02", title: str = "On things", summary: str = "We study\n  things."
) -> str:
    return f"""<entry><id>http://arxiv.org/abs/2504.{number:05d}v1</id><updated>{day}T09:00:00Z</updated>
      <published>{day}T08:00:00Z</published><title>{title}</title><summary>{escape(summary)}</summary>
      <author><name>Ann A.</name></author><author><name>Bo B.</name></author>
      <arxiv:primary_category xmlns:arxiv="http://arxiv.org/schemas/atom" term="cs.CL"/>
      <link href="http://arxiv.org/abs/2504.{number:05d}v1" rel="alternate" type="text/html"/>
      <link title="pdf" href="http://arxiv.org/pdf/2504.{number:05d}v1" rel="related" type="application/pdf"/>
      </entry>"""


def papers(total: int, *entries: str) -> str:
    return f"""<?xml version="1.0" encoding="UTF-8"?>
    <feed xmlns="http://www.w3.org/2005/Atom"><link href="http://arxiv.org/api/query?x" rel="self"/>
    <title type="html">ArXiv Query: x</title><id>http://arxiv.org/api/abc</id><updated>2025-06-01T00:00:00-04:00</updated>
    <opensearch:totalResults xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">{total}</opensearch:totalResults>
    {"".join(entries)}</feed>"""


ARXIV_ERROR = """<feed xmlns="http://www.w3.org/2005/Atom"><id>http://arxiv.org/api/abc</id><entry>
  <id>http://arxiv.org/api/errors#start_must_be_non-negative</id><title>Error</title>
  <summary>start must be non-negative</summary></entry></feed>"""


def gnews_article(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"{number:032x}",
        "title": f"News {number}",
        "description": "In short.",
        "content": f"Article {number} begins... [1419 chars]",
        "url": f"https://www.paper.example/{number}?utm_source=g",
        "image": "https://www.paper.example/i.jpg",
        "publishedAt": "2024-06-10T08:14:24Z",
        "lang": "en",
        "source": {"id": "x", "name": "Paper", "url": "https://www.paper.example"},
    } | changes


def gnews(total: int, *articles: dict[str, Any]) -> str:
    return json.dumps({"totalArticles": total, "articles": articles})


def serper_article(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "title": f"Found {number}",
        "link": f"https://paper.example/{number}",
        "snippet": f"Snippet {number} …",
        "date": "5 hours ago",
        "source": "Paper",
        "imageUrl": "https://encrypted-tbn0.example/i",
        "position": number,
    } | changes


def serper(*articles: dict[str, Any]) -> str:
    return json.dumps({"searchParameters": {"q": "x", "type": "news"}, "news": articles, "credits": 1})


async def fetched(fetcher: DocumentFetcher, query: str = "x", **options: Any) -> list[SourceDocument]:
    return [document async for document in fetcher.fetch(query, **options)]


async def ids(fetcher: DocumentFetcher, query: str = "x", **options: Any) -> list[str]:
    return [document.id.rpartition("/")[2].rpartition(":")[2] for document in await fetched(fetcher, query, **options)]


Make = Callable[..., Any]
EVERY: list[tuple[Make, str]] = [
    (ArxivFetcher, papers(1, paper(1))),
    (GNewsFetcher, gnews(1, gnews_article(1))),
    (SerperFetcher, serper(serper_article(1))),
]
every = pytest.mark.parametrize(("make", "body"), EVERY, ids=["arxiv", "gnews", "serper"])


# arXiv


async def test_arxiv_papers_are_those_of_its_listings() -> None:
    async with recorded(papers(1, paper(16))) as server:
        found = await fetched(ArxivFetcher(base_url=server.url, http=QUICK), " deep  learning ")
    assert found == [
        SourceDocument(
            id="arxiv:2504.00016",
            source="arxiv",
            kind="academic",
            title="On things",
            text="We study things.",
            url="https://arxiv.org/abs/2504.00016",
            published="2025-04-02",
            language="en",
            authors=("Ann A.", "Bo B."),
            licence="CC0-1.0",
        )
    ]
    assert server.asked == [
        {
            "search_query": "all:deep AND all:learning",
            "start": "0",
            "max_results": "200",
            "sortBy": "submittedDate",
            "sortOrder": "descending",
        }
    ]


@pytest.mark.parametrize(
    ("query", "window", "asked"),
    [
        ("cat:cs.CL AND ti:x", {}, "cat:cs.CL AND ti:x"),
        ('"a (b): c"', {}, "all:a AND all:b AND all:c"),
        (
            "x",
            {"since": date(2025, 4, 1), "until": date(2025, 4, 30)},
            "(all:x) AND submittedDate:[202504010000 TO 202504302359]",
        ),
        ("x", {"since": date(2025, 4, 1)}, "(all:x) AND submittedDate:[202504010000 TO 210001012359]"),
        ("x", {"until": date(2025, 4, 30)}, "(all:x) AND submittedDate:[199101010000 TO 202504302359]"),
    ],
)
async def test_arxiv_queries_and_windows(query: str, window: dict[str, date], asked: str) -> None:
    async with recorded(papers(0)) as server:
        assert await ids(ArxivFetcher(base_url=server.url, http=QUICK), query, **window) == []
    assert [each["search_query"] for each in server.asked] == [asked]


async def test_arxiv_pages() -> None:
    """A paper that moved to the next page comes once, one outside of the window or without abstract not at all."""
    pages = [
        papers(6, paper(1), paper(2)),
        papers(6, paper(2), paper(3, day="2024-01-01")),
        papers(6, paper(4, summary=" "), paper(5)),
    ]
    async with recorded(*pages) as server:
        fetcher = ArxivFetcher(base_url=server.url, page_size=2, http=QUICK)
        assert await ids(fetcher, since=date(2025, 1, 1)) == ["2504.00001", "2504.00002", "2504.00005"]
        assert [each["start"] for each in server.asked] == ["0", "2", "4"]


async def test_arxiv_goes_on_behind_a_page_without_a_usable_paper_and_ends_at_an_empty_one() -> None:
    unusable = papers(900, paper(2, summary=" "), paper(3, summary=" "))
    async with recorded(papers(900, paper(1), paper(9)), unusable, papers(900, paper(4)), papers(900)) as server:
        fetcher = ArxivFetcher(base_url=server.url, page_size=2, http=QUICK)
        assert await ids(fetcher) == ["2504.00001", "2504.00009", "2504.00004"]
        assert [each["start"] for each in server.asked] == ["0", "2", "4", "6", "6", "6"]


async def test_arxiv_stops_at_the_limit() -> None:
    async with recorded(papers(900, paper(1), paper(2))) as server:
        assert await ids(ArxivFetcher(base_url=server.url, page_size=2, http=QUICK), limit=2) == [
            "2504.00001",
            "2504.00002",
        ]
        assert len(server.asked) == 1


async def test_arxiv_empty_pages_are_asked_for_again() -> None:
    empty = papers(4)
    async with recorded(papers(4, paper(1), paper(2)), empty, empty, papers(4, paper(3), paper(4))) as server:
        assert len(await ids(ArxivFetcher(base_url=server.url, page_size=2, http=QUICK))) == 4
    async with recorded(papers(4, paper(1), paper(2)), empty) as server:
        assert len(await ids(ArxivFetcher(base_url=server.url, page_size=2, http=QUICK))) == 2
        assert len(server.asked) == 1 + 3


async def test_arxiv_errors_come_with_status_200() -> None:
    async with recorded(ARXIV_ERROR) as server:
        with pytest.raises(ProviderError, match="arXiv: start must be non-negative"):
            await ids(ArxivFetcher(base_url=server.url, http=QUICK))
        assert len(server.asked) == 1
    async with recorded("Rate exceeded.", papers(1, paper(1))) as server:
        assert await ids(ArxivFetcher(base_url=server.url, http=QUICK)) == ["2504.00001"]


async def test_arxiv_keeps_the_pace_over_all_fetches() -> None:
    """One request at a time, and not more often than asked for, whoever asks."""
    async with recorded(Answer(body=papers(2, paper(1)), delay_s=0.1)) as server:
        fetcher = ArxivFetcher(base_url=server.url, page_size=1, http=HttpConfig(interval_s=0.5))
        began = asyncio.get_running_loop().time()
        await asyncio.gather(ids(fetcher), ids(fetcher))
    assert len(server.times) == 4
    assert server.times[3] - began >= 3 * 0.5  # without a pace it comes after 0.3
    assert server.most_busy == 1


async def test_arxiv_asks_each_three_seconds_unless_told_otherwise() -> None:
    assert ArxivFetcher()._provider._config.interval_s == 3.0


# GNews


async def test_gnews() -> None:
    articles = [
        gnews_article(1),
        gnews_article(2, content=None, lang="fr"),
        gnews_article(3, content="", description=None),
        gnews_article(4, url="no address"),
        gnews_article(5, publishedAt="2024-05-01T00:00:00Z"),
        gnews_article(6, title=[6]),
        gnews_article(1, url="http://paper.example/1/"),
    ]
    window = {"since": date(2024, 6, 1), "until": date(2024, 6, 10)}
    async with recorded(gnews(7, *articles)) as server:
        first, second = await fetched(GNewsFetcher(base_url=server.url, http=QUICK), '"a b" AND c', **window)
    assert first == SourceDocument(
        id="paper.example:https://paper.example/1",
        source="paper.example",
        kind="news",
        title="News 1",
        text="Article 1 begins",
        url="https://www.paper.example/1?utm_source=g",
        published="2024-06-10",
        language="en",
    )
    assert (second.text, second.language) == ("In short.", "fr")
    assert server.asked == [
        {
            "q": '"a b" AND c',
            "lang": "en",
            "max": "100",
            "sortby": "publishedAt",
            "from": "2024-06-01T00:00:00Z",
            "to": "2024-06-10T23:59:59Z",
            "apikey": KEY,
            "page": "1",
        }
    ]


async def test_half_a_surrogate_pair_does_not_come_through() -> None:
    async with recorded(
        gnews(1, gnews_article(1, title="a\ud800", content="b\udfff", url="https://a.example/\ud800"))
    ) as server:
        (found,) = await fetched(GNewsFetcher(base_url=server.url, http=QUICK))
    assert (found.title, found.text, found.url) == ("a?", "b?", "https://a.example/?")


async def test_a_pause_is_for_all_fetches() -> None:
    answers = [Answer(status=429, headers={"Retry-After": "1"}), gnews(1, gnews_article(1))]
    async with recorded(*answers) as server:
        fetcher = GNewsFetcher(base_url=server.url, http=QUICK)
        first = asyncio.create_task(ids(fetcher))
        while not server.asked:
            await asyncio.sleep(0.01)
        assert await ids(fetcher) == await first == ["1"]
        assert server.times[1] - server.times[0] >= 1.0


async def test_gnews_pages_until_all_are_there() -> None:
    pages = [gnews(5, *map(gnews_article, numbers)) for numbers in ((1, 2), (3, 4), (5,))]
    async with recorded(*pages) as server:
        fetcher = GNewsFetcher(base_url=server.url, page_size=2, http=QUICK)
        assert await ids(fetcher) == ["1", "2", "3", "4", "5"]
        assert [(each["page"], each["max"]) for each in server.asked] == [(page, "2") for page in "123"]
    async with recorded(*pages) as server:
        assert await ids(GNewsFetcher(base_url=server.url, page_size=2, http=QUICK), limit=3) == ["1", "2", "3"]
        assert len(server.asked) == 2


@pytest.mark.parametrize("second", [gnews(90, gnews_article(1)), gnews(90), gnews(0)])
async def test_gnews_ends_when_a_page_brings_nothing_new(second: str) -> None:
    """Plans without pages give the first one again."""
    async with recorded(gnews(90, gnews_article(1)), second) as server:
        assert await ids(GNewsFetcher(base_url=server.url, http=QUICK)) == ["1"]
        assert len(server.asked) == 2


# Serper


async def test_serper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetchers, "_utc_today", lambda: TODAY)
    dates = [
        "5 hours ago",
        "2 days ago",
        "Yesterday",
        "Aug 22, 2023",
        "1 Jun 2024",
        "3 weeks ago",
        "2024-06-01",
        "now?",
    ]
    articles = [serper_article(n, date=day) for n, day in enumerate(dates)]
    articles += [serper_article(8, snippet=""), serper_article(9, link=None), serper_article(10, date=None)]
    async with recorded(serper(*articles), serper()) as server:
        fetcher = SerperFetcher(base_url=server.url, http=QUICK)
        found = await fetched(fetcher, "x", since=date(2024, 6, 1), until=TODAY)
    assert found[0] == SourceDocument(
        id="paper.example:https://paper.example/0",
        source="paper.example",
        kind="news",
        title="Found 0",
        text="Snippet 0 …",
        url="https://paper.example/0",
        published="2024-06-15",
        language="en",
    )
    assert [(each.url[-1:], each.published) for each in found] == [
        ("0", "2024-06-15"),
        ("1", "2024-06-13"),
        ("2", "2024-06-14"),
        ("4", "2024-06-01"),
        ("5", None),
        ("6", "2024-06-01"),
        ("7", None),
        ("0", None),
    ]
    assert server.asked == [
        {"q": "x", "hl": "en", "num": 100, "tbs": "cdr:1,cd_min:06/01/2024,cd_max:06/15/2024", "page": page}
        for page in (1, 2)
    ]
    assert all(headers["X-API-KEY"] == KEY for headers in server.headers)


async def test_serper_pages_until_nothing_is_new() -> None:
    async with recorded(serper(*map(serper_article, (1, 2))), serper(*map(serper_article, (2, 3))), "{}") as server:
        assert await ids(SerperFetcher(base_url=server.url, page_size=2, http=QUICK)) == ["1", "2", "3"]
        assert [each["page"] for each in server.asked] == [1, 2, 3]
        assert all("tbs" not in each for each in server.asked)


# Both


class Scripted:
    """A fetcher that gives documents, then an error."""

    def __init__(self, *documents: SourceDocument, error: Exception | None = None) -> None:
        self.documents, self.error, self.calls = documents, error, 0

    async def fetch(
        self, query: str, *, since: date | None = None, until: date | None = None, limit: int = 100
    ) -> AsyncIterator[SourceDocument]:
        self.calls += 1
        for document in self.documents[:limit]:
            yield document
        if self.error:
            raise self.error


def news(*numbers: int) -> list[SourceDocument]:
    return [
        SourceDocument(id=f"n:{n}", source="n", kind="news", title="t", text="x", url=f"https://n/{n}") for n in numbers
    ]


@pytest.mark.parametrize(
    ("first", "second", "limit", "found", "asked_second"),
    [
        (Scripted(*news(1, 2, 3)), Scripted(*news(4)), 9, "123", 0),
        (Scripted(*news(1, 2)), Scripted(*news(2, 4, 5)), 9, "1245", 1),
        (Scripted(*news(1, 2)), Scripted(*news(2, 4, 5, 6)), 3, "124", 1),
        (Scripted(*news(1, 2)), Scripted(*news(4)), 2, "12", 0),
        (Scripted(), Scripted(*news(4)), 9, "4", 1),
        (Scripted(*news(1), error=ProviderError("quota")), Scripted(*news(4)), 9, "14", 1),
        (Scripted(*news(1, 2, 3), error=ProviderError("quota")), Scripted(*news(4)), 9, "123", 0),
    ],
)
async def test_news_falls_back_below_a_minimum(
    first: Scripted, second: Scripted, limit: int, found: str, asked_second: int
) -> None:
    fetcher = NewsFetcher(first=first, second=second, minimum=3)
    assert "".join(await ids(fetcher, limit=limit)) == found
    assert (first.calls, second.calls) == (1, asked_second)


async def test_news_tells_of_both_failures() -> None:
    both = NewsFetcher(first=Scripted(error=ProviderError("first")), second=Scripted(error=InvalidInput("second")))
    with pytest.raises(ProviderError, match="first; then second"):
        await ids(both)
    with pytest.raises(InvalidInput, match=r"^second$"):
        await ids(NewsFetcher(first=Scripted(), second=Scripted(error=InvalidInput("second"))))


async def test_news_over_both_providers() -> None:
    """The same page at both is one article, whatever counts its visitors."""
    async with (
        recorded(gnews(1, gnews_article(1, url="https://paper.example/1?utm_medium=x"))) as one,
        recorded(serper(serper_article(1), serper_article(2)), serper()) as two,
    ):
        first, second = GNewsFetcher(base_url=one.url, http=QUICK), SerperFetcher(base_url=two.url, http=QUICK)
        assert [each.title for each in await fetched(NewsFetcher(first=first, second=second))] == ["News 1", "Found 2"]
    async with recorded(Answer(status=403, body='{"errors": ["quota"]}')) as one, recorded("{}") as two:
        first, second = GNewsFetcher(base_url=one.url, http=QUICK), SerperFetcher(base_url=two.url, http=QUICK)
        assert await fetched(NewsFetcher(first=first, second=second)) == []


# Faults of a provider


@every
@pytest.mark.parametrize(
    "fault",
    [
        Answer(status=429, headers={"Retry-After": "0"}),
        Answer(status=429),
        Answer(status=500),
        Answer(status=503, headers={"Retry-After": "0.01"}),
        Answer(body='{"totalArticles": 1, "artic'),
        Answer(body="<html>Sign in</html>"),
        Answer(body=""),
        Answer(body='{"totalArticles": "1", "articles": {}, "news": 3}'),
        Answer(body="[" * 100_000),
        Answer(body="{", cut=True),
    ],
    ids=["429 now", "429", "500", "503", "half", "html", "empty", "shape", "deep", "cut"],
)
async def test_what_may_pass_is_tried_again(make: Make, body: str, fault: Answer) -> None:
    async with recorded(fault, fault, body) as server:
        assert len(await ids(make(base_url=server.url, http=QUICK), limit=1)) == 1
        assert len(server.asked) == 3
    async with recorded(fault) as server:
        with pytest.raises(ServerUnavailable, match="after 3 attempts; try again later"):
            await ids(make(base_url=server.url, http=QUICK), limit=1)
        assert len(server.asked) == 3


@every
async def test_retry_after_is_kept_when_it_is_short(make: Make, body: str) -> None:
    async with recorded(Answer(status=429, headers={"Retry-After": "1"}), body) as server:
        assert len(await ids(make(base_url=server.url, http=QUICK), limit=1)) == 1
        assert server.times[1] - server.times[0] >= 1.0
    async with recorded(Answer(status=429, headers={"Retry-After": "3600"}), body) as server:
        with pytest.raises(ServerUnavailable, match="status 429; it asks to come back in 3600 s"):
            await ids(make(base_url=server.url, http=QUICK), limit=1)
        assert len(server.asked) == 1


@every
async def test_a_provider_that_is_silent_or_away(make: Make, body: str) -> None:
    hasty = HttpConfig(interval_s=0.0, backoff_s=0.01, timeout_s=0.1, max_attempts=2)
    async with recorded(Answer(body=body, delay_s=0.3)) as server:
        with pytest.raises(ServerUnavailable, match="no reply in time after 2 attempts"):
            await ids(make(base_url=server.url, http=hasty))
    with pytest.raises(ServerUnavailable, match="after 2 attempts"):
        await ids(make(base_url=server.url, http=hasty))


@every
async def test_replies_have_a_largest_size(make: Make, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trailforge.retrieval.web.http._LARGEST_BODY", 100)
    async with recorded(body) as server:
        with pytest.raises(ServerUnavailable, match="cannot be read"):
            await ids(make(base_url=server.url, http=QUICK))


REFUSALS: list[tuple[Answer, str]] = [
    (Answer(status=400, body='{"errors": {"q": "The query has a syntax error."}}'), "q: The query has a syntax error."),
    (Answer(status=401, body='{"errors": ["Your API key is invalid."]}'), "Your API key is invalid."),
    (Answer(status=403, body='{"message": "Unauthorized.", "statusCode": 403}'), "Unauthorized."),
    (Answer(status=404, body="nothing\nhere"), "nothing"),
    (Answer(status=302, headers={"Location": "https://elsewhere.example/"}), "status 302"),
]


@every
@pytest.mark.parametrize(("answer", "said"), REFUSALS)
async def test_a_refusal_is_final_and_says_why(make: Make, body: str, answer: Answer, said: str) -> None:
    async with recorded(answer, body) as server:
        with pytest.raises(ProviderError) as caught:
            await ids(make(base_url=server.url, http=QUICK))
        assert len(server.asked) == 1
    text = str(caught.value)
    assert said in text and "\n" not in text
    keys = {GNewsFetcher: "GNEWS_API_KEY", SerperFetcher: "SERPER_API_KEY"}
    assert (f"check the key in {keys.get(make)}" in text) == (answer.status in (401, 403) and make in keys)


# Keys


KEYED = [(GNewsFetcher, "GNEWS_API_KEY"), (SerperFetcher, "SERPER_API_KEY")]


@pytest.mark.parametrize(("make", "variable"), KEYED)
@pytest.mark.parametrize(
    ("value", "problem"), [("", "wants a key"), ("  ", "wants a key"), ("a\nb", "no key has"), ("ключ", "no key has")]
)
async def test_without_a_key_nothing_is_asked(
    make: Make, variable: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    async with recorded("{}") as server:
        with pytest.raises(InvalidInput, match=problem) as caught:
            await ids(make(base_url=server.url, http=QUICK))
        assert server.asked == []
    assert variable in str(caught.value)
    assert not value.strip() or value not in str(caught.value)


@pytest.mark.parametrize(("make", "variable"), KEYED)
@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=400, body=f"no such key {KEY}"),
        Answer(status=403, body=json.dumps({"errors": [f"https://x/?apikey={KEY}"]})),
        Answer(status=404, body="https://x/?apikey=s3cret%2Fkey%2Bof%3Dmine"),
        Answer(status=500, body=KEY),
        Answer(body=KEY),
        Answer(body="{", cut=True),
        Answer(body="{}", delay_s=0.3),
    ],
)
async def test_a_key_is_never_shown(
    make: Make,
    variable: str,
    answer: Answer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither in the error, nor in what stands behind it, nor in a log, whatever the provider repeats."""
    caplog.set_level("DEBUG")
    # The provider's own log, which stands in for nothing of ours; a test before may have left a handler that prints it.
    monkeypatch.setattr(logging.getLogger("aiohttp.access"), "disabled", True)
    hasty = HttpConfig(interval_s=0.0, backoff_s=0.01, timeout_s=0.1, max_attempts=1)
    async with recorded(answer) as server:
        with pytest.raises(ProviderError) as caught:
            await ids(make(base_url=server.url, http=hasty))
    for url in (server.url, "http://127.0.0.1:1/api", "no address"):
        with pytest.raises(ProviderError) as away:
            await ids(make(base_url=url, http=hasty))
        shown = ["".join(traceback.format_exception(error.value)) for error in (caught, away)]
        shown += [str(caught.value), str(away.value)]
        own = [record.getMessage() for record in caplog.records]
        for text in (*shown, *own, *capfd.readouterr()):
            assert "s3cret" not in text


# Requests


@every
@pytest.mark.parametrize(
    ("query", "options", "field"),
    [
        (" ", {}, "query"),
        ("x", {"limit": 0}, "limit"),
        ("x", {"since": date(2024, 2, 1), "until": date(2024, 1, 1)}, "since"),
    ],
)
async def test_requests_that_make_no_sense(
    make: Make, body: str, query: str, options: dict[str, Any], field: str
) -> None:
    for fetcher in (make(), NewsFetcher(first=make(), second=make())):
        with pytest.raises(InvalidInput) as caught:
            await ids(fetcher, query, **options)
        assert caught.value.field == field


async def test_what_arxiv_cannot_do() -> None:
    with pytest.raises(InvalidInput, match="split the window"):
        await ids(ArxivFetcher(), limit=30_001)
    with pytest.raises(InvalidInput, match="no word to search for"):
        await ids(ArxivFetcher(), "()")


@every
async def test_a_fetch_may_be_given_up(make: Make, body: str, recwarn: pytest.WarningsRecorder) -> None:
    gc.collect()
    gc.freeze()  # the second look is at what is left behind here
    recwarn.clear()  # of what other tests have left behind
    async with recorded(body) as server:
        fetcher = make(base_url=server.url, http=QUICK)
        async with aclosing(fetcher.fetch("x")) as documents:
            await anext(documents)
        async for _ in fetcher.fetch("x"):
            break
        await asyncio.sleep(0.05)
    gc.collect()
    assert not [warning for warning in recwarn if issubclass(warning.category, ResourceWarning)]
