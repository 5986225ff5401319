"""The reward of R-Search, part by part, and option sets."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.rewards import f1, option_f1, option_letters
from trailforge.rewards.r_search import answer_reward, dag_problems, format_reward, r_search_reward
from trailforge.schemas import PlanEdge, PlanNode
from trailforge.schemas.episode import RSearchReward

LETTERS = st.sets(st.sampled_from("ABCDEF"))
PARTS = st.floats(0.0, 1.0)
TAGS = ["<think>", "</think>", "<search>", "</search>", "<result>", "</result>", "<answer>", "</answer>"]


# Options


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("A, C", "AC"),
        ("A and C", "AC"),
        ("A;C", "AC"),
        ("(a) (c)", "AC"),
        ("A\nC", "AC"),
        ("[A, C]", "AC"),
        ("**A** & **C**.", "AC"),
        ("AC", "AC"),
        ("a", "A"),
        ("A, A", "A"),
        ("The correct options are A and C.", "AC"),
        ("The final answer is: both B and D", "BD"),
        ("Based on the search results: 11.1% are in line\nwith the market. The answer is:\nC", "C"),
        ("The answer is: A, C", "AC"),
        ("The answer is (A) and (C)", "AC"),
        ("**Answer:** B and D", "BD"),
        ("Not (B), as it was late. The correct option is: C", "C"),
        ("The answer is A. No: the answer is B", "B"),
        ("The answer is C because it rose by 11.1%", "C"),
        ("The answers are A, and C.\nBoth rose.", "AC"),
        ("(C) rose. The answer is coke", "C"),
        ("The answer is not A", ""),
        ("The answer is A or B", ""),
        ("The answer is A note on coke", ""),
        ("The answer is a rise of 11.1%", ""),
        ("A. a vaccine\nC) a virus", "AC"),
        ("- **A.** Tokyo; - C: the EU", "AC"),
        ("Both (A) and [C] hold", "AC"),
        ("B: the EU", "B"),
        ("", ""),
        ("none", ""),
        ("a cat", ""),
        ("A or C", ""),
        ("not A", ""),
        ("a U.S. law", ""),
        ("ABBA", ""),
        ("Ä, é", ""),
    ],
)
def test_the_letters_that_an_answer_names(text: str, letters: str) -> None:
    assert option_letters(text) == frozenset(letters)


@given(LETTERS, st.sampled_from([", ", " and ", ";", "\n", " ", "/", ", and "]), st.booleans(), st.booleans())
def test_every_way_to_list_letters_gives_them(letters: set[str], between: str, brackets: bool, lower: bool) -> None:
    text = between.join(f"({letter})" if brackets else letter for letter in sorted(letters))
    assert option_letters(text.lower() if lower else text) == letters


@given(st.text())
def test_any_text_names_single_capitals(text: str) -> None:
    assert all(len(letter) == 1 and "A" <= letter <= "Z" for letter in option_letters(text))


@pytest.mark.parametrize(
    ("predicted", "correct", "expected"),
    [
        ("AC", "AC", 1.0),
        ("ac", "AC", 1.0),
        ("AB", "AC", 0.5),
        ("A", "ACD", 0.5),
        ("ABCDEF", "ACD", 2 * 3 / 9),
        ("B", "ACD", 0.0),
        ("", "A", 0.0),
        ("A", "", 0.0),
        ("", "", 0.0),
    ],
)
def test_option_f1(predicted: str, correct: str, expected: float) -> None:
    assert option_f1(predicted, correct) == pytest.approx(expected)


@given(LETTERS, LETTERS)
def test_option_f1_is_symmetric_and_full_for_equal_sets_alone(one: set[str], other: set[str]) -> None:
    score = option_f1(one, other)
    assert 0.0 <= score == option_f1(other, one) <= 1.0
    assert (score == 1.0) == (one == other and bool(one))


# Format


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (TAGS, 1.0),
        (["<query>", *TAGS, "</knowledge>"], 1.0),
        ([], 0.0),
        (TAGS[:-1], 0.0),
        (TAGS[2:], 0.0),
        ([*TAGS, "<answer>", "</answer>"], 0.0),
        ([*TAGS[2:4], *TAGS[:2], *TAGS[4:]], 0.0),
        ([TAGS[0], *TAGS[2:4], TAGS[1], *TAGS[4:]], 0.0),
    ],
)
def test_format_is_each_section_once_in_order(tags: list[str], expected: float) -> None:
    assert format_reward(tags) == expected


# Plan


def test_a_plan_that_breaks_no_rule_has_no_problem() -> None:
    nodes = [PlanNode(node_id=node_id, query="q", tool="News") for node_id in "AB"]
    edge, back = PlanEdge(src="A", dst="B"), PlanEdge(src="B", dst="A")
    assert not dag_problems(nodes, [edge, edge])
    assert dag_problems(nodes, [edge, back])
    assert dag_problems(nodes, [], tools=["Web"])
    assert dag_problems([*nodes, *(replace(nodes[0], node_id=f"C{n}") for n in range(7))], [])
    assert dag_problems([], [])


def test_all_broken_rules_are_counted() -> None:
    sound = ((f"N{n}", "q", "News") for n in range(7))
    drawn = (("A", "", "Web"), ("A", "q", ""), *sound)
    nodes = [PlanNode(node_id=i, query=query, tool=tool) for i, query, tool in drawn]
    edges = [PlanEdge(src="A", dst="A"), PlanEdge(src="B", dst="C"), PlanEdge(src="C", dst="B")]
    assert [problem.kind for problem in dag_problems(nodes, edges)] == [
        "too_many_nodes",
        "duplicate_id",
        "missing_query",
        "unknown_tool",
        "missing_tool",
        "self_edge",
        *["unknown_node"] * 4,
        "cycle",
    ]


# Answer and total


def test_choices_are_scored_by_options_even_with_a_judge() -> None:
    assert answer_reward("A and B", correct_options=["A", "C"], judge_score=1.0, golds=["A and B"]) == 0.5
    assert answer_reward("Oslo", correct_options=["A"]) == 0.0


def test_open_answers_are_scored_by_the_judge_or_else_by_f1() -> None:
    assert answer_reward("Oslo", golds=["Bergen"], judge_score=0.75) == 0.75
    assert answer_reward("Oslo", golds=["Oslo"], judge_score=0.0) == 0.0
    assert answer_reward("Paul the Apostle", golds=["Paul"]) == f1("Paul the Apostle", ["Paul"]) == pytest.approx(2 / 3)
    assert answer_reward("Oslo") == 0.0


def test_no_judge_can_pay_for_an_empty_answer() -> None:
    assert answer_reward(" \n", judge_score=1.0) == 0.0


@pytest.mark.parametrize("judge_score", [-0.1, 1.1, 7, math.nan, math.inf])
def test_a_judge_keeps_to_its_range(judge_score: float) -> None:
    with pytest.raises(ValueError, match="judge_score: expected a number from 0 to 1, got"):
        answer_reward("Oslo", judge_score=judge_score)


@pytest.mark.parametrize(
    ("parts", "total"),
    [((1, 1, 1), 1.0), ((1, 0, 0), 0.25), ((0, 1, 0), 0.25), ((0, 0, 1), 0.5), ((1, 1, 0.5), 0.75), ((0, 0, 0), 0.0)],
)
def test_the_weights_of_the_paper(parts: tuple[float, float, float], total: float) -> None:
    of_format, of_plan, of_answer = parts
    reward = r_search_reward(format=of_format, dag=of_plan, answer=of_answer)
    assert reward == RSearchReward(total=total, format=of_format, dag=of_plan, answer=of_answer)


@given(PARTS, PARTS, PARTS)
def test_the_total_stays_in_range(of_format: float, of_plan: float, of_answer: float) -> None:
    assert 0.0 <= r_search_reward(format=of_format, dag=of_plan, answer=of_answer).total <= 1.0
