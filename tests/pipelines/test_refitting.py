"""A fixed row says the same in its conversation, its gold answer and its rewards, or there is no such row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.bundle_rows import CHURCH, INSTRUMENT, ISLAND, WHEEL
from tests.support.graph_questions import question as kg_question
from tests.support.rows import AGAIN, DIED, FIRST, SECOND, trajectory
from trailforge.generators.document_bundles import fix as bundles_fix
from trailforge.generators.kg_questions import fix as kg_fix
from trailforge.generators.mcts_trajectories import fix as mcts_fix
from trailforge.generators.mcts_trajectories.telling.story import mismatch
from trailforge.protocols import REACT
from trailforge.rewards import score_answer
from trailforge.schemas import BundleQuestion, FilterScore, InvalidInput, Trajectory

ROW = trajectory()
LAST = len(ROW.messages) - 1
SCORES = tuple(
    FilterScore(name=name, score=0.75, passed=True)
    for name in ("unsupported_quote", "bad_options", "not_answerable", "closed_book", "duplicate_question")
)


def refit(row: Trajectory = ROW, /, turns: dict[int, str] | None = None, **changes: Any) -> Trajectory:
    """The row with these fields and turns."""
    told = tuple(
        replace(message, content=(turns or {}).get(number, message.content))
        for number, message in enumerate(row.messages)
    )
    return mcts_fix.refit(replace(row, **({"messages": told} | changes)), row)


def turn(number: int, old: str, new: str, row: Trajectory = ROW) -> dict[int, str]:
    """A turn in which something is replaced."""
    said = row.messages[number].content
    assert old in said
    return {number: said.replace(old, new)}


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        trajectory(FIRST, replace(DIED, is_mistake=True), AGAIN, error="retrieval"),
        trajectory(FIRST, DIED, SECOND, error="reasoning"),
        trajectory(DIED, FIRST, SECOND, error="decomposition", first_plan=("Where was the director born?",)),
    ],
)
def test_a_told_trajectory_says_what_its_fields_say_and_no_other(row: Trajectory) -> None:
    assert mismatch(row) == ""
    other = replace(row.steps[0], query="Who is that?")
    for changes, problem in (
        ({"question": "Who founded Rome?"}, "begin with the rules and the row's question"),
        ({"steps": (other, *row.steps[1:])}, "search 1 asks"),
        ({"steps": (*row.steps, SECOND)}, "searches, the row"),
        ({"steps": (replace(row.steps[0], passages=()), *row.steps[1:])}, "search 1 found other passages"),
        ({"final_answer": "Kiel"}, "it ends with the answer 'Vienna'"),
        ({"steps": (*row.steps[:-1], replace(row.steps[-1], answer="Kiel"))}, "its last step found 'Kiel'"),
    ):
        assert problem in mismatch(replace(row, **changes))


def test_a_fixed_question_is_asked_in_the_conversation() -> None:
    asked = "Where was the director of the film Metropolis born?"
    fixed = refit(question=asked)
    assert fixed.messages[1].content == REACT.user_turn(asked) and fixed.messages[2:] == ROW.messages[2:]
    assert mismatch(fixed) == "" and fixed.token_estimate != ROW.token_estimate
    assert refit(question=asked, turns={1: REACT.user_turn(asked)}) == fixed
    with pytest.raises(InvalidInput, match="turn 1 is not the agent's"):
        refit(question=asked, turns={1: REACT.user_turn("Who founded Rome?")})
    with pytest.raises(InvalidInput, match="the question names its answer 'Wien'"):
        refit(question="Where in Wien was the director of Metropolis born?")


def test_a_fixed_final_answer_stands_in_the_last_turn_and_the_other_way_round() -> None:
    fixed = refit(final_answer="the city of Vienna")
    assert REACT.final_answer(fixed.messages[-1].content) == "the city of Vienna" and mismatch(fixed) == ""
    assert fixed.reward == score_answer("the city of Vienna", ("Vienna", "Wien"))
    assert refit(turns=turn(LAST, "<answer>Vienna", "<answer>the city of Vienna")) == fixed
    with pytest.raises(InvalidInput, match="it ends with the answer"):
        refit(turns=turn(LAST, "<answer>Vienna", "<answer>the city of Vienna"), final_answer="Vienna in Austria")


@pytest.mark.parametrize(
    "changes",
    [
        {"answer": "Kiel"},
        {"final_answer": "Kiel"},
        {"answer": "Kiel", "final_answer": "Kiel"},
        {"answer": "Kiel", "final_answer": "Kiel", "question": "Who founded Rome?"},
        {"answer": "Kiel", "answer_aliases": ("Vienna",)},
        {"answer": "Kiel", "turns": turn(LAST, "Vienna", "Kiel")},
        {"answer": "the"},
        {"answer_aliases": ("Wien", "…")},
        {"turns": turn(LAST, "<answer>", "")},
        {"turns": turn(LAST, "</think>", " so Kiel</think>") | turn(LAST, "Vienna", "Kiel")},
        {"turns": turn(2, "Metropolis?</search>", "M?</search>")},
        {"turns": turn(3, "Fritz Lang", "Max Reinhardt")},
        {"turns": turn(4, "Fritz Lang", "Max Reinhardt")},
        {"turns": turn(2, "</think>", " I guess it is Wien.</think>")},
        {"turns": {LAST: "<think>It is Kiel.</think><answer>Vienna in Kiel</answer>"}, "final_answer": "Kiel"},
        {"turns": {LAST: "<think>It has to be Kiel.</think><answer>Vienna</answer>"}},
        {"messages": ROW.messages[:-2]},
        {"messages": ()},
    ],
)
def test_what_the_searches_do_not_say_is_no_row(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        refit(**changes)


def test_aliases_of_another_answer_go() -> None:
    row = trajectory(FIRST, replace(SECOND, answer="Vienna, Austria"), answer_aliases=("Wien", "Vienna (city)"))
    fixed = refit(row, answer="Austria")
    assert (fixed.answer, fixed.answer_aliases) == ("Austria", ())
    assert fixed.reward.total == 1.0 and fixed.reward.exact_match == 0.0
    assert refit(row, answer="Vienna, Austria").answer_aliases == ("Vienna",)
    swapped = refit(answer="Wien")
    assert (swapped.answer, swapped.answer_aliases, swapped.reward.total) == ("Wien", ("Vienna",), 1.0)
    assert refit(answer_aliases=("Vienna", "Wien", "Wien")).answer_aliases == ("Wien",)


def test_thoughts_may_be_reworded() -> None:
    told = turn(2, "<think>", "<think>Let me see. ") | turn(LAST, "<think>", "<think>So it is. ")
    fixed = refit(turns=told)
    assert "Let me see." in fixed.messages[2].content and mismatch(fixed) == "" and fixed.reward == ROW.reward


@pytest.mark.parametrize(
    ("row", "changes", "answer"),
    [
        (ISLAND, {"answer": "500"}, "500"),
        (ISLAND, {"question": f"Say: {ISLAND.question}"}, ISLAND.answer),
        (WHEEL, {"answer": "brake blocks of composite heat its rim"}, "brake blocks of composite heat its rim"),
        (INSTRUMENT, {"options": ("Geneva", "University of Bern", "Kyiv", "Darmstadt")}, "University of Bern"),
        (CHURCH, {"correct_options": ("C", "B", "E"), "options": CHURCH.options}, None),
    ],
)
def test_a_fixed_bundle_question_has_the_answer_of_its_options_and_no_score_of_another_wording(
    row: BundleQuestion, changes: dict[str, Any], answer: str | None
) -> None:
    old = replace(row, filters=SCORES)
    fixed = bundles_fix.refit(replace(old, **changes), old)
    assert fixed.answer == (answer or "It weighs 672 tonnes; Gustaf Wickman designed it; It was finished in 1912")
    assert [(score.name, score.score) for score in fixed.filters] == [("unsupported_quote", 0.75), ("bad_options", 1.0)]


@pytest.mark.parametrize(
    ("row", "changes", "problem"),
    [
        (ISLAND, {"answer": "Complete nonsense 42"}, "no evidence of the question says 'Complete nonsense 42'"),
        (WHEEL, {"answer": "because the driver slept"}, "no evidence"),
        (INSTRUMENT, {"correct_options": ("C",)}, "no evidence of the question says 'Kyiv'"),
        (INSTRUMENT, {"answer": "Kyiv"}, "the correct options say 'Bern'"),
        (INSTRUMENT, {"correct_options": ("Z",)}, "filter bad_options"),
        (CHURCH, {"correct_options": ("B", "C", "D")}, "no evidence of the question says 'It stood in Malmö'"),
    ],
)
def test_what_no_evidence_says_is_no_answer(row: BundleQuestion, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        bundles_fix.refit(replace(row, **changes), row)


@pytest.mark.parametrize(
    "names",
    [
        ("malformed_question", "right_from_memory", "same_facts"),
        ("malformed", "closed_book", "duplicate_question"),  # of a run of before
    ],
)
def test_a_fixed_question_of_a_graph_keeps_its_facts_and_is_measured_again(names: tuple[str, ...]) -> None:
    old = replace(kg_question(), filters=tuple(FilterScore(name=name, score=0.75, passed=True) for name in names))
    asked = f"Tell me: {old.question}"
    fixed = kg_fix.refit(replace(old, question=asked), old)
    assert [(score.name, score.score) for score in fixed.filters] == [("malformed_question", 0.0), ("same_facts", 0.75)]
    hops = tuple(replace(hop, question=f"Now, {hop.question}") for hop in old.decomposition)
    assert [each.name for each in kg_fix.refit(replace(old, decomposition=hops), old).filters][1] == "right_from_memory"
    for changes, problem in (
        (
            {"decomposition": (*old.decomposition[:-1], replace(old.decomposition[-1], answer="Kiel"))},
            "only the wording",
        ),
        ({"decomposition": old.decomposition[1:]}, "only the wording"),
        ({"answer_aliases": ("the",)}, "says nothing"),
        ({"question": "Who?"}, "filter malformed_question"),
        ({"question": old.question.replace("?", f" {old.answer}?")}, "filter answer_named"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            kg_fix.refit(replace(old, **changes), old)
