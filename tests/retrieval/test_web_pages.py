"""Pages that a search found, read from recorded replies on loopback, which is not public otherwise."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from tests.support.recorded import Answer, recorded
from trailforge.retrieval import RetrievalConfig, open_retrieval
from trailforge.retrieval.web.http import HttpConfig
from trailforge.retrieval.web.pages import PageReader, decode_page, is_public
from trailforge.retrieval.web.tools import pages_tool
from trailforge.schemas import InvalidInput, Passage

HTML = {"Content-Type": "text/html; charset=utf-8"}
MILL = "The tide mill at Carew ground corn until 1937."
FILLER = "Opening hours are posted at the gate every spring. "
PAGE = (
    f"<html><head><title>x</title></head><body><script>mill()</script><p>{FILLER * 40}</p><p>{MILL}</p></body></html>"
)


@pytest.fixture(autouse=True)
def _logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO):
        yield


def hit(url: str) -> Passage:
    return Passage(id=url, title="Carew", text="A mill.", score=1.0)


def anybody(address: object) -> bool:
    return True


async def read(*answers: Answer | str, url: str = "", longest: int = 20) -> Passage:
    async with recorded(*answers) as server:
        return await PageReader(longest, anybody).read(hit(url or server.url), "When did the tide mill stop?")


async def test_a_page_is_cut_to_what_fits_the_query() -> None:
    found = await read(Answer(body=PAGE, headers=HTML))
    assert MILL in found.text and len(found.text.split()) <= 20 and "<" not in found.text and "mill()" not in found.text
    assert found.title == "Carew" and found.id.startswith("http://127.0.0.1")
    assert MILL in (await read(Answer(body=MILL, headers={"Content-Type": "text/plain"}))).text


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(status=404, body=PAGE, headers=HTML), "status 404"),
        (Answer(body="{}", headers={"Content-Type": "application/pdf"}), "application/pdf is no page"),
        (Answer(status=302, headers={"Location": "ftp://a.example/x"}), "no address of a page"),
        (Answer(status=302, headers={"Location": "/api"}), "redirected too often"),
        (Answer(body="<p>Nothing about it.</p>", headers=HTML), ""),
        (Answer(body="", headers=HTML), ""),
        (Answer(body=f"<p>{'x' * (1 << 20)}</p><p>{MILL}</p>", headers=HTML), ""),
    ],
)
async def test_what_cannot_be_read_keeps_the_words_of_the_search(
    answer: Answer, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await read(answer)).text == "A mill."
    assert why in caplog.text


async def test_a_page_that_does_not_come_in_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trailforge.retrieval.web.pages._TIMEOUT_S", 0.1)
    assert (await read(Answer(body=PAGE, headers=HTML, delay_s=0.5))).text == "A mill."


@pytest.mark.parametrize(
    ("content", "charset", "text"),
    [
        ("Château".encode(), None, "Château"),
        ("Château".encode("latin-1"), "iso-8859-1", "Château"),
        ("<meta charset='iso-8859-1'>Château".encode("latin-1"), None, "Château"),
        ('<meta http-equiv="x" content="text/html; charset=iso-8859-1">Château'.encode("latin-1"), None, "Château"),
        ("<meta charset='iso-8859-1'>Château".encode(), "utf-8", "Château"),
        ("<meta charset='klingon'>Château".encode(), None, "Château"),
        ("Château".encode("latin-1"), None, "Château"),
    ],
)
def test_a_page_is_in_the_charset_that_is_named(content: bytes, charset: str | None, text: str) -> None:
    assert decode_page(content, charset).endswith(text)


async def test_redirects_are_followed_to_public_addresses_alone(caplog: pytest.LogCaptureFixture) -> None:
    def only_one(address: object) -> bool:
        return str(address) == "127.0.0.1"

    async with recorded(Answer(body=PAGE, headers=HTML)) as inner:
        elsewhere = inner.url.replace("127.0.0.1", "127.0.0.2")
        for place, is_read in ((inner.url, True), (elsewhere, False)):
            async with recorded(Answer(status=301, headers={"Location": place})) as outer:
                found = await PageReader(20, only_one).read(hit(outer.url), "tide mill")
            assert (MILL in found.text) == is_read
        assert len(inner.asked) == 1 and "127.0.0.2 is not public" in caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_this_machine_is_no_page(host: str, caplog: pytest.LogCaptureFixture) -> None:
    async with recorded(Answer(body=PAGE, headers=HTML)) as server:
        found = await PageReader(20).read(hit(server.url.replace("127.0.0.1", host)), "tide mill")
        assert found.text == "A mill." and server.asked == []
    assert "not public" in caplog.text


def test_what_is_public() -> None:
    private = "10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 ::1 fe80::1 fd00::1"
    assert not any(is_public(ip_address(each)) for each in [*private.split(), "::ffff:127.0.0.1", "::ffff:10.0.0.1"])
    assert all(is_public(ip_address(each)) for each in ("93.184.215.14", "2606:2800:220:1::1", "::ffff:93.184.215.14"))


async def test_as_many_pages_are_read_as_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "k")
    monkeypatch.setenv("no_proxy", "*")
    async with recorded(Answer(body=PAGE, headers=HTML)) as pages:
        results = [{"title": f"Page {n}", "url": f"{pages.url}?n={n}", "content": "A mill."} for n in range(3)]
        async with recorded(json.dumps({"results": results})) as search:
            tool = pages_tool(
                base_url=search.url, http=HttpConfig(interval_s=0.0), read_pages=2, reader=PageReader(20, anybody)
            )
            found = await tool.retrieve("tide mill", 3)
        assert [MILL in passage.text for passage in found] == [True, True, False]
        assert [passage.title for passage in found] == ["Page 0", "Page 1", "Page 2"] and len(pages.asked) == 2


async def test_a_slow_page_keeps_no_other_search_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "k")
    monkeypatch.setenv("no_proxy", "*")
    async with recorded(Answer(body=PAGE, headers=HTML, delay_s=0.2)) as pages:
        reply = json.dumps({"results": [{"title": "Page", "url": pages.url, "content": "A mill."}]})
        async with recorded(reply) as search:
            tool = pages_tool(
                base_url=search.url, http=HttpConfig(interval_s=0.0), read_pages=1, reader=PageReader(20, anybody)
            )
            await asyncio.gather(*(tool.retrieve(query, 1) for query in ("tide mill", "corn mill", "tide mill")))
    assert pages.most_busy == 2 and len(search.asked) == 2


def test_fewer_pages_than_none_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "k")
    with pytest.raises(InvalidInput, match="web_pages"):
        open_retrieval(RetrievalConfig(kind="web", web_pages=-1))
