"""RSS and Atom files: what is read of them, and XML that is broken or means harm."""

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
from trailforge.retrieval.web import encodings
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
    assert (empty.row, empty.field, empty.problem) == (3, "text", "is empty; a text is needed")
    assert "Nothing said" in empty.payload
    assert (undated.row, undated.field) == (4, "published")
    assert undated.problem.startswith("expected a date as 2024-05-31, found 'someday'; ")


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
        (BOMB, "holds a document type declaration that defines something"),
        (OTHER_FILE, "holds a document type declaration that defines something"),
        (OTHER_FILE.replace("DOCTYPE", "doctype"), "holds a document type declaration that defines something"),
        (f"<!-- {'-' * 9} --> <?a?>\n{OTHER_FILE}", "holds a document type declaration that defines something"),
        ('<!DOCTYPE r SYSTEM "a[>]" [<!ATTLIST a b CDATA "c">]><rss/>', "holds a document type declaration that"),
        ("<!DOCTYPE html><html><body>Hi</body></html>", "neither RSS nor Atom: the outermost element is 'html'"),
        ("<html><body>Hi</body></html>", "neither RSS nor Atom: the outermost element is 'html'"),
        ("<", "broken XML: no element begins"),
        (gzip.compress(RSS.encode() * 9)[:-100], "the gzip file is cut short"),
    ],
)
def test_what_is_no_feed_is_refused(tmp_path: Path, content: str | bytes, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path, content)
    assert caught.value.file == tmp_path / "some.feed.xml"
    assert problem in str(caught.value)


# Feeds as publishers write them


def in_rss(*items: str, encoding: str = "UTF-8", root: str = "<rss>") -> str:
    said = f'<?xml version="1.0" encoding="{encoding}"?>\n' if encoding else ""
    return f"{said}{root}<channel><link>https://a.example/</link>{''.join(items)}</channel></rss>"


def an_item(title: str, text: str = "x", more: str = "") -> str:
    return f"<item><title>{title}</title><description>{text}</description>{more}</item>"


def texts_of(folder: Path, content: str | bytes) -> list[str]:
    rows = read(folder, content)
    return [f"{row.title}|{row.text}" if isinstance(row, SourceDocument) else f"!{row.problem}" for row in rows]


@pytest.mark.parametrize(
    ("item", "read_as"),
    [
        (an_item("Nouvelles&nbsp;d&eacute;j&agrave;"), "Nouvelles déjà|x"),  # feedparser#121
        (an_item("The Clown&rsquo;s Joke"), "The Clown’s Joke|x"),  # brief#184
        (an_item("Read&shy;File"), "Read\xadFile|x"),  # feed-io#439
        (an_item("filters & fc-rDNS; Q&A"), "filters & fc-rDNS; Q&A|x"),  # miniflux#122
        (an_item("a", "https://b.example/?c=1&d=2&e"), "a|https://b.example/?c=1&d=2&e"),
        (an_item("tests &ndash; &mdash; &hellip; &LT; &nosuchname;"), "tests – — … < &nosuchname;|x"),  # kerodon#5
        (an_item("R&amp;D &#38; &#x26; &#150; &#8217;"), "R&D & & – ’|x"),
        (an_item("a\x0bb\x00\x1f &#11; &#xFFFF; &#xD800;c"), "ab c|x"),
        (an_item("a < b, 3 <4, <<"), "a < b, 3 <4, <<|x"),
        (an_item("x]]>y"), "x]]>y|x"),
        (an_item("<![CDATA[a & b &amp;amp; <i>c</i> &nbsp;]]>"), "a & b &amp; c|x"),
        (an_item("<![CDATA[</item><item>]]>", "<!-- </item> -->y"), "|y"),
        (an_item("a", "<p>One &eacute;</p><p>two <b>words</b></p>"), "a|One é\n\ntwo words"),
        (
            an_item("a", more="<media:thumbnail url='b'/><dc:creator>Al</dc:creator>"),
            "a|x",
        ),  # livemarks#277, pixelfed#1512
        (an_item("a", more="<itunes:author>B</itunes:author>"), "a|x"),  # feedparser#156
    ],
)
def test_slips_within_an_entry_are_mended(tmp_path: Path, item: str, read_as: str) -> None:
    assert texts_of(tmp_path, in_rss(item, an_item("next"))) == [read_as, "next|x"]


