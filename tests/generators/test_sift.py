"""Filters come first, caps after; what is over a cap says so."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.support.rows import AGAIN, DIED, FIRST, MISLED, QUESTION, SECOND, trajectory
from trailforge.filters import FilterConfig
from trailforge.generators.mcts_trajectories.choice import choose_rows, choose_worded, over_cap
from trailforge.generators.mcts_trajectories.telling.doubts import Doubt
from trailforge.inference import Meter
from trailforge.mcts.reflection import ReflectionConfig
from trailforge.pipelines.life import Chosen
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
    accepted, rejected = choose_rows(QUESTION, candidates, FilterConfig(), ReflectionConfig(**caps))
    assert len(accepted) + len(rejected) == len(candidates)
    why = {row.uid: verdict.reason for row, verdict in rejected}
    return [why.get(row.uid) for row in candidates]


def test_what_is_over_a_cap_is_rejected_for_it() -> None:
    assert reasons([misreads("1890", 1), misreads("Beverly Hills", 2)], max_pairs=1) == [None, "cap"]
    assert reasons([misreads("1890", 1), misreads("Beverly Hills", 2)], max_pairs=2) == [None, None]


def test_a_rejected_row_makes_room_for_the_next() -> None:
    rows = [replace(WRONG, uid="w"), replace(PLAIN, uid="c"), found_by(3, SECOND)]
    assert reasons(rows, max_correct=1) == ["unrewarded_answer", None, "cap"]


def test_a_row_that_a_filter_rejects_is_not_called_over_the_cap() -> None:
    rows = [replace(PLAIN, uid="c"), replace(WRONG, uid="w")]
    assert reasons(rows, max_correct=1) == [None, "unrewarded_answer"]


def test_kinds_do_not_take_each_others_room() -> None:
    retrieval = replace(trajectory(FIRST, MISLED, AGAIN, error="retrieval"), uid="r")
    rows = [replace(PLAIN, uid="c"), misreads("1890", 1), retrieval]
    assert reasons(rows, max_correct=1, max_pairs=1) == [None, None, None]


def test_the_cap_says_how_many_there_are_and_how_many_are_wanted() -> None:
    verdict = over_cap(misreads("1890", 2), [misreads("Beverly Hills", 1)], ReflectionConfig(max_pairs=1))
    assert (verdict.reason, verdict.score) == ("cap", 1.0)
    assert "1 rows of kind reasoning, 1 are wanted" in verdict.detail


# What a doubt leaves room for

COPY = replace(SECOND, passages=(replace(SECOND.passages[0], id="copy"),))
ENDINGS = (SECOND, AGAIN, replace(COPY, query="Lang's birthplace"), replace(COPY, query="When was Fritz Lang born?"))
"""Of each two that show the same, by another query."""
QUERIES = tuple(step.query for step in ENDINGS)


def told(rows: Sequence[Trajectory], denied: Collection[str], **caps: int) -> tuple[Chosen[Trajectory], list[str]]:
    """What is left of rows of which a model denies queries, and the uids of those that it was asked about."""
    asked: list[str] = []

    async def tell(row: Trajectory, meter: Meter) -> tuple[Trajectory, list[Doubt]]:
        del meter
        asked.append(row.uid)
        return row, [Doubt("unfit_query", step) for step in row.steps if step.query in denied]

    def choose_beside(candidates: Sequence[Trajectory], kept: Sequence[Trajectory] = ()) -> Chosen[Trajectory]:
        return choose_rows(QUESTION, candidates, FilterConfig(), ReflectionConfig(**caps), kept)

    chosen, _ = asyncio.run(choose_worded(choose_beside(rows), tell, choose_beside))
    return chosen, asked


def test_what_was_turned_away_as_duplicate_of_a_doubted_row_is_told_in_its_place() -> None:
    twins = [replace(PLAIN, uid="garbled"), replace(trajectory(FIRST, AGAIN), uid="plain")]
    assert reasons(twins) == [None, "duplicate_trajectory"]
    chosen, asked = told(twins, {SECOND.query})
    assert [row.uid for row in chosen.kept] == ["plain"] and asked == ["garbled", "plain"]
    assert [(row.uid, verdict.reason) for row, verdict in chosen.rejected] == [("garbled", "unfit_query")]


def test_a_doubted_row_makes_room_for_one_that_was_over_the_cap() -> None:
    other = replace(trajectory(FIRST, ENDINGS[2]), uid="other")
    rows = [replace(PLAIN, uid="garbled"), replace(found_by(3, SECOND), uid="garbled, too"), other]
    chosen, asked = told(rows, {SECOND.query}, max_correct=1)
    assert [row.uid for row in chosen.kept] == ["other"]
    assert asked == ["garbled", "other"], "no call for a row that rests on what is doubted"


@given(st.data())
def test_at_the_end_nothing_sound_is_turned_away_for_a_row_that_is_doubted(data: st.DataObject) -> None:
    """Whatever is doubted: each row is kept or rejected, once; for want of room or as a duplicate beside kept ones."""
    endings = st.lists(st.tuples(st.sampled_from(ENDINGS), st.sampled_from((None, "1890", "1926"))), max_size=7)
    rows = []
    for number, (last, mistake) in enumerate(data.draw(endings)):
        steps = (FIRST, replace(DIED, answer=mistake), last) if mistake else (FIRST, last)
        rows.append(replace(trajectory(*steps, error="reasoning" if mistake else None), uid=str(number)))
    denied = data.draw(st.sets(st.sampled_from(QUERIES)))
    caps = {"max_correct": data.draw(st.integers(0, 2)), "max_pairs": data.draw(st.integers(0, 2))}
    chosen, asked = told(rows, denied, **caps)
    assert sorted([*(row.uid for row in chosen.kept), *(row.uid for row, _ in chosen.rejected)]) == sorted(
        row.uid for row in rows
    )
    assert len(set(asked)) == len(asked)
    assert not any(step.query in denied for row in chosen.kept for step in row.steps)
    again = choose_rows(QUESTION, chosen.kept, FilterConfig(), ReflectionConfig(**caps))
    assert list(again.kept) == list(chosen.kept), "as `verify` sifts them"
    beside = choose_rows(
        QUESTION, [row for row, _ in chosen.rejected], FilterConfig(), ReflectionConfig(**caps), chosen.kept
    )
    free = {row.uid for row in beside.kept}
    assert all(verdict.reason == "unfit_query" for row, verdict in chosen.rejected if row.uid in free)
    if not denied:
        assert chosen == choose_rows(QUESTION, rows, FilterConfig(), ReflectionConfig(**caps))
