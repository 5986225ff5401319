"""Which sources people refuse, and that they are left out."""

from __future__ import annotations

import pytest

from pipelines.sources.refused import refused
from schemas import Ruling


def ruling(action: str, uid: str = "r", table: str = "mcts_trajectories", source_id: str = "q") -> Ruling:
    return Ruling(table=table, uid=uid, action=action, source_id=source_id)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rulings", "expected"),
    [
        ([ruling("reject")], {"q"}),
        ([ruling("accept")], set()),
        ([ruling("reject", "a"), ruling("accept", "b")], set()),
        ([ruling("reject", "a"), ruling("fix", "b")], set()),
        ([ruling("reject", "a"), ruling("reject", "b"), ruling("accept", "c", source_id="p")], {"q"}),
        ([ruling("reject", "q", "inputs"), ruling("accept", "b")], {"q"}),
        ([ruling("accept", "q", "inputs")], set()),
        ([ruling("reject", table="rejected"), ruling("reject", table="bundle_questions", source_id="")], set()),
    ],
)
def test_a_source_is_refused(rulings: list[Ruling], expected: set[str]) -> None:
    assert refused(rulings) == refused(reversed(rulings)) == expected
