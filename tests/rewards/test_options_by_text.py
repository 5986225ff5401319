"""Options that are chosen by their texts, as agents do that are not held to letters."""

from __future__ import annotations

import pytest

from trailforge.rewards import choose_options

FIRMS = ("Avel", "Borin and Sons", "Cato", "Dunmor, Inc.")


@pytest.mark.parametrize(
    ("said", "letters"),
    [
        ("Cato", "C"),
        ("Avel and Cato", "AC"),
        ("Avel, Cato", "AC"),
        ("Avel, Cato, and Dunmor, Inc.", "ACD"),
        ("Borin and Sons and Cato", "BC"),
        ("avel; Borin and Sons", "AB"),
        ("- Avel\n- Dunmor, Inc.", "AD"),
        ("1. Avel\n2. Cato", "AC"),
        ("They cut it twice. The answer is: Avel and Cato.", "AC"),
        ("Avel; somebody else", "A"),
        ("Avel, which is a rival of Cato, and Cato", ""),  # prose, whatever it holds
        ("Cato and others", ""),
        ("nothing of these", ""),
        ("", ""),
    ],
)
def test_lists_of_option_texts_choose_each_of_them(said: str, letters: str) -> None:
    assert choose_options(said, FIRMS) == frozenset(letters)


def test_letters_go_before_texts() -> None:
    assert choose_options("A, C", ("C", "B", "A")) == frozenset("AC")


def test_a_long_answer_is_read_in_linear_time() -> None:
    assert choose_options("Avel, " * 20_000 + "no", FIRMS) == frozenset()
