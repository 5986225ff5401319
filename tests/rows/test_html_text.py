"""HTML to text, and which texts are HTML."""

from __future__ import annotations

from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.rows.html_text import html_to_text, plain_text


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


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<p>Simon &amp; Garfunkel</p>", "Simon & Garfunkel"),  # mastodon PR#24019
        ("Bile Acid &amp; Tryptophan", "Bile Acid & Tryptophan"),  # printing-press-library PR#1786
        ("&#x27;Show HN&#x27; &#x2F; &quot;x&quot;", "'Show HN' / \"x\""),  # simonw/tools PR#232
        ("&#30475;&#8217;s", "看’s"),  # curio#67
        ("caf&eacute;&nbsp;&mdash; 5&deg; &copy; 2024", "café — 5° © 2024"),
        ("Good.<br /><br />Bad.", "Good.\n\nBad."),
        ("line one<br>line two", "line one\nline two"),
        ("<p>One<p>Two", "One\n\nTwo"),
        ("text <img src='a.png' alt=\"x\"> more", "text more"),
        ('<a href="https://a.example/?b=1">link</a>s', "links"),
        ("&lt;p&gt;Escaped &amp;amp; twice&lt;/p&gt;", "Escaped & twice"),
        ("<!-- wp:paragraph -->\n<p>One</p>\n<!-- /wp:paragraph -->", "One"),  # WordPress's blocks
        ("<!DOCTYPE html><html><head><title>x</title></head><body>y</body></html>", "y"),
        ("First.\n\nA <b>bold</b> word.\r\nLast.", "First.\n\nA bold word.\nLast."),
        ("<DIV CLASS=x>One</DIV>", "One"),
        ("<p>The &lt;b&gt; tag</p>", "The <b> tag"),
        ("<script>alert(1)</script>", ""),
    ],
)
def test_html_in_a_text_column_is_turned_to_text(text: str, plain: str) -> None:
    assert plain_text(text) == plain
    assert plain_text(plain) == plain


@pytest.mark.parametrize(
    "text",
    [
        *(
            "plain",
            "a < b",
            "if a<b and c>d: pass",
            "a <b c> d </b>",
            "x <- 3 -> y",
            "1 <2 and 3> 2",
            "I <3 you",
            "<3 </3",
        ),
        *(
            "List<T> x = new ArrayList<T>();",
            "Map<String, List<A>>",
            "vector<int> v;",
            "#include <stdio.h>",
            "fn f<'a>()",
        ),
        *("The <b> tag makes it bold.", "Use <br> for a break", "Use <p> or (<p>)", "an <a> without its end"),
        *("AT&T, R&D; Q&A", "https://a.example/?a=1&copy=2&lt=3", "f(&x); p = &sum; return &image;", "&nosuchname;"),
        *(
            "Write `<p>x</p>` and `&amp;`.",
            "```html\n<p>a</p>\n```\nThat was code.",
            "<ann@b.example>",
            "<https://a.example>",
        ),
        *(
            "<|im_start|>user",
            "<think>a</think>",
            "<search>q</search>",
            "<T>x</T>",
            "<Title>x</Title>",
            "<unk>",
            "<<EOF",
        ),
        "$a<b$ and $\\langle p \\rangle$",
    ],
)
def test_what_only_mentions_tags_or_is_code_stays(text: str) -> None:
    assert plain_text(text) == text


_PIECES = (
    *(
        "<p>",
        "</p>",
        "<br>",
        "<b>",
        "</b>",
        "<a href='x'>",
        "<T>",
        "&amp;",
        "&",
        "amp;",
        "lt;",
        "&lt;",
        "&gt;",
        "&#38;",
    ),
    *("#60;", "&nbsp;", "`", "```", "<!--", "-->", "<script>", "</script>", " ", "\n", "a", "<", ">", "/", "\xa0", "="),
)


@given(st.lists(st.sampled_from(_PIECES), max_size=25).map("".join))
def test_a_plain_text_is_plain(text: str) -> None:
    plain = plain_text(text)
    assert plain_text(plain) == plain


@given(st.text(st.characters(exclude_characters="<&"), max_size=60))
def test_a_text_without_marks_of_html_is_the_same(text: str) -> None:
    assert plain_text(text) == text


@given(st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="`"), min_size=1, max_size=40))
def test_a_text_that_was_written_as_html_is_the_text_again(text: str) -> None:
    assert plain_text(f"<p>{escape(text)}</p>") == plain_text(text)
