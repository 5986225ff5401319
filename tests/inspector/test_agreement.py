"""Agreement of people with each other and with the filters."""

from __future__ import annotations

import pytest

from trailforge.curation.agreement import between_people, with_filters
from trailforge.curation.decisions import LatestDecision


def stances(who: str, kept: str, table: str = "t") -> list[LatestDecision]:
    """A person's answers on rows 0, 1, …: `+` keep, `-` reject, a blank: none."""
    return [
        LatestDecision(
            table=table, uid=str(n), who=who, when="", action="accept" if sign == "+" else "reject",
            reason="", fixes=(), source_id="",
        )
        for n, sign in enumerate(kept) if sign != " "
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "rows", "same", "kappa"),
    [
        ("+" * 25 + "-" * 25, "+" * 20 + "-" * 5 + "+" * 10 + "-" * 15, 50, 35, 0.4),  # 35/50 seen, 1/2 by chance
        ("++--", "++--", 4, 4, 1.0),
        ("+-+-", "-+-+", 4, 0, -1.0),
        ("+++", "+++", 3, 3, None),
        ("++ -", "+-+ ", 2, 1, 0.0),
    ],
)
def test_kappa_of_two_people(one: str, other: str, rows: int, same: int, kappa: float | None) -> None:
    (found,) = between_people([*stances("b", other), *stances("a", one)])
    assert (found.people, found.rows, found.same) == (("a", "b"), rows, same)
    assert found.kappa == (None if kappa is None else pytest.approx(kappa))


def test_people_without_a_common_row_are_no_pair() -> None:
    assert between_people([*stances("a", "+ "), *stances("b", " +"), *stances("c", "+", "other")]) == []


def test_filters_and_people() -> None:
    (found,) = with_filters([*stances("a", "++-"), *stances("a", "+---", "rejected")])
    assert (found.accepted, found.accepted_too, found.rejected, found.rejected_too) == (3, 2, 4, 3)
