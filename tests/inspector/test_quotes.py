"""Quotes, and what texts share, are found word for word, whatever white space is between the words."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trailforge.pipelines.show.marks import clip, cut_out, find_quote, find_shared

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


JOINT = "the senators wrote to the secretary about the bridge over the strait"


def test_what_two_texts_share_is_found_whole_in_other_case_and_white_space() -> None:
    text = f"Bangor. {JOINT}, in May. Then {JOINT.upper()}!"
    other = JOINT.replace(" ", "\n ")
    assert [text[slice(*place)] for place in find_shared(text, ["nothing", other])] == [JOINT, JOINT.upper()]
    seven = " ".join(JOINT.split()[:7])
    assert find_shared(text, [seven]) == [] and find_shared("", [JOINT]) == find_shared(text, []) == []


@given(st.lists(st.sampled_from("abc"), max_size=40), st.lists(st.sampled_from("abc"), max_size=40))
def test_every_word_that_is_marked_stands_in_a_run_of_eight_that_both_have(ours: list[str], theirs: list[str]) -> None:
    text, other = " ".join(ours), " ".join(theirs)
    places = find_shared(text, [other])
    assert all(before[1] < after[0] for before, after in pairwise(places))
    marked = {at for begin, end in places for at in range(begin, end) if text[at] != " "}
    runs = [range(n, n + 8) for n in range(len(ours) - 7) if " ".join(ours[n : n + 8]) in other]
    assert marked == {2 * word for run in runs for word in run}


PLACES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)).map(lambda at: (at[0], at[0] + at[1])), max_size=4)


@given(PLACES, PLACES)
def test_places_are_left_but_for_the_holes(places: list[tuple[int, int]], holes: list[tuple[int, int]]) -> None:
    def inside(spans: list[tuple[int, int]]) -> set[int]:
        return {at for begin, end in spans for at in range(begin, end)}

    assert inside(cut_out(places, holes)) == inside(places) - inside(holes)
