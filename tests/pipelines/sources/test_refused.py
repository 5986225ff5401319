"""Which sources people refuse, and that they are left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.intake import take_in_documents, take_in_questions, write_settings
from pipelines.sources.refused import refused
from schemas import InvalidInput, Question, RejectedRow, Ruling, SourceDocument, read_parquet, read_rows
from tests.pipelines.support import questions_file
from tests.support import world

SETTINGS: dict[str, Any] = {
    "dataset": "mcts_trajectories",
    "config_hash": "c",
    "config": "{}",
    "shard_size": 8,
    "limit": None,
}


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


def test_refused_questions_are_left_out_and_counted(tmp_path: Path) -> None:
    source = questions_file(tmp_path / "q.jsonl", count=21)
    out = frozenset({world.question(0, 2).id, world.question(9, 3).id, "not there"})
    settings = take_in_questions(source, tmp_path / "run", **SETTINGS, refused=out)
    write_settings(tmp_path / "run", settings)
    left = [q.id for q in read_rows([tmp_path / "run" / s.input for s in settings.shards], Question)]
    every = take_in_questions(source, tmp_path / "every", **SETTINGS)
    assert len(left) == every.items - 2 == settings.items and not out & set(left)
    assert settings.run_id != every.run_id
    (books,) = settings.books
    assert books.balance == 0
    assert {c.reason: c.count for c in books.rejected} == {"invalid_input": 1, "rejected_by_curator": 2}
    rows = read_parquet(tmp_path / "run" / "rejected" / "part-inputs.parquet", RejectedRow)
    assert [(row.uid, row.reason) for row in rows[1:]] == [
        (world.question(0, 2).id, "rejected_by_curator"),
        (world.question(9, 3).id, "rejected_by_curator"),
    ]


def test_refused_ones_do_not_count_as_invalid_nor_towards_the_limit(tmp_path: Path) -> None:
    source = questions_file(tmp_path / "q.jsonl", count=20, broken_row=None)
    ids = [world.question(n, (2, 3)[n % 2]).id for n in range(20)]
    settings = take_in_questions(source, tmp_path / "run", **{**SETTINGS, "limit": 3}, refused=frozenset(ids[:10]))
    assert settings.items == 3 and settings.sources[0].rows == 13
    with pytest.raises(InvalidInput, match="holds no questions that people did not reject"):
        take_in_questions(source, tmp_path / "none", **SETTINGS, refused=frozenset(ids))


def test_refused_documents_are_left_out(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "sample_data" / "documents.jsonl"
    every = take_in_documents([source], tmp_path / "every", **SETTINGS)
    write_settings(tmp_path / "every", every)
    first = next(iter(read_rows([tmp_path / "every" / every.shards[0].input], SourceDocument)))
    settings = take_in_documents([source], tmp_path / "run", **SETTINGS, refused={first.id})
    assert settings.items == every.items - 1
