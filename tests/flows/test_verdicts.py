"""What people said of runs, by folder or by log, as what the next run leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.verdicts import refusals
from inspector.decisions import append
from inspector.patterns import append_pattern
from pipelines.files import sha256_of
from schemas import DECISIONS_LOG, PATTERNS_LOG, Decision, InvalidInput, PatternDecision

WHEN = "2026-01-01T00:00:00.000000Z"


def rejection(uid: str, who: str = "ann") -> Decision:
    return Decision(run_id="r", table="inputs", uid=uid, who=who, when=WHEN, action="reject", reason="vague")


def refusal(pattern: str) -> PatternDecision:
    return PatternDecision(
        run_id="r", field="question", pattern=pattern, who="ben", when=WHEN, action="refuse", reason="dull"
    )


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two folders with a decision each, the second with a pattern too."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        append(folder, [rejection(folder.name)])
    append_pattern(two, refusal("who sang"))
    return [one, two]


def test_folders_and_logs_add_up_and_each_log_counts_once(runs: list[Path]) -> None:
    one, two = runs
    said = refusals([one, two, two / DECISIONS_LOG])
    assert said.sources == {"one": "ann: vague", "two": "ann: vague"}
    assert [each.pattern for each in said.patterns] == ["who sang"]
    logs = [one / DECISIONS_LOG, two / DECISIONS_LOG, two / PATTERNS_LOG]
    assert [(each.path, each.rows, each.sha256) for each in said.logs] == [(str(p), 1, sha256_of(p)) for p in logs]
    assert refusals([two / PATTERNS_LOG]).sources == {} and refusals([]).hash == ""


def test_what_changes_nothing_leaves_the_run_what_it_is(runs: list[Path]) -> None:
    one, two = runs
    before = refusals(runs)
    append(one, [Decision(run_id="r", table="inputs", uid="x", who="ann", when=WHEN, action="accept")])
    assert refusals([two, one]).hash == before.hash != refusals([one]).hash
    append(one, [rejection("x", "ben")])
    assert refusals(runs).hash != before.hash


def test_what_is_no_log_is_one_line(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text("")
    (tmp_path / "empty").mkdir()
    for path, problem in (
        (tmp_path / "nowhere", "no such file or folder"),
        (tmp_path / "notes.jsonl", r"or its decisions\.jsonl or patterns\.jsonl"),
        (tmp_path / "empty", "nobody decided anything on this run"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            refusals([path])
    append_pattern(runs[0], refusal("("))
    with pytest.raises(InvalidInput, match="is no regular expression"):
        refusals(runs)
