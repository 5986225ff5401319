"""Cleaning: what goes, what stays, and that a second time changes nothing."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.generators.document_bundles.stages.cleaning import (
    is_boilerplate,
    line_key,
    line_keys,
    normalise,
    normalise_document,
    one_line,
    repeated_lines,
)
from trailforge.schemas import SourceDocument

LINES = st.sampled_from(
    [
        "Share on Facebook",
        "© 2024 The Times",
        "A sentence.",
        "Page 3",
        "",
        "  ",
        "e\u0301",
        "\u0301",
        "\ufeff",
        "\ud800",
    ]
)
TEXTS = st.one_of(
    st.text(),
    st.lists(st.one_of(LINES, st.text(max_size=8)), max_size=12).map("\n".join),
    st.text(alphabet="a\u0301\u0338 \t\n\r\x0b\x1f\x85\u2000\u2028\u200b\u1100\u1161", max_size=30),
)


@given(TEXTS, st.frozensets(st.sampled_from(["page 0", "a sentence."])))
def test_twice_is_once(text: str, repeated: frozenset[str]) -> None:
    """Also for marks that compose, every kind of line end, and lines that are dropped."""
    once = normalise(text, repeated)
    assert normalise(once, repeated) == once
    assert one_line(one_line(text)) == one_line(text)
    once.encode()


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("Cafe\u0301", "Café"),
        ("a\u00a0\t b  c ", "a b c"),
        ("one\r\n\r\n\r\n\r\ntwo\u2028three\n", "one\n\ntwo\nthree"),
        ("zero\u200bwidth\x00 so\xadft \ufeff", "zerowidth soft"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("\n\nText.\nShare on Twitter\n\n© 2025 Example Inc.", "Text."),
        ("", ""),
    ],
)
def test_cleaned(raw: str, clean: str) -> None:
    """Composed, one space, one empty line, nothing invisible; joiners of other scripts stay."""
    assert normalise(raw) == clean


@pytest.mark.parametrize(
    "line",
    [
        "Share on Facebook",
        "Share this article",
        "Tweet",
        "Facebook | Twitter | LinkedIn",
        "Email this story to WhatsApp",
        "We use cookies to improve your experience.",
        "Accept all cookies",
        "Sign up for our newsletter!",
        "Subscribe to get the best stories in your inbox",
        "© 2025 The Example Times. All rights reserved.",
        "Copyright 2019 Example Ltd",
        "Advertisement",
        "Skip to main content",
        "Click here to read more",
        "Follow us on Twitter",
        "Privacy Policy | Terms of Use",
        "Related articles",
    ],
)
def test_boilerplate(line: str) -> None:
    """What sites put around an article."""
    assert is_boilerplate(line)


@pytest.mark.parametrize(
    "line",
    [
        "Shares of Twitter fell by 3 % on Monday.",
        "The browser stores cookies on the visitor's disk.",
        "Follow the money.",
        "* Register for an account at the agency.",
        "Facebook said on Tuesday that it would close the office.",
        "Copyright law protects the author.",
        "Mail and e-mail are used alike.",
    ],
)
def test_sentences_stay(line: str) -> None:
    """Articles on the same matters."""
    assert not is_boilerplate(line)


def test_a_paragraph_stays() -> None:
    """Whatever it speaks of."""
    assert not is_boilerplate("The regulator found that the site uses cookies. " + "It fined the owner. " * 8)


def test_lines_that_a_source_repeats() -> None:
    """Counted by document, in any case and with any number; few documents tell nothing."""
    texts = [f"Story {'abcdefgh'[n]} of the day.\nThe Daily, page {n}\nThe Daily, PAGE {n}" for n in range(8)]
    counts = Counter(key for text in texts for key in line_keys(text))
    repeated = repeated_lines(counts, len(texts))
    assert repeated == {line_key("The Daily, page 1")}
    assert normalise(texts[0], repeated) == "Story a of the day."
    assert repeated_lines({"footer": 4}, 4) == frozenset()
    assert repeated_lines({"footer": 40}, 1000) == frozenset()


def test_headings_that_all_papers_have_are_no_lines_of_their_archive() -> None:
    texts = [f"1 Introduction\nPaper {'abcdefgh'[n]} says much.\nProceedings of the Society" for n in range(8)]
    for is_paper, wanted in ((True, ""), (False, "1 introduction")):
        counts = Counter(key for text in texts for key in line_keys(text, is_paper=is_paper))
        gone = {line_key("Proceedings of the Society"), *([line_key(wanted)] if wanted else [])}
        assert repeated_lines(counts, len(texts)) == gone


def test_a_document() -> None:
    """Title in one line, text cleaned, all else as it was."""
    raw = SourceDocument(id="a:1", source="a", kind="news", title=" Two\nlines ", text="Text.\nTweet", url="u")
    assert normalise_document(raw) == SourceDocument(
        id="a:1", source="a", kind="news", title="Two lines", text="Text.", url="u"
    )
