"""RSS and Atom files: what is read of them, HTML as text, and XML that is broken or means harm."""

from __future__ import annotations

import gzip
from html import escape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trailforge.pipelines.sources import InvalidRow
from trailforge.pipelines.sources.documents import read_documents
from trailforge.retrieval.web import feeds
from trailforge.retrieval.web.html_text import html_to_text
from trailforge.retrieval.web.http import canonical_url, site_of
from trailforge.schemas import InvalidInput, SourceDocument

RSS = """<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:cc="http://backend.userland.com/creativeCommonsRssModule" xmlns:atom="http://www.w3.org/2005/Atom">
 <channel>
  <title>City News</title>
  <atom:link href="https://feeds.city.example/all.xml" rel="self"/>
  <link>https://www.city.example/</link>
  <description>News</description>
  <language>en-gb</language>
  <cc:license>https://creativecommons.org/licenses/by/4.0/</cc:license>
  <item>
   <title>Bridge &amp;amp; tunnel</title>
   <link>https://www.city.example/1?utm_source=rss</link>
   <guid isPermaLink="false">city-1</guid>
   <pubDate>Wed, 02 Oct 2002 23:30:00 -0500</pubDate>
   <dc:creator>Ann A.</dc:creator>
   <dc:creator>Bo B.</dc:creator>
   <description>Short.</description>
   <content:encoded><![CDATA[<p>The bridge &amp; the <b>tunnel</b>.</p>
    <script>x()</script><p>Open.</p>]]></content:encoded>
  </item>
  <item>
   <guid>https://www.city.example/2</guid>
   <description>&lt;p&gt;No title.&lt;/p&gt;</description>
   <author>desk@city.example (Cy C.)</author>
  </item>
  <item><title>Nothing said</title><link>https://www.city.example/3</link></item>
  <item><title>Bad day</title><guid>4</guid><description>x</description><pubDate>someday</pubDate></item>
 </channel>
</rss>
"""
ATOM = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="de">
 <id>urn:feed</id><title>Blatt</title><updated>2024-01-02T00:00:00Z</updated>
 <link rel="self" href="https://cdn.example/feed"/><link href="https://blatt.example/"/>
 <author><name>Redaktion</name></author>
 <entry>
  <id>tag:blatt.example,2024:1</id>
  <title type="html">Wind &amp;lt;stark&amp;gt;</title>
  <link rel="license" href="https://creativecommons.org/publicdomain/zero/1.0/"/>
  <link href="https://blatt.example/1"/>
  <updated>2024-01-02T03:04:05+01:00</updated>
  <author><name>Dora
   D.</name></author>
  <content type="xhtml" xml:lang="en"><div xmlns="http://www.w3.org/1999/xhtml">
   <p>One <em>two</em>.</p><p>3 &lt; 4</p></div></content>
 </entry>
 <entry>
  <id>tag:blatt.example,2024:2</id>
  <title>Kurz</title>
  <published>2023-12-31T00:00:00Z</published><updated>2024-01-02T00:00:00Z</updated>
  <content src="https://blatt.example/2.mp3" type="audio/mpeg"/>
  <summary>a &lt; b &amp; c</summary>
 </entry>
</feed>
"""
ARXIV = """<feed xmlns="http://www.w3.org/2005/Atom">
 <id>http://arxiv.org/api/abc</id><title>arXiv Query</title>
 <link href="https://arxiv.org/api/query?x" type="application/atom+xml"/>
 <entry><id>http://arxiv.org/abs/2504.00016v2</id><title>Deep
   things</title><summary>  We go
 deep.</summary><published>2025-03-31T10:00:00Z</published><author><name>Ann A.</name></author></entry>
 <entry><id>http://arxiv.org/abs/hep-th/9901001v1</id><title>Old</title><summary>x</summary></entry>
