"""Replies as answers: wrappers, verdicts, and the texts that say there is no answer."""

from __future__ import annotations

import pytest

from trailforge.rewards import is_abstention, read_short_answer, read_yes_or_no
from trailforge.rewards.answers import read_memory_mark


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("**Answer:** CBS", "CBS"),
        ("\\boxed{CBS}", "CBS"),
        ("$\\boxed{\\text{CBS}}$", "CBS"),
        ("The final answer is $\\boxed{12}$.", "12"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{CBS", "\\boxed{CBS"),
        ("Final Answer: CBS", "CBS"),
        ("**Final Answer**\n\\boxed{CBS}", "CBS"),
        ("**Final Answer**\nCBS", "CBS"),
        ("The passages say so.\n\n**Final Answer:** Vienna", "Vienna"),
        ("### Answer\nVienna", "Vienna"),
        ("The answer is: CBS.", "CBS"),
        ("The answer is CBS", "CBS"),
        ("Thus, the answer is **Vienna**.", "Vienna"),
        ("So the answer is 12.", "12"),
        ("Answer - CBS", "CBS"),
        ('"CBS"', "CBS"),
        ("*The Chisholms*", "The Chisholms"),
        ("1. CBS", "CBS"),
        ("$5", "$5"),
        ("He was born in Vienna.", "He was born in Vienna"),
        ("Answer to Job", "Answer to Job"),
        ("The answer is in the passages", "The answer is in the passages"),
    ],
)
def test_what_is_wrapped_around_an_answer_is_taken_off(reply: str, answer: str) -> None:
    assert read_short_answer(reply, 30) == answer


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("Yes, because it speaks of a film.", True),
        ("no", False),
        ("The answer is Yes", True),
        ("The answer is No.", False),
        ("Answer: No", False),
        ("\\boxed{No}", False),
        ("**Yes**", True),
        ("Maybe", None),
        ("Nobody", None),
        ("", None),
    ],
)
def test_a_verdict_is_read_in_its_wrapper(reply: str, verdict: bool | None) -> None:
    assert read_yes_or_no(reply) is verdict


@pytest.mark.parametrize(
    "text",
    [
        "Unknown.",
        "not specified",
        "not mentioned in the passages",
        "none of the passages say",
        "n/a",
        "None",
        "cannot be determined from the passages",
        "I don't know",
        "The passages do not say",
        "The passage doesn't say who",
        "The answer is not stated",
        "It is not specified in the passages.",
        "The name of the director is not mentioned",
        "There is no information about this",
        "Unknown (not in the passages)",
        "Not announced for NBC",
    ],
)
def test_an_abstention_is_known(text: str) -> None:
    assert is_abstention(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        "NBC",
        "The Unknown Soldier",
        "Unknown Pleasures",
        "I Don't Know How to Love Him",
        "No Country for Old Men",
        "Nothing Compares 2 U",
        "Not Without My Daughter",
        "Unknown, but likely Paris",
        "Not stated in the passages; most likely Paris",
    ],
)
def test_a_name_or_a_guess_is_no_abstention(text: str) -> None:
    assert not is_abstention(text)


@pytest.mark.parametrize(
    ("text", "answer", "marked"),
    [
        ("Frauenfeld (memory)", "Frauenfeld", True),
        ("Washington, D.C. [from memory].", "Washington, D.C.", True),
        ("The Persistence of Memory", "The Persistence of Memory", False),
        ("Memory (film)", "Memory (film)", False),
    ],
)
def test_the_mark_of_an_answer_from_memory_is_read_and_taken_away(text: str, answer: str, marked: bool) -> None:
    assert read_memory_mark(text) == (answer, marked)