def test_prefixes_that_are_not_declared_mean_what_they_usually_do(tmp_path: Path) -> None:
    (first,) = read(tmp_path, in_rss(an_item("a", more="<dc:creator>Al</dc:creator><dc:date>2024-05-31</dc:date>")))
    assert isinstance(first, SourceDocument) and (first.authors, first.published) == (("Al",), "2024-05-31")


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (an_item("a", "b <br> c"), "broken XML in its line 1 (mismatched tag)"),  # mior#6
        (an_item("a", "<a href=b>c</a>"), "broken XML in its line 1 (not well-formed (invalid token))"),
        (an_item("a").removesuffix("</item>"), "broken XML: the next entry begins before this one ends"),
        (an_item("a", "<a>" * 201 + "</a>" * 201), "XML nested deeper than 200 elements"),
        (an_item("a", "\udce9t\udce9" + "日本" * 9), "holds bytes that are no text in the feed's encoding, utf-8"),
        (
            an_item("a", "<!DOCTYPE b [<!ENTITY c 'd'>]>&c;"),
            "broken XML in its line 1 (not well-formed (invalid token))",
        ),
    ],
)
def test_what_cannot_be_read_costs_its_entry(tmp_path: Path, broken: str, problem: str) -> None:
    content = in_rss(an_item("before"), broken, an_item("after"))
    assert texts_of(tmp_path, content.encode("utf-8", "surrogateescape")) == ["before|x", f"!{problem}", "after|x"]
    (row,) = [row for row in read(tmp_path, content.encode("utf-8", "surrogateescape")) if isinstance(row, InvalidRow)]
    assert row.row == 2 and row.payload.startswith("<item><title>a</title>") and row.payload.encode()


def test_an_address_keeps_its_parameters(tmp_path: Path) -> None:
    (only,) = read(tmp_path, in_rss(an_item("a", more="<link>https://b.example/?c=1&copy=2&amp;d=3</link>")))
    assert isinstance(only, SourceDocument) and only.url == "https://b.example/?c=1&copy=2&d=3"


def test_of_a_feed_that_is_cut_short_the_whole_entries_are_read(tmp_path: Path) -> None:
    *_, last = texts_of(tmp_path, RSS[: RSS.index("</channel>")])
    assert last == "!the file is cut short: it ends before its last tag"
    first, last = texts_of(tmp_path, in_rss(an_item("a"), an_item("b"))[: -len("ption></item></channel></rss>")])
    assert (first, last) == ("a|x", "!the file is cut short: it ends inside this entry")


SAYINGS = {
    "ja": ("東京の橋が開通しました。", ("shift_jis", "cp932", "euc-jp", "iso-2022-jp", "utf-16")),
    "ko": ("서울의 다리가 열렸다", ("euc-kr", "cp949")),
    "zh": ("北京的新桥今天开放了", ("gb2312", "gbk", "gb18030", "utf-16le")),
    "tw": ("臺北的新橋今天開放", ("big5",)),
    "ru": ("Новый мост открыт", ("windows-1251", "koi8-r", "iso-8859-5")),
    "fr": ("Le nouveau pont a été ouvert à l’été", ("windows-1252", "utf-8", "utf-8-sig")),
    "tr": ("Yeni köprü açıldı, şimdi", ("iso-8859-9",)),
    "th": ("สะพานใหม่เปิดแล้ว", ("tis-620",)),
}


