"""Filters come first, caps after; what is over a cap says so."""

from __future__ import annotations

from dataclasses import replace

from tests.support.rows import AGAIN, DIED, FIRST, MISLED, QUESTION, SECOND, trajectory
from trailforge.filters import FilterConfig
from trailforge.generators.mcts_trajectories.choice import over_cap, sift
from trailforge.mcts.reflection import ReflectionConfig
from trailforge.schemas import Step, Trajectory

PLAIN = trajectory()
WRONG = trajectory(FIRST, replace(SECOND, answer="Berlin"))


def misreads(answer: str, number: int) -> Trajectory:
    mistake = replace(DIED, answer=answer)
    return replace(trajectory(FIRST, mistake, SECOND, error="reasoning"), uid=f"m{number}")


def found_by(number: int, step: Step) -> Trajectory:
    """A correct row that found its last answer by another copy of that step's passage."""
    copied = replace(step.passages[0], id=f"copy{number}")
    return replace(trajectory(FIRST, replace(step, passages=(copied,))), uid=f"c{number}")


def reasons(candidates: list[Trajectory], **caps: int) -> list[str | None]:
    """For each candidate, what it was rejected for."""
    accepted, rejected = sift(QUESTION, candidates, FilterConfig(), ReflectionConfig(**caps))
    assert len(accepted) + len(rejected) == len(candidates)
    why = {row.uid: verdict.reason for row, verdict in rejected}
    return [why.get(row.uid) for row in candidates]


def test_what_is_over_a_cap_is_rejected_for_it() -> None:
    assert reasons([misreads("1890", 1), misreads("Beverly Hills", 2)], max_pairs=1) == [None, "cap"]
    assert reasons([misreads("1890", 1), misreads("Beverly Hills", 2)], max_pairs=2) == [None, None]


def test_a_rejected_row_makes_room_for_the_next() -> None:
    rows = [replace(WRONG, uid="w"), replace(PLAIN, uid="c"), found_by(3, SECOND)]
    assert reasons(rows, max_correct=1) == ["wrong_answer", None, "cap"]


def test_a_row_that_a_filter_rejects_is_not_called_over_the_cap() -> None:
    rows = [replace(PLAIN, uid="c"), replace(WRONG, uid="w")]
    assert reasons(rows, max_correct=1) == [None, "wrong_answer"]


def test_kinds_do_not_take_each_others_room() -> None:
    retrieval = replace(trajectory(FIRST, MISLED, AGAIN, error="retrieval"), uid="r")
    rows = [replace(PLAIN, uid="c"), misreads("1890", 1), retrieval]
    assert reasons(rows, max_correct=1, max_pairs=1) == [None, None, None]


def test_the_cap_says_how_many_there_are_and_how_many_are_wanted() -> None:
    verdict = over_cap(misreads("1890", 2), [misreads("Beverly Hills", 1)], ReflectionConfig(max_pairs=1))
    assert (verdict.reason, verdict.score) == ("cap", 1.0)
    assert "1 rows of kind reasoning, 1 are wanted" in verdict.detail
