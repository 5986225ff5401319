"""Loopback and the metadata service in every spelling that a page's address may have: none of them is reached."""

from __future__ import annotations

import json
import socket
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import pytest
from aiohttp import web

from tests.support.recorded import Answer, recorded
from trailforge.pipelines.sources.fetchers import ArxivFetcher, DocumentFetcher, GNewsFetcher, SerperFetcher
from trailforge.retrieval.base import Retriever
from trailforge.retrieval.service import client
from trailforge.retrieval.service.server import SearchServer
from trailforge.retrieval.web.http import HttpConfig
from trailforge.retrieval.web.pages import PageReader, is_public
from trailforge.retrieval.web.tools import arxiv_tool, news_tool, pages_tool, serper_tools
from trailforge.schemas import ProviderError, RetrievalError

LOOPBACK = (
    "127.0.0.1 127.1 127.0.1 127.0.0.1. 127.255.255.254 0.0.0.0 0 localhost LOCALHOST localhost. ｌｏｃａｌｈｏｓｔ "
    "ⓛocalhost 2130706433 017700000001 0x7f000001 0X7F.1 0x7f.0x0.0x0.0x1 0177.0.0.01 0177.0x0.0.1 ０ｘ7f.1 "
    "１２７.0.0.1 １２７.０.０.１ 127。0。0。1 127．0．0．1 127｡0｡0｡1 127․0․0․1 ①②⑦.⓪.⓪.① ①②⑦。⓪。⓪。① １２７．１ "
    "𝟏𝟐𝟕.𝟎.𝟎.𝟏 𝟣𝟤𝟩.0.0.1 ¹²⁷.0.0.1 ₁₂₇.0.0.1 127\u200b.0.0.1 127.0.0\u00ad.1 ١٢٧.0.0.1 127\t.0.0.1 %31%32%37.0.0.1 "
    "127%2E0%2E0%2E1 127.0.0.1%00 user:word@127.0.0.1 93.184.215.14@127.0.0.1 a.example:80@127.0.0.1 "
    "127.0.0.1\\@a.example [::1] [0:0:0:0:0:0:0:1] [::] [::１] [::1%25lo] [::127.0.0.1] [::ffff:127.0.0.1] "
    "[::FFFF:7f00:1] [::ffff:①27.0.0.1] [::ffff:0.0.0.0] [::ffff:0:127.0.0.1] [64:ff9b::127.0.0.1] "
    "[64:ff9b:1::7f00:1] [2002:7f00:1::] [2001:0:7f00:1::] [fe80::5efe:127.0.0.1] [2001:4860::5efe:7f00:1] [fe80::1] "
    "[fec0::1] [fd00::1]"
).split(" ")
METADATA = (
    "169.254.169.254 169.254.43518 169.16689662 169.254.169.254. 2852039166 025177524776 0xa9fea9fe "
    "0xA9.0xFE.0xA9.0xFE 0251.0376.0251.0376 0251.254.0xa9.254 １６９.254.169.254 １６９．２５４．１６９．２５４ "
    "169。254。169。254 169｡254｡169｡254 169．254．169．254 ①⑥⑨.②⑤④.①⑥⑨.②⑤④ 𝟏𝟔𝟗.𝟐𝟓𝟒.𝟏𝟔𝟗.𝟐𝟓𝟒 ¹⁶⁹.254.169.254 "
    "₁₆₉.254.169.254 ２８５２０３９１６６ 169․254․169․254 %31%36%39.254.169.254 169%2E254%2E169%2E254 "
    "user@169.254.169.254 a.example:80@169.254.169.254 [::169.254.169.254] [::ffff:169.254.169.254] "
    "[::ffff:a9fe:a9fe] [::ffff:①69.254.169.254] [::ffff:0:169.254.169.254] [64:ff9b::169.254.169.254] "
    "[64:ff9b::a9fe:a9fe] [64:ff9b:1::169.254.169.254] [2002:a9fe:a9fe::] [2002:a9fe:a9fe::1] [fe80::a9fe:a9fe] "
    "[fe80::1%25lo] [fd00:ec2::254] [2001:4860::5efe:169.254.169.254] [2001:4860::200:5efe:169.254.169.254]"
).split(" ")
PUBLIC = "93.184.215.14"
"""Where the test lets a page stand that sends on."""
KEY = "k3y"
QUICK = HttpConfig(interval_s=0.0, backoff_s=0.01, timeout_s=5.0, max_attempts=1)


@dataclass
class Network:
    """Loopback, with a public address on it. Nothing else is connected to, and every attempt is kept."""

    port: int = 0
    """Of the server that must not be reached."""
    reached: int = 0
    """Requests that came there."""
    connected: list[IPv4Address | IPv6Address] = field(default_factory=list)
    """Where connections were tried, the public address aside."""
    redirect: str = ""
    """Where the public page sends on to."""

    def urls(self) -> list[str]:
        """Pages of the server under every spelling of loopback, and those of the metadata service."""
        return [
            *(f"http://{host}:{self.port}/page" for host in LOOPBACK),
            *(f"http://{host}/latest/meta-data/" for host in METADATA),
        ]


