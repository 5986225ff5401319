"""What gives the answer of a bundle's question away, and what only looks so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.bundle_questions import choice, question
from trailforge.filters.answers import names_two_sides
from trailforge.filters.bundles import answer_given_away
from trailforge.schemas import PlanNode


def test_an_answer_that_the_question_or_the_plan_tells_is_leaked() -> None:
    told = question(question="Who of the University of Bergen designed the turbine?")
    assert not answer_given_away(told).keep
    planned = question(dag_nodes=(PlanNode(node_id="A", query="university of Bergen, blades", tool="Academic"),))
    assert answer_given_away(planned).detail == "'University of Bergen' stands in 'university of Bergen, blades'"
    assert answer_given_away(choice("A", "B", "C")).keep
    sides = question(question="Which has fewer parameters, FUSION or the snnTrans-DHZ?", answer="snnTrans-DHZ")
    assert answer_given_away(sides).keep and not answer_given_away(replace(sides, answer="parameters")).keep
    other = replace(sides, answer="the DHZ network", aliases=("the snnTrans-DHZ",))
    assert answer_given_away(other).keep and not answer_given_away(replace(other, aliases=("parameters",))).keep


def test_a_number_of_something_else_than_is_asked_for_is_no_leak() -> None:
    shot = question(question="How many three-point shots did Lind make?", answer="three", aliases=("3",))
    assert answer_given_away(shot).keep
    assert not answer_given_away(replace(shot, question="How many pages has the three-page report?")).keep


@pytest.mark.parametrize(
    ("asked", "answer", "is_listed"),
    [
        ("Of the harbours Visby, Slite, Klinte and Ronehamn, which got the most?", "Visby", True),
        ("Of the harbours Visby, Slite, Klinte and Ronehamn, which got the most?", "Ronehamn", True),
        ("Which of Visby, Slite or Klinte got the most?", "Klinte", True),
        ("Which of Visby, Slite or Klinte got the most?", "Gotland", False),
        ("Of the Port of Visby, the Slite Yard and the Klinte Mill, which got the most?", "Slite Yard", True),
        ("In which year was the mayor of Visby, a town on Gotland, chosen?", "Visby", False),
        ("Who is the mayor of Visby, which lies on Gotland?", "Visby", False),
    ],
)
def test_the_answer_may_stand_in_a_list_to_choose_from(asked: str, answer: str, is_listed: bool) -> None:
    row = question(question=asked, answer=answer, dag_nodes=())
    assert names_two_sides(row) == is_listed
    assert answer_given_away(row).keep == (is_listed or answer not in asked)