</feed>"""
BOMB = """<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>
<rss version="2.0"><channel><item><title>&c;</title></item></channel></rss>"""
OTHER_FILE = """<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/hostname">]>
<rss version="2.0"><channel><item><title>&x;</title></item></channel></rss>"""


def read(folder: Path, content: str | bytes, **options: Any) -> list[SourceDocument | InvalidRow]:
    path = folder / "some.feed.xml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_documents([path], **options))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_rss(tmp_path: Path, pack: Any) -> None:
    first, second, empty, undated = read(tmp_path, pack(RSS.encode()), kind="news")
    assert first == SourceDocument(
        id="city.example:city-1",
        source="city.example",
        kind="news",
        title="Bridge & tunnel",
        text="The bridge & the tunnel.\n\nOpen.",
        url="https://www.city.example/1?utm_source=rss",
        published="2002-10-02",
        language="en",
        authors=("Ann A.", "Bo B."),
        licence="https://creativecommons.org/licenses/by/4.0/",
    )
    assert isinstance(second, SourceDocument)
    assert (second.title, second.text, second.url) == ("", "No title.", "https://www.city.example/2")
    assert (second.authors, second.published) == (("Cy C.",), None)
    assert isinstance(empty, InvalidRow) and isinstance(undated, InvalidRow)
    assert (empty.row, empty.field, empty.problem) == (3, "text", "empty")
    assert "Nothing said" in empty.payload
    assert (undated.row, undated.field) == (4, "published")
    assert undated.problem == "expected a date as 2024-05-31, found 'someday'"


def test_atom(tmp_path: Path) -> None:
    first, second = read(tmp_path, ATOM)
    assert first == SourceDocument(
        id="blatt.example:tag:blatt.example,2024:1",
        source="blatt.example",
        kind="news",
        title="Wind <stark>",
        text="One two.\n\n3 < 4",
        url="https://blatt.example/1",
        published="2024-01-02",
        language="en",
        authors=("Dora D.",),
        licence="https://creativecommons.org/publicdomain/zero/1.0/",
    )
    assert isinstance(second, SourceDocument)
    assert (second.text, second.published, second.language) == ("a < b & c", "2023-12-31", "de")
    assert (second.authors, second.licence, second.url) == (("Redaktion",), "", "")


def test_feeds_of_arxiv_give_the_papers_of_its_listings(tmp_path: Path) -> None:
    first, second = read(tmp_path, ARXIV)
    assert first == SourceDocument(
        id="arxiv:2504.00016",
        source="arxiv",
        kind="academic",
        title="Deep things",
        text="We go deep.",
        url="https://arxiv.org/abs/2504.00016",
        published="2025-03-31",
        language="en",
        authors=("Ann A.",),
        licence="CC0-1.0",
    )
    assert isinstance(second, SourceDocument) and second.id == "arxiv:hep-th/9901001"


def test_a_column_map_is_not_for_feeds(tmp_path: Path) -> None:
    assert read(tmp_path, ATOM, column_map={"title": "headline"}) == read(tmp_path, ATOM)


def test_a_feed_without_a_site_is_called_after_its_file(tmp_path: Path) -> None:
    (only,) = read(tmp_path, "\n<rss><channel><item><guid>1</guid><description>x</description></item></channel></rss>")
    assert isinstance(only, SourceDocument) and only.id == "some:1"


def test_other_encodings(tmp_path: Path) -> None:
    content = RSS.replace("UTF-8", "ISO-8859-1").replace("Open.", "Café.").encode("latin-1")
    (first, *_) = read(tmp_path, content)
    assert isinstance(first, SourceDocument) and first.text.endswith("Café.")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (BOMB, "holds a document type declaration"),
        (OTHER_FILE, "holds a document type declaration"),
        ("<!DOCTYPE html><html><body>Hi</body></html>", "holds a document type declaration"),
        ("<html><body>Hi</body></html>", "neither RSS 2.0 nor Atom: the outermost element is 'html'"),
        ("<rss><channel><item><title>&nbsp;</title></item></channel></rss>", "broken XML at line 1 (undefined entity)"),
        (RSS[:-20], "row 5: broken XML at line"),
        (RSS[:910], "row 1: broken XML at line"),
        ("<rss><channel></rss>", "broken XML at line 1 (mismatched tag)"),
        ("<rss>" * 100_000, "XML nested deeper than 200 elements"),
        ("<", "broken XML at line 1"),
        (RSS.replace("UTF-8", "UTT-8"), "XML in an encoding that cannot be read (unknown encoding: UTT-8)"),
        (RSS.replace("UTF-8", "gb18030"), "XML in an encoding that cannot be read (multi-byte encodings"),
        (gzip.compress(RSS.encode() * 9)[:-100], "the gzip file is cut short"),
        (RSS.replace("Open.", "\udcff").encode("utf-8", "surrogateescape"), "broken XML at line"),
    ],
)
def test_what_is_no_sound_feed_is_refused(tmp_path: Path, content: str | bytes, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path, content)
    assert caught.value.file == tmp_path / "some.feed.xml"
    assert problem in str(caught.value)


def test_entries_come_while_the_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of a piece, and what comes before a fault is kept."""
    whole = read(tmp_path, RSS)
    for chunk in (1, 7, 100):
        monkeypatch.setattr(feeds, "_CHUNK", chunk)
        assert read(tmp_path, RSS) == whole
    path = tmp_path / "cut.xml"
    path.write_text(RSS[:-20])
    rows = read_documents([path])
    assert isinstance(next(rows), SourceDocument)


