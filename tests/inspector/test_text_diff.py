"""What differs between two texts stands at the places that are told, and nowhere else."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from trailforge.inspector.views import fixing
from trailforge.inspector.views.fixing import Span, differences, windows

WORDS = st.lists(st.sampled_from(["one", "two", "<b>", " ", "\n", "é", ". "]), max_size=12).map("".join)


def without(text: str, spans: list[Span]) -> str:
    for begin, end in reversed(spans):
        text = text[:begin] + text[end:]
    return text


@settings(max_examples=200)
@given(WORDS, WORDS)
def test_without_its_changes_a_text_is_the_other_without_its_own(old: str, new: str) -> None:
    gone, added = differences(old, new)
    assert len(gone) == len(added) and without(old, gone) == without(new, added)
    assert all(begin < end or other < last for (begin, end), (other, last) in zip(gone, added, strict=True))
    assert (gone == []) == (old == new)


def test_changes_are_whole_words() -> None:
    assert differences("He was born in Wien.", "He was born in Vienna, Austria.") == ([(15, 19)], [(15, 30)])
    assert differences("a b c", "a c") == ([(2, 4)], [(2, 2)])


def test_of_texts_too_long_to_compare_all_between_the_first_and_the_last_difference_counts() -> None:
    words = fixing._MOST_COMPARED
    old, new = "same " + "a " * words + "end", "same " + "b " * words + "end"
    assert differences(old, new) == ([(5, 5 + 2 * words - 1)], [(5, 5 + 2 * words - 1)])


def test_only_what_is_around_changes_is_shown() -> None:
    assert windows(1000, [(100, 110), (115, 120), (700, 700)], 20) == [(80, 140), (680, 720)]
    assert windows(30, [(5, 5)], 20) == [(0, 25)] and windows(30, [], 20) == []
