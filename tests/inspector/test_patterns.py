"""A pattern is refused as long as anybody refuses it, and the log of them loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.curation.verdicts import append_pattern, read_patterns, refused_patterns
from trailforge.schemas import PATTERNS_LOG, InvalidInput, PatternDecision


def said(who: str, second: int, action: Any = "refuse", **changes: Any) -> PatternDecision:
    when = f"2026-01-01T00:00:{second:02d}.000000Z"
    fields: dict[str, Any] = {"run_id": "run", "field": "question", "pattern": "who sang", "reason": f"dull {second}"}
    return PatternDecision(**{**fields, "who": who, "when": when, "action": action, **changes})


words = st.lists(
    st.builds(
        said,
        st.sampled_from(["ann", "ben"]),
        st.integers(0, 59),
        st.sampled_from(["refuse", "withdraw"]),
        pattern=st.sampled_from(["a", "b"]),
        field=st.sampled_from(["question", "answer"]),
    ),
    max_size=10,
    unique_by=lambda each: each.when,
)


@given(words, st.randoms(use_true_random=False))
def test_each_persons_latest_word_counts_in_whatever_order_it_is_read(log: list[PatternDecision], random: Any) -> None:
    latest: dict[tuple[str, str, str], PatternDecision] = {}
    for each in sorted(log, key=lambda each: each.when):
        latest[each.field, each.pattern, each.who] = each
    held = {key[:2] for key, each in latest.items() if each.action == "refuse"}
    found = refused_patterns(log)
    assert [(each.field, each.pattern) for each in found] == sorted(held)
    assert refused_patterns(random.sample(log, len(log)) + log[:2]) == found


def test_who_and_why_are_told_of_those_alone_who_still_refuse_it() -> None:
    log = [said("ben", 1), said("ann", 2), said("cleo", 3), said("cleo", 4, "withdraw", reason="")]
    (found,) = refused_patterns(log)
    assert found.detail == "ann: dull 2; ben: dull 1"


def test_the_log_is_appended_to_and_a_half_written_line_is_passed_over(tmp_path: Path) -> None:
    first, second = said("ann", 1), said("ben", 2, "withdraw", reason="")
    append_pattern(tmp_path, first)
    with open(tmp_path / PATTERNS_LOG, "a") as log:
        log.write('{"run_id": "ru')
    assert read_patterns(tmp_path) == [first]
    append_pattern(tmp_path, second)
    assert read_patterns(tmp_path / PATTERNS_LOG) == [first, second]
    assert read_patterns(tmp_path / "nowhere") == []


def test_a_word_that_says_too_little_is_refused_and_a_bad_line_is_named(tmp_path: Path) -> None:
    for bad in (said("ann", 1, reason=" "), said("ann", 1, pattern=""), said("", 1)):
        with pytest.raises(InvalidInput, match="must not be empty"):
            append_pattern(tmp_path, bad)
    append_pattern(tmp_path, said("ann", 1))
    path = tmp_path / PATTERNS_LOG
    path.write_text(path.read_text() + '{"schema_version": "9.0"}\n')
    with pytest.raises(InvalidInput, match=r"row 2: PatternDecision of schema version 9\.0"):
        read_patterns(tmp_path)
