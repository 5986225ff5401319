"""Searches of the web that are configuration: each provider's request and reply as its documentation has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded import recorded
from trailforge.retrieval.scope import RetrievalConfig, open_web
from trailforge.retrieval.web.http import HttpConfig
from trailforge.retrieval.web.search_api import open_api
from trailforge.retrieval.web.tools import pages_tool
from trailforge.schemas import InvalidInput, Passage

KEY = "s3cret"
QUICK = HttpConfig(interval_s=0.0, backoff_s=0.01, timeout_s=5.0, max_attempts=2)
FOUND = [Passage(id="https://a.example/1", title="Tide mill", text="2024-06-10: It won.", score=1.0)]

# Replies in the shape of the providers' documentation, with made-up pages.
REPLIES: dict[str, dict[str, Any]] = {
    "tavily": {
        "query": "q",
        "results": [
            {"title": "Tide mill", "url": "https://a.example/1", "content": "It won.", "published_date": "2024-06-10"}
        ],
    },
    "serper": {
        "searchParameters": {"q": "q", "type": "search"},
        "organic": [
            {"title": "Tide mill", "link": "https://a.example/1", "snippet": "It won.", "date": "2024-06-10"},
            {"title": "No text", "link": "https://a.example/2", "position": 2},
        ],
    },
    "zhipu": {
        "id": "1",
        "created": 1,
        "search_intent": [{"query": "q", "intent": "SEARCH_NONE", "keywords": ""}],
        "search_result": [
            {
                "title": "Tide mill",
                "link": "https://a.example/1",
                "content": "It won.",
                "media": "A",
                "publish_date": "2024-06-10",
            }
        ],
    },
    "searxng": {
        "query": "q",
        "number_of_results": 1,
        "results": [
            {"url": "https://a.example/1", "title": "Tide mill", "content": "It won.", "publishedDate": "2024-06-10"}
        ],
    },
}
ASKED: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "tavily": ({"query": "tide mill", "max_results": 3}, {"Authorization": f"Bearer {KEY}"}),
    "serper": ({"q": "tide mill", "num": 3}, {"X-API-KEY": KEY}),
    "zhipu": (
        {"search_engine": "search_std", "search_intent": False, "search_query": "tide mill", "count": 3},
        {"Authorization": f"Bearer {KEY}"},
    ),
    "searxng": ({"format": "json", "q": "tide mill"}, {}),
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("SERPER_API_KEY", "ZHIPU_API_KEY", "TAVILY_API_KEY"):
        monkeypatch.setenv(name, KEY)


@pytest.mark.parametrize("provider", REPLIES)
async def test_each_provider_is_asked_and_read_as_it_documents(provider: str) -> None:
    async with recorded(json.dumps(REPLIES[provider])) as server:
        tool = pages_tool(provider=provider, base_url=server.url, http=QUICK)
        assert await tool.retrieve("tide mill", 3) == FOUND
        asked, headers = ASKED[provider]
        assert server.asked == [asked]
        assert {name: server.headers[0].get(name) for name in headers} == headers
        assert KEY not in str(server.asked) and ("Authorization" in headers) == ("Authorization" in server.headers[0])


def test_a_query_loses_the_words_that_a_provider_would_refuse() -> None:
    assert open_api("zhipu").request("word " * 30, 99) == {
        "search_engine": "search_std",
        "search_intent": False,
        "search_query": " ".join(["word"] * 14),
        "count": 50,
    }
    assert len(open_api("tavily").request("w" * 500, 1)["query"]) == 400


async def test_a_file_of_ones_own_needs_no_code(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("url: ''\nquery: words\nresults: data.pages\ntitle: name\naddress: href\ntext: about\n")
    reply = {"data": {"pages": [{"name": "Tide mill", "href": "https://a.example/1", "about": "2024-06-10: It won."}]}}
    async with recorded(json.dumps(reply)) as server:
        config = RetrievalConfig(kind="web", web_provider=str(mine), web_url=server.url, web_interval_s=0.01)
        assert await open_web(config).retrieve("tide mill", 3) == FOUND
        assert server.asked == [{"words": "tide mill"}]


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("url: https://a.example/s\nquery: q\n", "results"),
        ("url: https://a.example\nquery: q\nresults: r\ntitle: t\naddress: u\ntext: c\n", "web_url"),
        ("url: ''\nquery: q\nresults: r\ntitle: t\naddress: u\ntext: c\nkey_form: Bearer\n", "key_form"),
        ("url: ''\nquery: q\nresults: r\ntitle: t\naddress: u\ntext: c\n", "web_url"),
        ("url: ''\nquery: q\nresults: r\ntitle: t\naddress: u\ntext: c\nheader: x\n", "header"),
        ("- a\n", None),
        ("a: [\n", None),
    ],
)
def test_a_broken_file_is_refused_in_one_line(tmp_path: Path, content: str, field: str | None) -> None:
    (tmp_path / "mine.yaml").write_text(content)
    with pytest.raises(InvalidInput) as error:
        open_api(str(tmp_path / "mine.yaml"))
    assert error.value.field == field and "\n" not in str(error.value)


def test_unknown_providers_and_missing_keys_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="there are tavily, serper, zhipu, searxng, or a"):
        open_api("bing")
    with pytest.raises(InvalidInput, match="searxng has no address of its own"):
        open_api("searxng")
    monkeypatch.delenv("ZHIPU_API_KEY")
    with pytest.raises(InvalidInput, match=r"^Zhipu wants a key: set the environment variable ZHIPU_API_KEY$"):
        pages_tool(provider="zhipu")
