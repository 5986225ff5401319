"""Each score on hand-made cases, and the properties that hold between scores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.rewards import (
    cover_exact_match,
    exact_match,
    f1,
    mcts_reward,
    mentions,
    normalize_answer,
    same_answer,
    score_answer,
    states,
)

WORDS = st.sampled_from(
    ["a", "an", "the", "The", "Oslo", "oslo's", "U.S.", "New-York", "1998\u20132000", "é", "!", "", "No"]
)
ANSWERS = st.lists(WORDS, max_size=8).map(" ".join) | st.text(max_size=20)
GOLDS = st.lists(ANSWERS, max_size=4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Eiffel Tower!", "eiffel tower"),
        ("  An   apple, a day ", "apple day"),
        ("U.S.A.", "usa"),
        ("well-known", "wellknown"),
        ("theatre", "theatre"),
        ("1998\u20132000", "1998\u20132000"),
        ("The", ""),
        ("...", ""),
    ],
)
def test_normalize_answer(text: str, expected: str) -> None:
    assert normalize_answer(text) == expected


@given(ANSWERS)
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalize_answer(normalize_answer(text)) == normalize_answer(text)


@pytest.mark.parametrize(
    ("prediction", "golds", "expected"),
    [
        ("The Beatles", ["Rolling Stones", "beatles"], 1.0),
        ("Beatles band", ["beatles"], 0.0),
        ("the", ["a"], 0.0),
        ("", [""], 0.0),
        ("x", [], 0.0),
    ],
)
def test_exact_match(prediction: str, golds: list[str], expected: float) -> None:
    assert exact_match(prediction, golds) == expected


@pytest.mark.parametrize(
    ("prediction", "golds", "expected"),
    [
        ("Paul the Apostle", ["Paul"], 2 / 3),
        ("a b b", ["b b b"], 2 * 2 / 5),
        ("b", ["b b"], 2 / 3),
        ("x y", ["y z", "x y"], 1.0),
        ("the", ["the"], 1.0),
        ("the", ["a"], 0.0),
        ("the", ["the the"], 0.0),
        ("the", ["the x"], 0.0),
        ("x", [], 0.0),
    ],
)
def test_f1_counts_bags_of_words(prediction: str, golds: list[str], expected: float) -> None:
    assert f1(prediction, golds) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("prediction", "gold", "characters", "words"),
    [
        ("in Berlin, Germany", "Berlin", 1.0, 1.0),
        ("a Berliner", "Berlin", 1.0, 0.0),
        ("Paris", "Berlin", 0.0, 0.0),
        ("anything", "the", 0.0, 0.0),
        ("", "Berlin", 0.0, 0.0),
    ],
)
def test_cover_exact_match(prediction: str, gold: str, characters: float, words: float) -> None:
    assert cover_exact_match(prediction, [gold]) == characters
    assert cover_exact_match(prediction, [gold], word_boundary=True) == words


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        ("Oslo", "oslo", 1.0),
        ("city of Oslo", "Oslo", 1.0),
        ("big city of Oslo", "Oslo", 0.0),
        ("the big city of the Oslo", "Oslo", 0.0),
        ("Osloer", "Oslo", 0.0),
        ("Oslo", "city of Oslo", 0.0),
        ("", "Oslo", 0.0),
        ("", "", 0.0),
    ],
)
def test_mcts_reward_is_equality_or_brief_cover(prediction: str, gold: str, expected: float) -> None:
    assert mcts_reward(prediction, ["elsewhere", gold]) == expected


def test_same_answer_is_symmetric_and_sees_two_missing_answers_as_the_same() -> None:
    assert same_answer("city of Oslo", "Oslo") and same_answer("Oslo", "city of Oslo")
    assert not same_answer("Oslo", "Bergen")
    assert not same_answer("Oslo", "")
    assert same_answer("", " ")
    assert not same_answer("", "the") and not same_answer("a", "the")


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("She moved to Oslo.", "oslo", True),
        ("Oslo's harbour", "Oslo", True),
        ("an Oslo-based firm", "Oslo", True),
        ("US troops", "U.S.", True),
        ("the 'U.S.' team", "U.S.", True),
        ("Osloer", "Oslo", False),
        ("a text", "the", False),
        ("", "Oslo", False),
    ],
)
def test_mentions(text: str, answer: str, expected: bool) -> None:
    assert mentions(text, answer) is expected


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("Mars has two moons.", "2", True),
        ("Mars has 2 moons.", "Two", True),
        ("It has twelve members.", "12 members", True),
        ("Mars has two moons.", "12", False),
        ("It was built in 2012.", "two", False),
        ("He lived in Oslo.", "Oslo", True),
    ],
)
def test_a_small_number_is_stated_as_a_word_or_as_a_figure(text: str, answer: str, expected: bool) -> None:
    assert states(text, answer) is expected


@given(ANSWERS, GOLDS)
def test_scores_are_ordered(prediction: str, golds: list[str]) -> None:
    score = score_answer(prediction, golds)
    by_words = cover_exact_match(prediction, golds, word_boundary=True)
    assert 0.0 <= score.exact_match <= by_words <= score.cover_exact_match <= 1.0
    assert score.exact_match <= score.total <= 1.0  # a name with its possessive is right, and covers nothing
    assert 0.0 <= score.f1 <= 1.0
    if score.exact_match:
        assert score.f1 == 1.0
    if by_words:
        assert score.f1 > 0.0


@given(ANSWERS, st.permutations(["Oslo", "the", "New-York", "é a"]))
def test_the_order_of_golds_does_not_matter(prediction: str, golds: list[str]) -> None:
    assert score_answer(prediction, golds) == score_answer(prediction, sorted(golds))


@given(ANSWERS, GOLDS)
def test_an_answer_matches_itself_unless_it_is_empty(answer: str, golds: list[str]) -> None:
    score = score_answer(answer, [*golds, answer])
    expected = float(bool(answer.strip()))
    assert (score.total, score.exact_match, score.f1, score.cover_exact_match) == (expected,) * 4
    assert mentions(answer, answer) or not answer.strip()


@given(ANSWERS, ANSWERS)
def test_same_answer_is_mcts_reward_either_way(a: str, b: str) -> None:
    assert same_answer(a, b) == same_answer(b, a)
    if mcts_reward(a, [b]):
        assert same_answer(a, b) and mentions(a, b)
