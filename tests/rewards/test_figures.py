"""Quantities in other words are right, and what only looks like them is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.rewards import mcts_reward, same_answer
from trailforge.rewards.figures import restate_numerals, restate_quantities


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.5 million", "1,500,000"),
        ("1.5 million", "1.5M"),
        ("1.5 million", "1.5 mln"),
        ("1.5 million", "1500000.00"),
        ("1.5 million", "1.500.000"),
        ("1.5 million", "150万"),
        ("1.5 million", "1 500 000"),
        ("1.5 million", "1'500'000"),
        ("40 thousand", "40,000"),
        ("40 thousand", "40K"),
        ("two million", "2M"),
        ("3 billion", "3000000000"),
        ("3 bn", "3,000,000,000"),
        ("150万人", "1,500,000"),
        ("5 lakh", "500,000"),
        ("2 crore", "20 million"),
        ("₹15,00,000", "15 lakh rupees"),
        ("$1.5 million", "$1,500,000"),
        ("$1.5 million", "1.5 million US dollars"),
        ("$1.5 million", "USD 1,500,000"),
        ("$1.5 million", "1,500,000"),
        ("1.5 million people", "1,500,000"),
        ("1.5 million people", "1,500,000 people"),
        ("200", "two hundred people"),
        ("½", "0.5"),
        ("½", "1/2"),
        ("1/2", "0.5"),
        ("2½", "2.5"),
        ("2 1/2", "2½"),
        ("3/4", "0.75"),
        ("10 pm", "22:00"),
        ("10:30 p.m.", "22:30"),
        ("12 am", "00:00"),
        ("12 PM", "12:00"),
        ("9 am", "9:00"),
        ("World War III", "World War 3"),
        ("World War II", "World War Two"),
        ("Super Bowl XLII", "Super Bowl 42"),
        ("Elizabeth II", "Elizabeth the Second"),
        ("Type Ⅱ", "type 2"),
        ("٤٠", "40"),
        ("४०", "40"),
    ],
)
def test_the_same_quantity_in_other_words(one: str, other: str) -> None:
    assert mcts_reward(one, [other]) == mcts_reward(other, [one]) == 1.0
    assert same_answer(one, other)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("1.5 million", "1.5 billion"),
        ("1.5 million", "15 million"),
        ("1.5 million", "1.5"),
        ("1.5 million", "1,500"),
        ("1.5 million", "1.5 m"),
        ("40 thousand", "40"),
        ("5 lakh", "5 million"),
        ("15,00,000", "15,000"),
        ("$1.5 million", "€1.5 million"),
        ("$1.5 million", "€1,500,000"),
        ("5m", "5 million"),
        ("5 km", "5,000"),
        ("12 Monkeys", "12"),
        ("007", "7"),
        ("½", "12"),
        ("½", "1.2"),
        ("2½", "21/2"),
        ("2½", "21"),
        ("1/2", "2/4"),
        ("3/4", "4/3"),
        ("4/4", "1"),
        ("24/7", "24"),
        ("9/11", "9"),
        ("10 pm", "10 am"),
        ("10 pm", "22:30"),
        ("22:00", "10:00"),
        ("9 pm", "9:00"),
        ("12 am", "12:00"),
        ("1:2", "01:02"),
        ("World War IV", "World War 6"),
        ("World War III", "World War 2"),
        ("Henry IV", "Henry VI"),
        ("3", "World War III"),
        ("2", "Elizabeth II"),
        ("I", "1"),
        ("1", "I"),
        ("10", "Malcolm X"),
        ("Malcolm X", "Malcolm 10"),
        ("Washington DC", "Washington 600"),
        ("%", "5%"),
    ],
)
def test_near_misses_stay_wrong(gold: str, answer: str) -> None:
    assert mcts_reward(answer, [gold]) == 0.0


@given(st.integers(1, 10**7), st.sampled_from([("thousand", 3), ("million", 6), ("billion", 9), ("lakh", 5)]))
def test_a_scale_word_is_its_zeros_both_ways(tenths: int, scale: tuple[str, int]) -> None:
    word, zeros = scale
    scaled, plain = f"{tenths / 10} {word}", tenths * 10 ** (zeros - 1)
    for figures in (f"{plain:,}", str(plain), f"{plain:,}".replace(",", "\u202f")):
        assert mcts_reward(figures, [scaled]) == mcts_reward(scaled, [figures]) == 1.0
        assert mcts_reward(figures, [f"{tenths / 10} trillion"]) == 0.0
        assert mcts_reward(f"{plain + 1:,}", [scaled]) == 0.0


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 23), st.integers(0, 59))
def test_a_time_of_day_is_one_time_only(hour: int, minute: int, other_hour: int, other_minute: int) -> None:
    told = f"{(hour - 1) % 12 + 1}:{minute:02} {'pm' if hour >= 12 else 'am'}"
    is_same = (hour, minute) == (other_hour, other_minute)
    assert mcts_reward(f"{other_hour:02}:{other_minute:02}", [told]) == float(is_same)


@given(st.integers(2, 89), st.integers(2, 89))
def test_a_roman_numeral_is_one_number_only(number: int, other: int) -> None:
    roman, left = "", number
    for sign, worth in (("L", 50), ("XL", 40), ("X", 10), ("IX", 9), ("V", 5), ("IV", 4), ("I", 1)):
        roman += sign * (left // worth)
        left %= worth
    if len(roman) > 1:
        assert restate_numerals(f"Part {roman}") == f"Part {number}"
        assert mcts_reward(f"Part {other}", [f"Part {roman}"]) == float(number == other)


@given(st.text(max_size=30) | st.text("0123456789.,/: ½⅓pmKMI万", max_size=30))
def test_only_numbers_are_restated(text: str) -> None:
    if not any(map(str.isnumeric, text)):
        assert restate_quantities(text) == text
    assert mcts_reward(text, [text]) == float(bool(text.strip()))
