"""Splits by rule: what is cut out, how it is asked for, and what is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcts.plan import ENTITY, apply_split, plan_problem, split_problem
from mcts.rules import candidate_splits, is_decomposable
from mcts.rules.names import MASK, mask_names
from schemas import Plan, Split

SPLITS = """
In which city was the director of Metropolis born?
    Who is the director of Metropolis?
    In which city was [E] born?
When did the country that produced Fist Power join the EU?
    What country produced Fist Power?
    When did [E] join the EU?
What is the capital of the county where KRSU is licensed to broadcast?
    In what county is KRSU licensed to broadcast?
    What is the capital of [E]?
Who wrote the fictional work Doctor Fate exists in?
    What fictional work does Doctor Fate exist in?
    Who wrote [E]?
When did Suzanne Farrington's mother die?
    Who is Suzanne Farrington's mother?
    When did [E] die?
Who was the spouse of the painter of #1?
    Who is the painter of #1?
    Who was the spouse of [E]?
Which river flows through the city whose university is the oldest in Italy?
    What city's university is the oldest in Italy?
    Which river flows through [E]?
Metropolis >> director >> place of birth
    Metropolis >> director
    [E] >> place of birth
"""


def cases(table: str) -> list[tuple[str, ...]]:
    """Three lines a case."""
    lines = [line.strip() for line in table.strip().splitlines()]
    return [tuple(lines[i : i + 3]) for i in range(0, len(lines), 3)]


ATOMIC = [
    "Who directed Metropolis?",
    "In what year was #1 born?",
    "What is the capital of France?",
    "Who wrote The Lord of the Rings?",
    "When was the Battle of Hastings?",
    "Metropolis >> director",
    "",
]


@pytest.mark.parametrize(("question", "first", "second"), cases(SPLITS))
def test_the_best_split_asks_for_the_described_thing(question: str, first: str, second: str) -> None:
    assert is_decomposable(question)
    assert candidate_splits(question)[0] == (first, second)


@pytest.mark.parametrize("question", ATOMIC)
def test_an_atomic_question_is_left_whole(question: str) -> None:
    assert not is_decomposable(question)


def test_a_second_half_is_not_split_before_its_entity_is_known() -> None:
    assert candidate_splits(f"Who is the mother of the director of {ENTITY}?") == []


@pytest.mark.parametrize(
    ("question", "masked"),
    [
        ("Who wrote The Lord of the Rings?", f"Who wrote {MASK * 21}?"),
        ('Who sang "Let it be" first?', f"Who sang {MASK * 11} first?"),
        ("When was #12 born in Rome?", f"When was {MASK * 3} born in {MASK * 4}?"),
        ("The capital of France", f"The capital of {MASK * 6}"),
    ],
)
def test_names_are_masked_whole(question: str, masked: str) -> None:
    assert mask_names(question) == masked


WORDS = st.sampled_from(
    "who what is was the a of in that which whose city country director wrote born Metropolis #1 Lang's , ?".split()
)


@given(st.lists(WORDS, max_size=14).map(" ".join))
def test_every_candidate_holds_one_entity_and_keeps_the_masked_length(question: str) -> None:
    assert len(mask_names(question)) == len(question)
    for first, second in candidate_splits(question):
        assert second.count(ENTITY) == 1 and ENTITY not in first
        assert first.strip(" ?")


@given(st.lists(WORDS.filter(lambda word: word != "#1"), min_size=3, max_size=14).map(" ".join))
def test_a_usable_candidate_refines_the_plan_into_a_valid_one(question: str) -> None:
    for first, second in candidate_splits(question):
        split = Split(index=0, first=first, second=second)
        if split_problem(question, split) is None:
            assert plan_problem(apply_split(Plan(sub_questions=(question,)), split)) is None
