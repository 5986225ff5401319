"""Facts that a model was asked for once more: found, not found, or found beside another answer."""

from __future__ import annotations

import pytest

from trailforge.filters.facts import SoughtFact
from trailforge.filters.readings import count_open, count_rivals, count_unstated
from trailforge.schemas import FactReading, OpenBranch

WHO, WHERE = SoughtFact("Who?", ("Ann",)), SoughtFact("Where?", ("Graz", "Gratz"))


@pytest.mark.parametrize(
    ("answer", "rivals"),
    [("Graz", 0), ("gratz; Graz", 0), ("Graz, Austria; Graz", 0), ("Linz; Graz", 1), ("Linz", 0), ("", 0)],
)
def test_an_answer_beside_another_one_is_a_choice(answer: str, rivals: int) -> None:
    """What it is not called at all is `unstated_answer`'s."""
    readings = [FactReading(question="Who?", answer="Ann"), FactReading(question="Where?", answer=answer)]
    verdict = count_rivals(readings, [WHO, WHERE], lambda _: False)
    assert (verdict.keep, verdict.reason, verdict.score) == (not rivals, "other_answers", rivals)
    assert not rivals or "'Where?' is 'Linz; Graz'" in verdict.detail


def test_an_answer_that_the_episode_rules_out_is_no_other_one() -> None:
    readings = [FactReading(question="Where?", answer="Linz; Graz; Wels")]
    assert count_rivals(readings, [WHERE], lambda name: name in ("Linz", "Wels")).keep
    assert not count_rivals(readings, [WHERE], lambda name: name == "Linz").keep


def test_one_fact_that_is_not_stated_rejects() -> None:
    found = FactReading(question="Who?", answer="Ann")
    assert count_unstated([found], [WHO]).keep and count_unstated([], []).keep
    verdict = count_unstated([found, FactReading(question="Where?", answer="")], [WHO, WHERE])
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "unstated_answer", 1.0)
    assert "'Where?' is not stated" in verdict.detail


@pytest.mark.parametrize(
    ("answer", "keep"),
    [("Graz", True), ("gratz", True), ("Graz, Austria", True), ("Linz; Graz", True), ("Linz", False), ("1950", False)],
)
def test_a_reading_of_something_else_rejects_too(answer: str, keep: bool) -> None:
    verdict = count_unstated([FactReading(question="Where?", answer=answer)], [WHO, WHERE])
    assert verdict.keep is keep and (keep or f"answered {answer!r}" in verdict.detail)


@pytest.mark.parametrize(
    ("name", "answer", "keep"),
    [
        ("Henry III", "Henry II", False),
        ("John Brown", "John Smith", False),
        ("22 December 1899", "24 December 1899", False),
        ("22 December 1899", "December 22, 1899", True),
        ("poison", "forced to take poison", True),
        ("Anna Amalia of Baden-Durlach", "Countess Anna Amalie of Baden-Durlach", True),
        ("1899", "December 22, 1899", True),
        ("French", "France", True),
    ],
)
def test_a_reading_may_say_more_or_less_of_the_answer_and_not_another(name: str, answer: str, keep: bool) -> None:
    fact = SoughtFact("What?", (name,))
    assert count_unstated([FactReading(question="What?", answer=answer)], [fact]).keep is keep


@pytest.mark.parametrize("gold", ["yes", "no"])
def test_of_yes_and_no_the_other_one_rejects(gold: str) -> None:
    fact = SoughtFact("Are both French?", (gold,))
    kept = [count_unstated([FactReading(question=fact.question, answer=each)], [fact]).keep for each in ("yes", "no")]
    assert kept == [gold == "yes", gold == "no"]


def test_names_at_open_links_count_once_and_only_where_rules_bear_them_out() -> None:
    named = [OpenBranch(link="friend", name=name, why="never looked at") for name in ("Ann", "Bo", "Ann", "Cy")]
    verdict = count_open(named, lambda name: name != "Bo")
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "open_branch", 2.0)
    assert verdict.detail.startswith("'Ann' as friend: never looked at")
    assert count_open(named, lambda _: False).keep and count_open([], lambda _: True).keep
