"""A word on a row is checked with what others said, and is written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trailforge.curation.decisions import latest_decisions, read_decisions
from trailforge.inspector.deciding import decide, make_fix, parts_of
from trailforge.pipelines.curated import value_at
from trailforge.schemas import InvalidInput, Ruling

ROW = {
    "uid": "u", "question_id": "q", "answer": "Kiel", "num_hops": 2, "answer_aliases": ["a", "b"],
    "messages": [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "There."}],
}  # fmt: skip


def anything(row: Mapping[str, Any], ruling: Ruling) -> None:
    """Rules that allow everything."""


def no_two_fixes(row: Mapping[str, Any], ruling: Ruling) -> None:
    if len(ruling.fixes) > 1:
        raise InvalidInput("one at a time", field=ruling.fixes[1].field)


def say(folder: Path, *words: Mapping[str, str], check: Any = anything, who: str = "ann") -> None:
    decide(folder, "run", "mcts_trajectories", ROW, who, words, check)


def test_words_are_in_the_log_with_who_and_what(tmp_path: Path) -> None:
    say(tmp_path, {"action": "reject", "reason": "odd"}, {"action": "comment", "comment": "see step 2"})
    first, second = read_decisions(tmp_path)
    assert (first.run_id, first.table, first.uid, first.who, first.reason) == (
        "run",
        "mcts_trajectories",
        "u",
        "ann",
        "odd",
    )
    assert first.source_id == "q" and second.comment == "see step 2" and first.when <= second.when


def test_words_that_do_not_fit_with_earlier_ones_are_not_written(tmp_path: Path) -> None:
    say(tmp_path, make_fix(ROW, "answer", "Lübeck"), check=no_two_fixes)
    with pytest.raises(InvalidInput, match="one at a time"):
        say(tmp_path, make_fix(ROW, "num_hops", "3"), {"action": "accept"}, check=no_two_fixes, who="ben")
    with pytest.raises(InvalidInput, match="must not be empty"):
        say(tmp_path, {"action": "accept"}, {"action": "reject", "reason": " "})
    assert [each.value for each in read_decisions(tmp_path)] == ['"Lübeck"']


def test_one_takes_back_what_was_said_and_what_others_said_has_to_hold_without_it(tmp_path: Path) -> None:
    def only_together(row: Mapping[str, Any], ruling: Ruling) -> None:
        if {fix.field for fix in ruling.fixes} == {"num_hops"}:
            raise InvalidInput("not without the answer", field="num_hops")

    say(tmp_path, {"action": "comment", "comment": "see step 2"})
    for who in ("ann", "ben"):
        with pytest.raises(InvalidInput, match=f"{who} decided nothing on row u"):
            say(tmp_path, {"action": "withdraw"}, who=who)
    say(tmp_path, make_fix(ROW, "answer", "Lübeck"))
    say(tmp_path, make_fix(ROW, "num_hops", "3"), check=only_together, who="ben")
    with pytest.raises(InvalidInput, match="not without the answer"):
        say(tmp_path, {"action": "withdraw"}, check=only_together)
    say(tmp_path, {"action": "withdraw"}, {"action": "comment", "comment": "mine"}, check=only_together, who="ben")
    assert [each.who for each in latest_decisions(read_decisions(tmp_path))] == ["ann"]
    say(tmp_path, {"action": "withdraw"}, check=only_together)
    assert latest_decisions(read_decisions(tmp_path)) == [] and len(read_decisions(tmp_path)) == 6


def test_what_leaves_no_valid_row_can_be_taken_back(tmp_path: Path) -> None:
    for field, value, who in (("answer", "Lübeck", "ann"), ("num_hops", "3", "ben"), ("question_id", "r", "cleo")):
        say(tmp_path, make_fix(ROW, field, value), who=who)
    for who in ("ann", "ben"):
        say(tmp_path, {"action": "withdraw"}, check=no_two_fixes, who=who)
    assert [each.who for each in latest_decisions(read_decisions(tmp_path))] == ["cleo"]


def test_a_fix_that_changes_nothing_is_none(tmp_path: Path) -> None:
    for field, text in (
        ("answer", "Kiel"),
        ("num_hops", "2"),
        ("answer_aliases", '["a","b"]'),
        ("messages.1.role", "assistant"),
    ):
        with pytest.raises(InvalidInput, match=f"'{field}': has that value already"):
            say(tmp_path, make_fix(ROW, field, text))
    say(tmp_path, make_fix(ROW, "answer", "Lübeck"))
    say(tmp_path, make_fix(ROW, "answer", "Kiel"), who="ben")
    assert [json.loads(each.value) for each in read_decisions(tmp_path)] == ["Lübeck", "Kiel"]


def test_what_is_no_text_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="what UTF-8 cannot write"):
        say(tmp_path, {"action": "reject", "reason": "\udcff bad"})
    assert read_decisions(tmp_path) == []


def test_a_fix_is_text_where_the_row_has_text() -> None:
    assert json.loads(make_fix(ROW, "messages.1.content", '"Here."')["value"]) == '"Here."'
    assert json.loads(make_fix(ROW, "num_hops", "3")["value"]) == 3
    assert value_at(ROW, "messages.0.role") == "user"
    for field in (
        "nothing",
        "messages.2.content",
        "answer.0",
        "messages.role",
        "messages.²",
        "messages.-1",
        "messages.01",
    ):
        with pytest.raises(InvalidInput, match="no such field"):
            make_fix(ROW, field, "x")


def test_parts_are_what_a_person_can_change() -> None:
    fields = ("answer", "answer_aliases", "messages", "num_hops")
    parts = parts_of(ROW, fields)
    assert parts == [
        "answer", "answer_aliases", "messages.0.role", "messages.0.content", "messages.1.role", "messages.1.content",
        "num_hops",
    ]  # fmt: skip
    assert all(value_at(ROW, part) is not None for part in parts)


def test_a_word_on_a_table_that_is_not_known_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="'video_questions'"):
        decide(tmp_path, "run", "video_questions", ROW, "ann", [{"action": "reject", "reason": "odd"}], anything)
    assert read_decisions(tmp_path) == []
