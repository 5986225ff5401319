"""Which candidates of a question become rows: those that every filter keeps, as many of a kind as are wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trailforge.filters import FilterConfig, first_rejection, judge_trajectory
from trailforge.mcts.reflection import ReflectionConfig
from trailforge.schemas import Question, Trajectory, Verdict

CAP = "cap"


def sift(
    question: Question, candidates: Sequence[Trajectory], filters: FilterConfig, caps: ReflectionConfig
) -> tuple[list[Trajectory], list[tuple[Trajectory, Verdict]]]:
    """The accepted candidates, in order, and the others with the first verdict against them.

    Filters come before caps: a row that a filter rejects makes room for the next one of its kind.
    """
    accepted: list[Trajectory] = []
    rejected: list[tuple[Trajectory, Verdict]] = []
    for row in candidates:
        verdict = first_rejection([*judge_trajectory(row, question, accepted, filters), over_cap(row, accepted, caps)])
        if verdict is None:
            accepted.append(row)
        else:
            rejected.append((row, verdict))
    return accepted, rejected


def over_cap(row: Trajectory, accepted: Sequence[Trajectory], caps: ReflectionConfig) -> Verdict:
    """The question has rows enough of this kind. Score: how many there are."""
    have, room = count_kinds(accepted)[kind_of(row)], _room(row, caps)
    detail = "" if have < room else f"the question has {have} rows of kind {kind_of(row)}, {room} are wanted"
    return Verdict(keep=have < room, reason=CAP, score=float(have), detail=detail)


def count_kinds(rows: Sequence[Trajectory]) -> Counter[str]:
    """How many rows there are of each kind: `correct`, or a reflective row's error type."""
    return Counter(map(kind_of, rows))


def kind_of(row: Trajectory) -> str:
    """`correct`, or the type of the error that is mended."""
    return row.reflection_error or row.kind


def _room(row: Trajectory, caps: ReflectionConfig) -> int:
    return caps.max_pairs if row.reflection_error else caps.max_correct
