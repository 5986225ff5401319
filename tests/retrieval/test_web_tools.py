"""Search tools of the web against recorded replies in the providers' formats."""

from __future__ import annotations

import asyncio
import json
from html import escape
from typing import Any

import pytest

from tests.support.recorded import Answer, recorded
from trailforge.protocols import nl_dag
from trailforge.retrieval.web.http import HttpConfig
from trailforge.retrieval.web.providers import gnews_query
from trailforge.retrieval.web.tools import arxiv_tool, news_tool, pages_tool, serper_tools
from trailforge.schemas import InvalidInput, Passage, PlanNode, ProviderError, RetrievalError, ServerUnavailable

KEY = "s3cret/key"
QUICK = HttpConfig(interval_s=0.0, backoff_s=0.01, timeout_s=5.0, max_attempts=2)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key, and no proxy before loopback."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("SERPER_API_KEY", KEY)
    monkeypatch.setenv("GNEWS_API_KEY", KEY)
    monkeypatch.setenv("TAVILY_API_KEY", KEY)


def hit(number: int, **changes: Any) -> dict[str, Any]:
    return {"title": f"Page {number}", "link": f"https://a.example/{number}", "snippet": f"It says {number}."} | changes


def papers(*titles: str, published: str = "") -> str:
    dated = f"<published>{published}</published>" if published else ""
    entries = "".join(
        f"<entry><id>http://arxiv.org/abs/2504.0000{n}v1</id><title>{escape(title)}</title>"
        f"<summary>On {escape(title)},\n at length.</summary>{dated}</entry>"
        for n, title in enumerate(titles, 1)
    )
    return f"""<feed xmlns="http://www.w3.org/2005/Atom"><opensearch:totalResults
      xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">{len(titles)}</opensearch:totalResults>{entries}</feed>"""


async def test_google_news_and_google() -> None:
    found = [hit(1, date="Aug 22, 2024"), hit(2, snippet=""), hit(3, link=None), hit(4, title="  Page\n4 "), hit(5)]
    async with recorded(json.dumps({"news": found}), json.dumps({"organic": found, "news": []})) as server:
        news, general = serper_tools(news_url=server.url, search_url=server.url, http=QUICK)
        first = await news.retrieve(" tide  mill ", 2)
        assert first == [
            Passage(id="https://a.example/1", title="Page 1", text="Aug 22, 2024: It says 1.", score=1.0),
            Passage(id="https://a.example/4", title="Page 4", text="It says 4.", score=0.5),
        ]
        assert [passage.title for passage in await general.retrieve("tide mill", 3)] == ["Page 1", "Page 4", "Page 5"]
        assert server.asked == [{"q": "tide mill", "hl": "en", "num": k} for k in (2, 3)]
        assert all(headers["X-API-KEY"] == KEY for headers in server.headers)


def article(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "title": f"News {number}",
        "description": f"In short, {number}.",
        "content": f"It begins with {number}. Then it... [1419 chars]",
        "url": f"https://www.paper.example/{number}",
        "image": "https://www.paper.example/i.jpg",
        "publishedAt": "2024-06-10T08:14:24Z",
        "source": {"name": "Paper", "url": "https://www.paper.example"},
    } | changes


def gnews(*articles: dict[str, Any]) -> str:
    return json.dumps({"totalArticles": len(articles), "articles": articles})


