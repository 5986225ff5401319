"""The two rewards by which RAGSearch trains, against sums done by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.rewards.graph_r1 import GraphR1Constants, graph_r1_reward
from trailforge.rewards.search_r1 import SearchR1Constants, search_r1_reward

TURNS = st.lists(st.booleans(), max_size=6)
PAID_FORM = SearchR1Constants(structure=0.2, final=0.1)


@pytest.mark.parametrize(
    ("answer", "turns", "format", "total"),
    [
        (1.0, [], 0.0, -1.0),
        (1.0, [False, False], 0.0, -1.0),
        (1.0, [True], 0.5, -0.5),  # the answer is not paid
        (1.0, [True, False], 0.5, -0.5),
        (1.0, [True, True], 1.0, 1.0),
        (0.4, [True, True], 1.0, 0.4),
        (0.0, [True, True], 1.0, 0.0),
        (0.4, [True, True, True, True], 1.0, 0.4),  # at most 1
        (0.4, [False, True, True], 1.0, 0.4),  # a bad turn among good ones costs nothing
    ],
)
def test_graph_r1(answer: float, turns: list[bool], format: float, total: float) -> None:
    reward = graph_r1_reward(answer=answer, well_formed_turns=turns)
    assert (reward.format, reward.answer) == (format, answer)
    assert reward.total == pytest.approx(total)


def test_constants_of_graph_r1() -> None:
    constants = GraphR1Constants(base=-0.5, pay_per_turn=0.25, most_pay=0.5)
    assert graph_r1_reward(answer=0.5, well_formed_turns=[True], constants=constants).total == -0.25
    assert graph_r1_reward(answer=0.5, well_formed_turns=[True] * 3, constants=constants).total == 0.5


@given(st.floats(0, 1), TURNS)
def test_one_more_good_turn_never_costs(answer: float, turns: list[bool]) -> None:
    before = graph_r1_reward(answer=answer, well_formed_turns=turns).total
    after = graph_r1_reward(answer=answer, well_formed_turns=[*turns, True]).total
    assert -1.0 <= before <= after <= 1.0


@pytest.mark.parametrize(
    ("exact", "has_answer", "holds", "plain", "paid_form"),
    [
        (1.0, True, True, 1.0, 1.0),
        (1.0, True, False, 1.0, 0.8),
        (0.0, True, True, 0.0, 0.2),
        (0.0, True, False, 0.0, 0.1),
        (0.0, False, True, 0.0, 0.2),
        (0.0, False, False, 0.0, 0.0),
    ],
)
def test_search_r1(exact: float, has_answer: bool, holds: bool, plain: float, paid_form: float) -> None:
    for constants, expected in ((SearchR1Constants(), plain), (PAID_FORM, paid_form)):
        reward = search_r1_reward(exact_match=exact, has_answer=has_answer, format_holds=holds, constants=constants)
        assert reward.total == pytest.approx(expected)
        assert reward.total == pytest.approx(reward.exact_match + reward.format)