@pytest.mark.parametrize(("saying", "encoding"), [(said, each) for said, names in SAYINGS.values() for each in names])
@pytest.mark.parametrize("chunk", [128, 1 << 20])
def test_encodings_that_are_declared(
    tmp_path: Path, saying: str, encoding: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = in_rss(an_item(saying, "x"), an_item("b"), encoding=encoding).encode(encoding)
    monkeypatch.setattr(encodings, "CHUNK", chunk)
    assert texts_of(tmp_path, content) == [f"{saying}|x", "b|x"]


@pytest.mark.parametrize(
    ("saying", "declared", "encoding"),
    [
        (SAYINGS["fr"][0], "utf-16", "utf-8"),  # fornever.me#278
        (SAYINGS["fr"][0], "us-ascii", "utf-8"),  # rsstail.py#4
        (SAYINGS["ru"][0], "windows-1251", "utf-8"),  # ruTorrent#3170
        (SAYINGS["zh"][0], "gb2312", "utf-8"),
        (SAYINGS["fr"][0], "iso-8859-1", "utf-8"),
        (SAYINGS["fr"][0], "iso-8859-1", "windows-1252"),  # ifdb#995
        (SAYINGS["fr"][0], "utf-8", "windows-1252"),
        (SAYINGS["fr"][0], "", "windows-1252"),
        (SAYINGS["zh"][0], "utt-8", "utf-8"),
        (SAYINGS["zh"][0], "gb2312", "gb18030"),
        ("联通", "gb2312", "gb2312"),  # two letters in GBK that are valid UTF-8
        (SAYINGS["ja"][0], "", "utf-16"),
    ],
)
def test_encodings_that_are_declared_wrongly(tmp_path: Path, saying: str, declared: str, encoding: str) -> None:
    content = in_rss(an_item(saying), encoding=declared).encode(encoding)
    assert texts_of(tmp_path, b"\n" * (encoding != "utf-16") + content) == [f"{saying}|x"]


@pytest.mark.parametrize(("language", "encoding"), [("ru", "windows-1251"), ("zh", "gbk"), ("tr", "iso-8859-9")])
def test_what_is_no_text_in_its_encoding_is_not_guessed_at(tmp_path: Path, language: str, encoding: str) -> None:
    content = in_rss(an_item(SAYINGS[language][0]), an_item("b")).encode(encoding)  # spaRSS#207
    assert texts_of(tmp_path, content) == ["!holds bytes that are no text in the feed's encoding, utf-8", "b|x"]


@pytest.mark.parametrize("prefix", ["", "rss:"])
@pytest.mark.parametrize("version", ["http://purl.org/rss/1.0/", "http://my.netscape.com/rdf/simple/0.9/"])
def test_rdf(tmp_path: Path, prefix: str, version: str) -> None:  # feedparser#36, feedsmith#262
    space = f"xmlns:{prefix[:-1]}" if prefix else "xmlns"
    content = f"""<?xml version="1.0"?><?xml-stylesheet href="a.css"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="http://purl.org/dc/elements/1.1/"
 {space}="{version}">
 <{prefix}channel rdf:about="https://a.example/rss"><{prefix}title>A</{prefix}title>
  <{prefix}link>https://www.a.example/</{prefix}link><dc:language>fr-FR</dc:language>
  <{prefix}items><rdf:Seq><rdf:li rdf:resource="https://a.example/1"/></rdf:Seq></{prefix}items></{prefix}channel>
 <{prefix}item rdf:about="https://a.example/1"><{prefix}title>Un</{prefix}title>
  <{prefix}link>https://a.example/1?b</{prefix}link><{prefix}description>Texte&eacute;</{prefix}description>
  <dc:creator>Al</dc:creator><dc:date>2003-12-13T18:30:02Z</dc:date></{prefix}item>
</rdf:RDF>"""
    (only,) = read(tmp_path, content)
    assert isinstance(only, SourceDocument)
    assert (only.id, only.title, only.text) == ("a.example:https://a.example/1", "Un", "Texteé")
    assert (only.url, only.published) == ("https://a.example/1?b", "2003-12-13")
    assert (only.language, only.authors) == ("fr", ("Al",))


@pytest.mark.parametrize(
    "space",
    ["https://cyber.harvard.edu/rss/rss.html", "http://www.w3.org/2005/Atom", "http://backend.userland.com/rss2"],
)
def test_rss_in_a_namespace(tmp_path: Path, space: str) -> None:  # gofeed#347, newsboat#1086
    assert texts_of(tmp_path, in_rss(an_item("a"), root=f'<rss xmlns="{space}">')) == ["a|x"]


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://a.example/rss-0.91.dtd">',
        "<!DOCTYPE rss>",
        '<!DOCTYPE rss SYSTEM "file:///etc/hostname" [ ]>',
        "<!DOCTYPE rss\n  SYSTEM 'a>b'\n>",
        "<!-- <!DOCTYPE rss [<!ENTITY a 'b'>]> --><!doctype rss>",
    ],
)
def test_a_document_type_that_defines_nothing_is_let_be(tmp_path: Path, doctype: str) -> None:  # RssBandit#1168
    assert texts_of(tmp_path, in_rss(an_item("a &mdash; b"), root=f"{doctype}<rss>")) == ["a — b|x"]


def test_atom_in_a_prefix_and_of_its_first_version(tmp_path: Path) -> None:  # feedsmith#77
    content = """<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:entry><a:id>1</a:id><a:title>T</a:title>
     <a:summary>x</a:summary></a:entry></a:feed>"""
    assert texts_of(tmp_path, content) == ["T|x"]
    content = """<feed version="0.3" xmlns="http://purl.org/atom/ns#"><entry><id>1</id><title>T</title>
     <issued>2003-12-13T08:29:29-04:00</issued><content type="text/html" mode="escaped">&lt;p>x</content>
     </entry></feed>"""
    (only,) = read(tmp_path, content)
    assert isinstance(only, SourceDocument) and (only.title, only.text, only.published) == ("T", "x", "2003-12-13")


@pytest.mark.parametrize("chunk", [64, 100, 1 << 20])
@given(
    pieces=st.lists(
        st.sampled_from(
            '<item> </item> <title> </title> & &amp; &eacute; < > a ]]> <![CDATA[ <!-- --> </channel></rss> <x:y> " '
            "<? ?> \x00 é <!DOCTYPE &#1; &a; <!DOCTYPE[".split(" ")
        ),
        max_size=30,
    )
)
def test_any_feed_gives_rows_and_always_the_same(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], chunk: int
) -> None:
    folder, content = tmp_path_factory.getbasetemp(), in_rss("".join(pieces))
    with pytest.MonkeyPatch.context() as patch:
        whole = read(folder, content)
        patch.setattr(encodings, "CHUNK", chunk)
        assert read(folder, content) == whole


def test_entries_come_while_the_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of a piece, and what comes before a fault is kept."""
    whole = read(tmp_path, RSS)
    for chunk in (64, 70, 100):
        monkeypatch.setattr(encodings, "CHUNK", chunk)
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