class Second:
    """Stands behind GNews, and keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        self.asked.append((query, k))
        urls = ("http://paper.example/1/", "https://b.example/2")
        return [Passage(id=url, title="Google's", text="From Google.", score=1.0) for url in urls][:k]


async def test_gnews_is_asked_first_and_alone_where_it_has_enough() -> None:
    articles = [article(1), article(2, content=None), article(3, content="", description=None), article(4, title=5)]
    second = Second()
    async with recorded(gnews(*articles)) as server:
        tool = news_tool(second, base_url=server.url, http=QUICK)
        assert await tool.retrieve("What is the price of coke (first-grade)?", 2) == [
            Passage(
                id="https://www.paper.example/1",
                title="News 1",
                text="2024-06-10: It begins with 1. Then it…",
                score=1.0,
            ),
            Passage(id="https://www.paper.example/2", title="News 2", text="2024-06-10: In short, 2.", score=0.5),
        ]
        asked = {"q": 'price coke "first-grade"', "lang": "en", "max": "2", "sortby": "relevance", "apikey": KEY}
        assert server.asked == [asked] and second.asked == []


async def test_google_news_fills_up_what_gnews_has_not() -> None:
    second = Second()
    async with recorded(gnews(article(1)), gnews()) as server:
        tool = news_tool(second, base_url=server.url, http=QUICK)
        found = await tool.retrieve("coke price", 2)
        assert [(passage.id, passage.score) for passage in found] == [
            ("https://www.paper.example/1", 1.0),
            ("https://b.example/2", 0.5),
        ]
        assert len(await tool.retrieve("coke", 2)) == 2 and len(await tool.retrieve("is of the", 1)) == 1
        assert second.asked == [("coke price", 2), ("coke", 2), ("is of the", 1)] and len(server.asked) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=403, body='{"errors": ["You have reached your request limit for today"]}'),
        Answer(status=400, body='{"errors": {"q": "syntax"}}'),
        Answer(status=503),
        Answer(body='{"articles": 3}'),
    ],
)
async def test_google_news_stands_in_where_gnews_fails(answer: Answer, caplog: pytest.LogCaptureFixture) -> None:
    async with recorded(answer) as server:
        found = await news_tool(Second(), base_url=server.url, http=QUICK).retrieve("coke", 2)
    assert [passage.title for passage in found] == ["Google's", "Google's"]
    assert "GNews: " in caplog.text and "Google News is asked instead" in caplog.text and KEY not in caplog.text


def test_queries_of_gnews_are_words_that_count() -> None:
    assert (
        gnews_query("Price of coke (first-grade) NOT in 2024-10-01, AND why?")
        == 'Price coke "first-grade" "2024-10-01"'
    )
    assert gnews_query("of the") == ""
    assert len(gnews_query("word " * 99)) <= 200 and gnews_query("w" * 201) == ""


async def test_long_passages_end_where_a_sentence_does() -> None:
    text = "One two three. Four five six. Seven eight nine."
    body = json.dumps({"news": [hit(1, snippet=text)], "organic": [hit(1, snippet=text), hit(2, snippet="short one.")]})
    async with recorded(body, body, papers("Tides")) as server:
        news, general = serper_tools(news_url=server.url, search_url=server.url, http=QUICK, longest=7)
        assert [passage.text for passage in await news.retrieve("x", 2)] == ["One two three. Four five six. …"]
        assert [passage.text for passage in await general.retrieve("x", 2)][1] == "short one."
        arxiv = arxiv_tool(base_url=server.url, http=QUICK, longest=2)
        assert [passage.text for passage in await arxiv.retrieve("x", 2)] == ["On Tides, …"]


async def test_arxiv_by_relevance() -> None:
    async with recorded(papers("Blades & water", "Tides", "Mills")) as server:
        tool = arxiv_tool(base_url=server.url, http=QUICK)
        assert await tool.retrieve('blades: "slow" water', 2) == [
            Passage(
                id="http://arxiv.org/abs/2504.00001v1",
                title="Blades & water",
                text="On Blades & water, at length.",
                score=1.0,
            ),
            Passage(id="http://arxiv.org/abs/2504.00002v1", title="Tides", text="On Tides, at length.", score=0.5),
        ]
        asked = {"search_query": "all:blades OR all:slow OR all:water", "sortBy": "relevance"}
        assert asked.items() <= server.asked[0].items()
        assert await tool.retrieve("()", 2) == await tool.retrieve(" ", 2) == await tool.retrieve("blades", 0) == []
        assert len(server.asked) == 1


async def test_a_paper_stands_behind_the_day_on_which_it_was_published() -> None:
    async with recorded(papers("Tides", published="2025-04-22T17:57:34Z")) as server:
        (found,) = await arxiv_tool(base_url=server.url, http=QUICK).retrieve("tides", 1)
    assert found.text == "2025-04-22: On Tides, at length."


async def test_a_search_is_paid_once_and_tools_share_their_pace() -> None:
    body = json.dumps({"news": [hit(1)], "organic": [hit(2)]})
    async with recorded(body) as server:
        config = HttpConfig(interval_s=0.4)
        news, general = serper_tools(news_url=server.url, search_url=server.url, http=config)
        began = asyncio.get_running_loop().time()
        await asyncio.gather(news.retrieve("x", 1), general.retrieve("x", 1), news.retrieve("x", 1))
        assert server.times[1] - began >= 0.4
        found = await news.retrieve("x", 1)
        found.clear()
        assert len(await news.retrieve(" x", 1)) == 1
        assert len(server.asked) == 2


async def test_without_a_key_no_tool_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERPER_API_KEY", " ")
    with pytest.raises(InvalidInput, match=r"^Serper wants a key: set the environment variable SERPER_API_KEY$"):
        serper_tools()


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (Answer(status=400, body='{"message": "Query not allowed"}'), RetrievalError, "Query not allowed"),
        (Answer(status=403, body=json.dumps({"message": f"bad {KEY}"})), ProviderError, "check the key in SERPER"),
        (Answer(status=500), ServerUnavailable, "after 2 attempts"),
        (Answer(body='{"news": 3}'), ServerUnavailable, "cannot be read"),
    ],
)
async def test_a_refused_query_is_its_own_fault_and_the_rest_stops_the_run(
    answer: Answer, error: type[Exception], says: str
) -> None:
    plan = nl_dag.SearchPlan(nodes=(PlanNode(node_id="A", query="x", tool="News"),), edges=())
    async with recorded(answer) as server:
        news, _ = serper_tools(news_url=server.url, http=QUICK)
        with pytest.raises(error, match=says) as caught:
            await news.retrieve("x", 1)
        assert KEY not in str(caught.value) and "\n" not in str(caught.value)
        if error is RetrievalError:
            assert [each.status for each in await nl_dag.execute(plan, {"News": news})] == ["failed"]
        else:
            with pytest.raises(error):
                await nl_dag.execute(plan, {"News": news})


def page(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "title": f"Page {number}",
        "url": f"https://www.a.example/{number}",
        "content": f"It says {number}.",
        "score": 0.9,
        "raw_content": None,
    } | changes


def pages(*results: dict[str, Any]) -> str:
    return json.dumps(
        {
            "query": "as asked",
            "follow_up_questions": None,
            "answer": None,
            "images": [],
            "results": list(results),
            "response_time": 0.94,
            "request_id": "8f4b",
        }
    )


async def test_pages_by_tavily() -> None:
    dated = page(2, title=None, published_date="Mon, 10 Jun 2024 08:14:24 GMT", content=" It says\n2. ")
    found = [page(1), page(7, content=""), page(8, url=None), dated, page(3)]
    async with recorded(pages(*found)) as server:
        tool = pages_tool(base_url=server.url, http=QUICK)
        assert await tool.retrieve(" tide  mill ", 2) == [
            Passage(id="https://www.a.example/1", title="Page 1", text="It says 1.", score=1.0),
            Passage(
                id="https://www.a.example/2",
                title="a.example",
                text="Mon, 10 Jun 2024 08:14:24 GMT: It says 2.",
                score=0.5,
            ),
        ]
        assert server.asked == [{"query": "tide mill", "max_results": 2}]
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


async def test_tavily_is_asked_for_no_more_than_it_takes() -> None:
    async with recorded(pages()) as server:
        tool = pages_tool(base_url=server.url, http=QUICK)
        assert await tool.retrieve("word " * 99, 30) == await tool.retrieve("w" * 500, 1) == []
        assert server.asked == [
            {"query": " ".join(["word"] * 80), "max_results": 20},
            {"query": "w" * 400, "max_results": 1},
        ]


async def test_a_query_that_tavily_refuses_finds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with recorded(Answer(status=400, body='{"detail": {"error": "Query is not allowed."}}')) as server:
        assert await pages_tool(base_url=server.url, http=QUICK).retrieve("x", 2) == []
    assert "Query is not allowed.); this search finds nothing" in caplog.text


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (Answer(status=401, body='{"detail": {"error": "Invalid API key."}}'), ProviderError, "in TAVILY_API_KEY"),
        (Answer(status=432, body='{"detail": {"error": "Over the plan."}}'), ProviderError, "Over the plan.*its quota"),
        (Answer(status=404), ProviderError, "check the address"),
        (Answer(status=429), ServerUnavailable, "status 429 after 2 attempts"),
        (Answer(body='{"results": {}}'), ServerUnavailable, "cannot be read"),
    ],
)
async def test_what_no_other_query_would_mend_stops_the_run(answer: Answer, error: type[Exception], says: str) -> None:
    async with recorded(answer) as server:
        with pytest.raises(error, match=says) as caught:
            await pages_tool(base_url=server.url, http=QUICK).retrieve("x", 2)
    assert KEY not in str(caught.value)


def test_pages_want_a_key_and_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("api.mine.example/search", "https://api.mine.example"):
        with pytest.raises(InvalidInput, match=r"'web_url'.*as https://api.tavily.com/search is"):
            pages_tool(base_url=address)
    monkeypatch.delenv("TAVILY_API_KEY")
    with pytest.raises(InvalidInput, match=r"^Tavily wants a key: set the environment variable TAVILY_API_KEY$"):
        pages_tool()
