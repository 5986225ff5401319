"""Targets of search over HTTP: what anybody sends to the server, and what a server answers to the client."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fuzz.target import Target, text_of
from tests.retrieval.support import DOCUMENTS
from trailforge.inference.provider.urls import check_server_url, find_key, find_key_in_text, without_keys
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.pages.text import OpenedPage
from trailforge.retrieval.service.wire import MOST_K, Asked, Callers, detailed_rows, encode_json, plain_rows, read_rows
from trailforge.schemas import InvalidInput, parse_json

_JSON = (b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"1", b"-1", b"1e999", b"true", b'"\\ud800"', b"\\")
_INDEX = Bm25Retriever(DOCUMENTS)


def _asked(case: bytes, _: Path) -> None:
    """What a request is read for; whatever may be asked can be searched and encoded."""
    asked = Asked(case)
    queries, k = asked.texts("queries", 50), asked.number("topk", 5, MOST_K)
    asked.flag("return_scores")
    asked.text("corpus", "")
    for query in queries[:3]:
        found = asyncio.run(_INDEX.find(query, k))
        parse_json(encode_json(plain_rows(found, True)))
        assert read_rows(parse_json(encode_json(detailed_rows(found)))) == found


def _answered(case: bytes, _: Path) -> None:
    rows = parse_json(case)
    if isinstance(rows, list):
        encode_json(detailed_rows(read_rows(rows)))


def _page(case: bytes, _: Path) -> None:
    """All parts together are the page, and what is found stands there."""
    words, mark, text = text_of(case).partition("|")
    page = OpenedPage("1", "", text, 3)
    parts = [page.part(number + 1).text for number in range(min(page.parts, 200))]
    assert page.parts > 200 or " ".join(parts).split() == text.split()
    found = page.find(words)
    assert mark or not found.count
    assert all(1 <= spot.part <= page.parts for spot in found.matches)


def _headers(case: bytes, _: Path) -> None:
    """Whatever a browser sends as Host and Origin; what the server answers fits into JSON."""
    host, mark, origin = text_of(case).partition("|")
    for callers in (Callers("127.0.0.1"), Callers("0.0.0.0", ["a.example"]), Callers(host, [origin])):
        encode_json(callers.problem_of([host], [origin] if mark else []))


def _server_url(case: bytes, _: Path) -> None:
    """What is found to hold a key is refused without it, and passes when it is taken out."""
    url = text_of(case)
    plain = without_keys(url)
    find_key_in_text(url)
    if url.startswith(("http://", "https://")) and "," not in url and len(url) < 10_000:
        assert find_key(plain) is None and (plain == url or find_key(url) is not None)
    find_key(url[:20_000])
    try:
        check_server_url(url, "url")
    except InvalidInput as refused:
        assert "hunter22" not in str(refused)


TARGETS = (
    Target(
        name="callers",
        run=_headers,
        may_raise=(),
        samples=lambda: [b"localhost:8990|http://localhost:8990", b"[::1]:8990", b"evil.example|null"],
        tokens=(b"|", b":", b"[", b"]", b"@", b"//", b"http://", b"127.0.0.1", b"%", b".", "１２７".encode(), b"\xff"),
    ),
    Target(
        name="server_url",
        run=_server_url,
        may_raise=(),
        samples=lambda: [
            b"http://user:hunter22@host:8000/v1?api-version=1",
            b"https://host/v1?api_key=hunter22&a=b#m",
            b"http://a/v1,http://b/v1",
        ],
        tokens=(
            *(b"http://", b"//", b"@", b":", b"?", b"#", b"&", b";", b"=", b"/", b"[::1]", b"%40", b",", b" ", b"\xff"),
            *(b"key", b"api_key=", b"token=", b"sk-", b"hf_", b"hunter22", b"80", b"a"),
        ),
    ),
    Target(
        name="search_request",
        run=_asked,
        may_raise=(InvalidInput,),
        samples=lambda: [b'{"queries": ["capital of Austria", "\\ud83c"], "topk": 3, "return_scores": true}'],
        tokens=(*_JSON, b'"queries"', b'"topk"', b'"return_scores"', b'"corpus"', b'{"queries": ["'),
    ),
    Target(
        name="search_answer",
        run=_answered,
        may_raise=(ValueError,),
        samples=lambda: [
            b'[{"document": {"id": "1", "contents": "\\"a\\"\\nb"}, "score": 1.5}, {"id": 2, "contents": "c"}]',
            b'[{"document": {"id": "1", "title": "a", "text": "b"}, "score": 1, "why": "c", "sources": ["1"]}]',
        ],
        tokens=(*_JSON, b'"document"', b'"contents"', b'"score"', b'"sources"', b'[{"id":'),
    ),
    Target(
        name="opened_page",
        run=_page,
        may_raise=(),
        samples=lambda: [b"the mill|The tide mill. The MILL\nstood.", b".*|a.*b"],
        tokens=(b"|", b" ", b"\n", b"a", b"the ", b"(", b"[", b"*", b"\\", b"\xc2\xa0", b"\xff", "İ".encode()),
        aimed=lambda: [b" ".join([b"a"] * 50) + b"b|" + b"a " * 5000, b"a|" + b" " * 10_000],
    ),
)