@pytest.fixture
async def network(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Network]:
    found = Network()

    async def page(request: web.Request) -> web.Response:
        found.reached += 1
        return web.Response(text="what stands inside")

    async def send_on(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": found.redirect})

    async with _listening(page) as inside, _listening(send_on) as outside:
        found.port, connect, look_up = inside, BaseSelectorEventLoop.sock_connect, socket.getaddrinfo

        async def sock_connect(self: BaseSelectorEventLoop, sock: socket.socket, address: Any) -> None:
            if address[0] == PUBLIC:
                return await connect(self, sock, ("127.0.0.1", outside))
            found.connected.append(ip_address(address[0].partition("%")[0]))
            if not found.connected[-1].is_loopback and str(found.connected[-1]) != "0.0.0.0":
                raise ConnectionRefusedError("outside of this test")
            return await connect(self, sock, address)

        def getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
            names = 0 if str(host).lower().rstrip(".") == "localhost" else socket.AI_NUMERICHOST
            return look_up(host, port, family, type, proto, flags | names)

        monkeypatch.setattr(BaseSelectorEventLoop, "sock_connect", sock_connect)
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.lower(), raising=False)
        for name in ("SERPER_API_KEY", "GNEWS_API_KEY", "TAVILY_API_KEY"):
            monkeypatch.setenv(name, KEY)
        yield found


@asynccontextmanager
async def _listening(handler: Callable[[web.Request], Any]) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = int(runner.addresses[0][1])
    if socket.has_ipv6:
        with suppress(OSError):  # no IPv6 here, or another's port
            await web.TCPSite(runner, "::1", port).start()
    try:
        yield port
    finally:
        await runner.cleanup()


async def test_no_spelling_is_reached(network: Network) -> None:
    assert len(LOOPBACK) + len(METADATA) == len({*LOOPBACK, *METADATA}) >= 100
    for url in network.urls():
        with pytest.raises(RetrievalError):
            await PageReader().text(url)
    assert network.reached == 0 and network.connected == []


async def test_no_spelling_is_reached_behind_a_redirect(network: Network) -> None:
    for url in network.urls():
        network.redirect = url
        with pytest.raises(RetrievalError):
            await PageReader().text(f"http://{PUBLIC}/")
    assert network.reached == 0 and network.connected == []


async def test_without_the_check_many_are(network: Network) -> None:
    """So the spellings are some, and the servers can be reached."""
    reader = PageReader(may_read=lambda address: True)
    for redirect in (False, True):
        network.reached, network.connected = 0, []
        for url in network.urls():
            network.redirect = url
            with suppress(RetrievalError):
                await reader.text(f"http://{PUBLIC}/" if redirect else url)
        assert network.reached >= 25
        assert network.connected.count(ip_address("169.254.169.254")) >= 14


async def test_pages_that_a_search_found_are_not_reached(network: Network) -> None:
    for redirect in (False, True):
        for url in network.urls()[::7]:
            network.redirect = url
            page = f"http://{PUBLIC}/" if redirect else url
            reply = json.dumps({"results": [{"title": "A page", "url": page, "content": "What the search says."}]})
            async with recorded(reply) as search:
                tool = pages_tool(base_url=search.url, http=QUICK, read_pages=1)
                network.connected.clear()
                found = await tool.retrieve("what stands inside", 1)
                assert [passage.text for passage in found] == ["What the search says."]
                assert len(network.connected) == 1  # the search itself
    assert network.reached == 0


async def test_pages_that_an_agent_opens_are_not_reached(network: Network) -> None:
    runner = web.AppRunner(SearchServer([], reader=PageReader()).application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        server = client.connect(f"http://127.0.0.1:{runner.addresses[0][1]}")
        for url in network.urls():
            with pytest.raises(RetrievalError):
                await server.open_page(url)
            network.redirect = url
            with pytest.raises(RetrievalError):
                await server.open_page(f"http://{PUBLIC}/")
    finally:
        await runner.cleanup()
    assert network.reached == 0 and {str(each) for each in network.connected} <= {"127.0.0.1"}


@pytest.mark.parametrize("fetcher", [ArxivFetcher, GNewsFetcher, SerperFetcher])
async def test_a_source_of_documents_follows_no_redirect(
    network: Network, fetcher: Callable[..., DocumentFetcher]
) -> None:
    for place in (f"http://127.0.0.1:{network.port}/", network.urls()[20]):
        async with recorded(Answer(status=302, headers={"Location": place})) as server:
            with pytest.raises(ProviderError, match="check the address"):
                _ = [each async for each in fetcher(base_url=server.url, http=QUICK).fetch("tide mill")]
    assert network.reached == 0


@pytest.mark.parametrize("tool", ["serper news", "serper", "gnews", "arxiv", "pages"])
async def test_a_search_tool_follows_no_redirect(network: Network, tool: str) -> None:
    for place in (f"http://127.0.0.1:{network.port}/", network.urls()[20]):
        async with recorded(Answer(status=307, headers={"Location": place})) as server:
            with pytest.raises(ProviderError, match="check the address"):
                await _tool(tool, server.url).retrieve("tide mill", 3)
    assert network.reached == 0


def _tool(name: str, url: str) -> Retriever:
    news, general = serper_tools(news_url=url, search_url=url, http=QUICK)
    tools: dict[str, Retriever] = {
        "serper news": news,
        "serper": general,
        "gnews": news_tool(news, base_url=url, http=QUICK),
        "arxiv": arxiv_tool(base_url=url, http=QUICK),
        "pages": pages_tool(base_url=url, http=QUICK),
    }
    return tools[name]


@pytest.mark.parametrize(
    "inner", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "100.64.0.1", "224.0.0.1"]
)
@pytest.mark.parametrize(
    "form", ["::{}", "::ffff:{}", "::ffff:0:{}", "64:ff9b::{}", "64:ff9b:1::{}", "2001:4860::5efe:{}"]
)
def test_an_address_within_another_counts(form: str, inner: str) -> None:
    assert not is_public(ip_address(form.format(inner)))
    assert is_public(ip_address(form.format(PUBLIC)))
