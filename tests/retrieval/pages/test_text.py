"""A page's parts, and where words stand in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.growth import is_linear
from trailforge.retrieval.pages.text import OpenedPage, folded, part_starts
from trailforge.schemas import NoSuchPage

MILL = "The mill was built in 1710. It burnt down twice. Zoë Dvořák rebuilt it — “with care”. She left in 1802."
TEXTS = st.lists(st.sampled_from(["One.", "two", "Three four five!", "\n\n", "U.S.", "é", "  "]), max_size=30)


def page(text: str, words: int = 1000) -> OpenedPage:
    """A page called Mill."""
    return OpenedPage("p", "Mill", text, words)


def test_parts_end_where_sentences_do() -> None:
    """Each has as many whole sentences as fit."""
    parts = [page(MILL, 10).part(number + 1).text for number in range(page(MILL, 10).parts)]
    assert parts == ["The mill was built in 1710. It burnt down twice.", MILL[49:].removesuffix(" She left in 1802."),
                     "She left in 1802."]  # fmt: skip


def test_a_sentence_that_is_longer_than_a_part_is_cut_between_words() -> None:
    """And what follows it is still filled up."""
    text = "Short one. Word " + "word " * 23 + "end. So it is."
    starts = part_starts(text, 10)
    parts = [text[first:last].split() for first, last in zip(starts, [*starts[1:], None], strict=True)]
    assert [len(part) for part in parts] == [2, 10, 10, 8]


@given(TEXTS.map(" ".join), st.integers(1, 9))
def test_parts_together_are_the_page(text: str, words: int) -> None:
    """Nothing is lost, and no part is longer than it may be."""
    starts = part_starts(text, words)
    parts = [text[first:last] for first, last in zip(starts, [*starts[1:], len(text)], strict=True)]
    assert "".join(parts) == text
    assert all(len(part.split()) <= words for part in parts)


@pytest.mark.parametrize("words", ["zoe dvorak", "ZOË DVOŘÁK", 'it - "with', "Zoe\n Dvořák"])
def test_words_are_found_whatever_their_accents_quotes_and_capitals(words: str) -> None:
    """What is around them is shown as it stands."""
    found = page(MILL, 10).find(words)
    assert (found.count, found.matches[0].part) == (1, 2)
    assert "Zoë Dvořák rebuilt it — “with care”." in found.matches[0].text


def test_places_are_right_where_folding_changes_lengths() -> None:
    """A letter that becomes two, and one that is written as two, before what is looked for."""
    text = "ﬀﬀﬀ" * 200 + " e\u0301e\u0301straße-End. " + "x " * 400 + "Tail."
    (spot,) = page(text).find("strasse-end").matches
    assert "straße-End." in spot.text


def test_every_part_with_hits_is_shown_however_many_another_has() -> None:
    """Then the first ones; in the order of the page."""
    text = "Otter. " * 100 + "\n\n" + "Nothing here. " * 100 + "\n\n" + "One otter more."
    found = page(text, 50).find("OTTER")
    parts = [spot.part for spot in found.matches]
    assert (found.count, len(parts)) == (101, 20)
    assert sorted(set(parts)) == [1, 2, page(text, 50).parts] and parts == sorted(parts)


def test_a_part_that_is_not_there_is_told_as_an_agent_reads_it() -> None:
    """With how many there are."""
    with pytest.raises(NoSuchPage, match="there is no part 7: the page 'Mill' has 3 parts"):
        page(MILL, 10).part(7)
    with pytest.raises(NoSuchPage, match="has one part"):
        page(MILL).part(0)


def test_nothing_is_found_of_nothing() -> None:
    """Nor in nothing."""
    assert page(MILL).find(" ").count == page("").find("mill").count == 0
    assert page("").part(1).text == ""


def test_long_pages_are_cut_and_searched_in_linear_time() -> None:
    """Of initials alone, where no full stop ends a sentence; one word without end; a word in each part."""
    for text in ("A. ", "\u00e9\ufb00", "Otter swims. "):
        assert is_linear(lambda size, text=text: page(text * size, 10), lambda each: each.find("otter").count, 60_000)
        assert is_linear(lambda size, text=text: text * size, lambda each: part_starts(each, 10), 60_000)


def test_folding_leaves_what_tells_words_apart() -> None:
    """Marks of scripts whose words differ by them."""
    assert folded("Ångström’s  É") == "angstrom's e"
    assert folded("がき") != folded("かき")
