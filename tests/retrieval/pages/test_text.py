"""A page's parts, and where words stand in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.growth import is_linear
from trailforge.retrieval.pages.text import OpenedPage, folded, part_starts
from trailforge.retrieval.sentences import split_sentences
from trailforge.schemas import NoSuchPage

MILL = "The mill was built in 1710. It burnt down twice. Zoë Dvořák rebuilt it — “with care”. She left in 1802."
TEXTS = st.lists(
    st.sampled_from(["One.", "two", "Three four five!", "\n\n", "U.S.", "é", "橋。橋。", "  "]), max_size=30
)


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
    assert (len(parts) == 1) == (sum(len(each.split()) for each in split_sentences(text)) <= words)


def test_a_page_without_spaces_has_parts_of_whole_sentences() -> None:
    text = "".join(f"第{number}座桥很长。" for number in range(25))
    starts = part_starts(text, 10)
    assert [text[first:].partition("座")[0] for first in starts] == ["第0", "第10", "第20"]
    assert part_starts(text, 25) == [0]


@pytest.mark.parametrize("words", ["zoe dvorak", "ZOË DVOŘÁK", 'it - "with', "Zoe\n Dvořák"])
def test_words_are_found_whatever_their_accents_quotes_and_capitals(words: str) -> None:
    """What is around them is shown as it stands."""
    found = page(MILL, 10).find(words)
    assert (found.count, found.matches[0].part) == (1, 2)
    assert "Zoë Dvořák rebuilt it — “with care”." in found.matches[0].text


def test_places_are_right_where_folding_changes_lengths() -> None:
    """A letter that becomes two, and one that is written as two, before what is looked for."""
    text = "ﬀﬀﬀ" * 200 + " e\u0301e\u0301 straße-End. " + "x " * 400 + "Tail."
    (spot,) = page(text).find("strasse-end").matches
    assert "straße-End." in spot.text


def test_every_part_with_hits_is_shown_however_many_another_has() -> None:
    """Then the first ones; in the order of the page. Places beside each other stand in one text."""
    text = "Otter. " * 100 + "\n\n" + "Nothing here. " * 100 + "\n\n" + "One otter more."
    found = page(text, 50).find("OTTER")
    assert (found.count, found.left) == (101, 0)
    assert [spot.part for spot in found.matches] == [1, 2, page(text, 50).parts]
    assert found.matches[0].text == ("Otter. " * 50).strip() and found.matches[2].text.endswith("One otter more.")


def test_a_find_shows_a_handful_of_places_and_says_where_others_are() -> None:
    """No sentence of the page is shown twice, however close the places are to each other."""
    lines = [f"Mill {number} turned beside the river, as the reeve of that year has it in a long account of tolls."
             for number in range(60)]  # fmt: skip
    found = page(" ".join(lines), 400).find("mill")
    shown = " ".join(spot.text for spot in found.matches)
    assert found.count == 60 and len(found.matches) == 5 and {spot.part for spot in found.matches} == {1, 2, 3}
    assert all(shown.count(line.split(" turned")[0] + " ") <= 1 for line in lines)
    in_shown = sum(f"Mill {number} " in shown for number in range(60))
    assert found.left == 60 - in_shown > 0 and set(found.left_parts) <= {1, 2, 3}
    assert all(len(spot.text) < 900 for spot in found.matches)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("libretto", "The librettist of the opera was Zoë Lind."),
        ("died", "Her death came in 1802."),
        ("dying", "Her death came in 1802."),
        ("writers of Mill", "She wrote it alone."),
    ],
)
def test_words_are_found_in_other_forms(words: str, sentence: str) -> None:
    """Where they do not stand there as they are; the page's own name need not stand beside them."""
    text = "The mill burnt. The librettist of the opera was Zoë Lind. Nobody came. "
    text += "She wrote it alone. Her death came in 1802."
    found = page(text).find(words)
    assert [spot.text for spot in found.matches] == [sentence] and found.missing == ()


def test_words_are_found_from_the_beginning_of_a_word_on() -> None:
    """And anywhere in a script that has no spaces."""
    (spot,) = page("He reset it in 1951. Sets and a (set) are one: sunset.").find("set").matches
    assert page("He reset it. Sets and a (set) are one: sunset.").find("set").count == 2 and "Sets" in spot.text
    assert not page("Sunset, asset, 1951.").find("95").count and page("他住在東京都。").find("東京").count == 1


def test_what_a_hyphen_joins_is_found_as_one_word() -> None:
    """And not by its half; a text that has the halves apart is found as it stands."""
    text = "At present nobody comes. He hails from present-day Velmar. The day was long."
    found = page(text).find("Velmar present-day")
    assert [spot.text for spot in found.matches] == ["He hails from present-day Velmar."] and found.missing == ()
    assert page("At present nobody comes. The day was long.").find("present-day").matches == ()
    assert page(text).find("hails present-tense").missing == ("present-tense",)
    assert [spot.text for spot in page(text).find("day of present").matches] == ["He hails from present-day Velmar."]


def test_born_is_no_form_of_bearing_a_grudge() -> None:
    text = "They still bear a grudge. Her birth fell into a hard winter."
    for words in ("born", "birthplace"):
        assert [spot.text for spot in page(text).find(words).matches] == ["Her birth fell into a hard winter."]


def test_a_find_says_which_words_stand_nowhere_beside_the_others() -> None:
    """Half of them have to be there, and the names and numbers."""
    found = page("Lind died in Bergen. The mill burnt.").find("died young")
    assert (found.matches[0].text, found.missing) == ("Lind died in Bergen.", ("young",))
    for words in ("died in Oslo", "died 1802", "sold with all debts", "Lind Award"):
        assert page("Lind died in Bergen. The mill burnt.").find(words).matches == ()


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
