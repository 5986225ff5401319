"""The diff that a curator sees gives the label that the row was made with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mcts.test_reflection import OTHER, PLAN, RIGHT, rollout, tree
from tests.support.rows import AGAIN, DIED, FIRST, MISLED, SECOND
from trailforge.generators.mcts_trajectories.show_mended import MEANINGS, diff_steps, label_of, reasons
from trailforge.mcts.reflection import ReflectionConfig, reflections
from trailforge.rewards import mentions, same_answer
from trailforge.schemas import Rollout, StepPair

PAIR = StepPair(wrong_rollout=1, right_rollout=0, wrong_step=1, right_step=1, diverges_at=1)
ANSWERS = st.sampled_from(["Ann", "Turin", "Rome", "Po", "Tiber"])
FOUND = st.sampled_from(["ab", "ba", "cd", "ef"])


@st.composite
def rollouts(draw: st.DrawFn) -> list[Rollout]:
    """A right one, and wrong ones of the same and of another plan."""
    made = [RIGHT]
    for index, plan in enumerate([PLAN, PLAN, OTHER, OTHER], start=1):
        answers, found = (" ".join(draw(each) for _ in plan) for each in (ANSWERS, FOUND))
        made.append(rollout(index, 1 if plan is PLAN else 2, plan, answers, found, 0.0))
    return made


@given(rollouts())
def test_the_diff_gives_the_label_of_every_pair(made: list[Rollout]) -> None:
    for found in reflections(tree(*made), same_answer, mentions, ReflectionConfig(max_pairs=9)):
        same_plan = found.wrong.node == found.right.node
        diffs = diff_steps(found.wrong.steps, found.right.steps, found.pair.diverges_at)
        assert label_of(diffs, found.pair, same_plan=same_plan) == found.error
        assert reasons(diffs, found.pair, same_plan=same_plan)
        assert found.error in MEANINGS


def test_what_agrees_and_what_differs_part_by_part() -> None:
    retrieval = diff_steps([FIRST, MISLED], [FIRST, AGAIN], 1)
    assert set(retrieval[0].parts.values()) == {"same"}
    assert dict(retrieval[1].parts) == {
        "sub_question": "same", "query": "differs", "passages": "differs", "answer": "differs",
    }  # fmt: skip
    reasoning = diff_steps([FIRST, DIED], [FIRST, SECOND], 1)
    assert [part for part, agreement in reasoning[1].parts.items() if agreement != "same"] == ["answer"]


def test_another_order_and_another_wording_are_alike() -> None:
    turned = replace(SECOND, passages=SECOND.passages[::-1], answer="the city of Vienna", query="Where was Lang?")
    parts = diff_steps([turned], [SECOND], 0)[0].parts
    assert (parts["passages"], parts["answer"], parts["query"]) == ("alike", "alike", "differs")
    assert diff_steps([turned], [SECOND], 1)[0].parts["query"] == "alike"


def test_a_rollout_with_more_steps_has_rows_of_its_own() -> None:
    rows = diff_steps([FIRST], [FIRST, SECOND], 0)
    assert (rows[1].wrong, rows[1].right, rows[1].parts) == (None, SECOND, {})


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        (MISLED, AGAIN, "1 of 2 were found by both"),
        (MISLED, SECOND, "the query is the same"),
        (DIED, SECOND, "the 2 passages are the same, but the answer is another"),
        (DIED, AGAIN, "the query is worded otherwise"),
    ],
)
def test_the_reason_says_what_differs(wrong: object, right: object, said: str) -> None:
    diffs = diff_steps([FIRST, wrong], [FIRST, right], 1)  # type: ignore[list-item]
    told = " ".join(reasons(diffs, PAIR, same_plan=True))
    assert said in told and "Up to step 1 both rollouts agree." in told


def test_another_plan_is_a_decomposition_error() -> None:
    wrong = rollout(1, 2, OTHER, "Ann Rome Tiber", "ab cd gh", 0.0)
    diffs = diff_steps(wrong.steps, RIGHT.steps, 1)
    assert label_of(diffs, PAIR, same_plan=False) == "decomposition"
    assert "At step 2 the plans ask for different things." in reasons(diffs, PAIR, same_plan=False)


def test_without_a_difference_there_is_no_label() -> None:
    diffs = diff_steps([FIRST, SECOND], [FIRST, SECOND], 1)
    assert label_of(diffs, PAIR, same_plan=True) is None
    assert label_of(diffs, PAIR, same_plan=False) is None
    assert label_of(diffs[:1], PAIR, same_plan=True) is None
    assert "do not show" in reasons(diffs, PAIR, same_plan=True)[0]
