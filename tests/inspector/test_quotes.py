"""Quotes are found word for word, whatever white space is between the words."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from trailforge.pipelines.show.marks import clip, find_quote

WORDS = st.lists(st.text("abc.*?(", min_size=1, max_size=4), min_size=1, max_size=6)
SPACES = st.sampled_from([" ", "\n", "  ", "\t \n"])


@given(WORDS, WORDS, WORDS, SPACES, SPACES)
def test_a_quote_is_found_with_other_white_space(
    before: list[str], quote: list[str], after: list[str], inside: str, asked: str
) -> None:
    text = " ".join([*before, inside.join(quote), *after])
    span = find_quote(text, asked.join(quote))
    assert span is not None
    assert re.sub(r"\s+", " ", text[slice(*span)]) == " ".join(quote)


def test_other_words_and_no_words_are_not_found() -> None:
    assert find_quote("The mill was built in 1901.", "the mill") is None
    assert find_quote("The mill", " \n") is None
    assert find_quote("The mill", "mill The") is None


def test_a_span_is_cut_to_a_part_and_counted_from_it() -> None:
    assert clip((2, 9), 0, 5) == (2, 5)
    assert clip((2, 9), 6, 20) == (0, 3)
    assert clip((2, 5), 5, 9) is None
