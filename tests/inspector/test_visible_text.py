"""Whatever a text holds, a page shows it and does nothing of it."""

from __future__ import annotations

import html
import re
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.inspector.visible_text import escape_text, label, mark_spans, visible

TEXTS = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("<>&\"'/\x00\x1b\u202e\u200b\n\t")), max_size=60
)
SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.sampled_from(["gold", "wrong"])), max_size=5)


class Reader(HTMLParser):
    """Tags and text, as a browser sees them."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.inside, self.depth = "", "", 0
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        assert tag == "mark"
        self.depth -= 1

    def handle_data(self, data: str) -> None:
        self.text += data
        self.inside += data if self.depth else ""


@given(TEXTS)
def test_a_text_has_no_tags_and_is_all_there(text: str) -> None:
    read = Reader(escape_text(text))
    assert read.tags == []
    assert html.unescape(escape_text(text)) == visible(text)


@given(TEXTS)
def test_each_character_has_one_in_its_place(text: str) -> None:
    assert len(visible(text)) == len(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", visible(text))


def test_nothing_that_is_invisible_stays_so() -> None:
    """By the categories of Unicode; the signs that some scripts put around a number belong to these, and are seen."""
    seen = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    hidden = [code for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")]
    left = {code for code in hidden if visible(chr(code)) == chr(code)} - {ord("\n"), ord("\t")}
    assert left == seen & set(hidden)


@pytest.mark.parametrize("character", "\u200b\u200f\u2060\ufeff\u00ad\u3164\ufe0f\U000e0041")
def test_hidden_characters_are_seen_on_the_page_and_in_the_terminal(character: str) -> None:
    assert escape_text(f"Vi{character}enna") == visible(f"Vi{character}enna") == "Vi\ufffdenna"


@pytest.mark.parametrize(
    "text", ["Wien, 1890 – “ja”", "\u6771\u4eac\u30bf", "\u0645\u0631\u062d", "é e\u0301 🙂", "a\u00a0b\u2009c"]
)
def test_text_of_any_script_stays(text: str) -> None:
    assert visible(text) == text


@given(TEXTS, SPANS)
def test_marks_are_where_they_are_asked_for(text: str, spans: list[tuple[int, int, str]]) -> None:
    content = mark_spans(text, spans)
    read = Reader(content)
    assert {tag for tag, _ in read.tags} <= {"mark"}
    assert html.unescape(re.sub(r"</?mark[^>]*>", "", content)) == visible(text)
    covered = {place for begin, end, _ in spans for place in range(begin, min(end, len(text)))}
    assert len(html.unescape("".join(re.findall(r"<mark[^>]*>(.*?)</mark>", content, re.S)))) == len(covered)


def test_a_long_text_is_cut_and_counted() -> None:
    assert escape_text("x" * 30, longest=10) == "x" * 10 + " … (20 more characters)"
    assert mark_spans("x" * 30, [(5, 30, "gold")], longest=10).startswith('xxxxx<mark class="gold">xxxxx</mark>')
    assert "(20 more characters)" in mark_spans("x" * 30, [(5, 30, "gold")], longest=10)


def test_a_label_is_one_line_without_markup() -> None:
    assert label("<b>a\n b</b>") == "&lt;b&gt;a b&lt;/b&gt;"
    assert label("x" * 100, 5) == "xxxx…"