@settings(max_examples=60)
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["C"], exclude_characters="\x7f")), min_size=1, max_size=4)
)
def test_any_text_comes_through_a_feed(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    items = "".join(
        f"<item><guid>{n}</guid><description>{escape(escape(t))}</description></item>" for n, t in enumerate(texts)
    )
    rows = read(tmp_path_factory.getbasetemp(), f"<rss><channel>{items}</channel></rss>")
    found = [row.text if isinstance(row, SourceDocument) else "" for row in rows]
    assert [text.split() for text in found] == [text.split() for text in texts]


# HTML


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("plain", "plain"),
        ("a &lt; b &amp; c&nbsp;d &#8211; e", "a < b & c d – e"),
        ("<p>One</p>\n\n<p>Two</p>", "One\n\nTwo"),
        ("<div><div><p>One</p></div></div><div>Two</div>", "One\n\nTwo"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<ul><li>a <b>b</b></li><li>c</li></ul>d", "a b\nc\n\nd"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
        ("<style>p {}</style><script>if (a < b) x('<p>')</script><!-- c -->t", "t"),
        ("wo<b>r</b>d", "word"),
        ("a < b", "a < b"),
        ("<p>never closed <a href='x'>link", "never closed link"),
        ("</p></div>x", "x"),
        ("<svg><text>hidden</text></svg>seen", "seen"),
        ("", ""),
        ("a <!-- b --> c <!-- never closed <p>d", "a c"),
        ("a<script>b</scrip>c</SCRIPT >d<script>never closed", "ad"),
        ("<p title='a > b' data-x=\"'\">c</p>", "c"),
        ("a<!doctype html>b<?php c?>d</ >e</>f", "abdef"),
        ("&#" + "1" * 5000 + ";&amp;", "&#" + "1" * 5000 + ";&"),
        ("<svg/>seen", "seen"),
    ],
)
def test_html_to_text(html: str, text: str) -> None:
    assert html_to_text(html) == text


@given(st.text(alphabet="<>/abp &;!-\"'= \n#x1", max_size=60))
def test_any_html_gives_text(html: str) -> None:
    text = html_to_text(html)
    assert text == text.strip() and "\n\n\n" not in text


# Addresses


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("https://www.bbc.co.uk/news/1", "bbc.co.uk"),
        ("http://RSS.arxiv.org/rss/cs.AI", "arxiv.org"),
        ("https://news.example:8080/", "news.example"),
        ("urn:uuid:1", ""),
        ("https://[broken", ""),
        ("", ""),
    ],
)
def test_site_of(url: str, site: str) -> None:
    assert site_of(url) == site


def test_canonical_urls_tell_pages_apart_and_not_their_visitors() -> None:
    page = canonical_url("https://a.example/x?id=1")
    assert canonical_url("http://A.example/x/?utm_source=rss&id=1&fbclid=2#top") == page
    assert canonical_url("https://a.example/x?id=2") != page
    assert canonical_url("https://a.example/X?id=1") != page
    assert canonical_url(" urn:1 ") == "urn:1"


@given(st.text(alphabet="https:/.wa?=&#[]%é ", max_size=40))
def test_a_canonical_url_is_its_own(url: str) -> None:
    assert canonical_url(canonical_url(url)) == canonical_url(url)
