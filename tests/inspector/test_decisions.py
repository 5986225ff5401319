"""The log loses nothing that was written, and what holds for a row does not depend on who was read first."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inspector import decision_writer
from trailforge.curation import decisions
from trailforge.curation.decisions import LOG, Merged, append, latest_decisions, merge, now, of_run, read_decisions
from trailforge.schemas import Decision, InvalidInput, OutputError

PEOPLE = ("ann", "ben", "cleo")


def decision(**changes: object) -> Decision:
    fields = {"run_id": "run", "table": "t", "uid": "1", "who": "ann", "when": "2026-01-01T00:00:00.000000Z"}
    return Decision(**{**fields, "action": "accept", **changes})  # type: ignore[arg-type]


def said(who: str, second: int, action: str, **changes: object) -> Decision:
    extra = {"reason": "dull"} if action == "reject" else {}
    return decision(who=who, when=f"2026-01-01T00:00:{second:02d}.000000Z", action=action, **{**extra, **changes})


def fix(who: str, second: int, field: str, value: object) -> Decision:
    return said(who, second, "fix", field=field, value=json.dumps(value))


def ruled(*decisions: Decision) -> tuple[str, dict[str, object]]:
    """Action and fixed values of the one row."""
    (ruling,) = merge(decisions).rulings
    return ruling.action, {each.field: json.loads(each.value) for each in ruling.fixes}


words = st.builds(
    lambda who, second, action, uid, field, value: (
        fix(who, second, field, value) if action == "fix" else said(who, second, action, uid=uid)
    ),
    st.sampled_from(PEOPLE),
    st.integers(0, 3),  # so that many come at the same time
    st.sampled_from(["accept", "reject", "fix", "withdraw"]),
    st.sampled_from("12"),
    st.sampled_from(["answer", "question"]),
    st.integers(0, 1),
)
logs = st.lists(words, max_size=12)


@given(logs, st.randoms(use_true_random=False))
def test_the_order_of_different_people_does_not_matter(log: list[Decision], random: object) -> None:
    queues = {who: [each for each in log if each.who == who] for who in PEOPLE}
    shuffled = []
    while left := [who for who in PEOPLE if queues[who]]:
        shuffled.append(queues[random.choice(left)].pop(0))  # type: ignore[attr-defined]
    assert merge(shuffled) == merge(log)


@given(logs)
def test_a_log_merged_with_itself_says_the_same(log: list[Decision]) -> None:
    assert merge([*log, *log]) == merge(log)


@given(logs)
def test_one_rejection_outweighs_and_every_difference_is_listed(log: list[Decision]) -> None:
    found = merge(log)
    stances = latest_decisions(log)
    last = {(each.uid, each.who): each.action for each in sorted(log, key=lambda each: each.when)}
    assert [(each.uid, each.who) for each in stances] == sorted(key for key in last if last[key] != "withdraw")
    for ruling in found.rulings:
        of_row = [each for each in stances if each.uid == ruling.uid]
        rejecting = [each for each in of_row if each.action == "reject"]
        assert (ruling.action == "reject") == bool(rejecting)
        assert ruling.who == tuple(each.who for each in of_row)
        differ = 0 < len(rejecting) < len(of_row)
        assert differ == any(c.uid == ruling.uid and not c.field for c in found.conflicts)


def test_a_person_may_change_their_mind() -> None:
    assert ruled(said("ann", 1, "reject"), said("ann", 2, "accept"))[0] == "accept"
    assert ruled(said("ann", 2, "accept"), said("ann", 1, "reject"))[0] == "accept"
    assert ruled(said("ann", 1, "accept"), said("ann", 2, "reject"))[0] == "reject"
    assert ruled(said("ann", 1, "reject"), said("ben", 2, "accept"))[0] == "reject"


def test_fixes_add_up_stay_with_an_acceptance_and_go_with_a_rejection() -> None:
    assert ruled(fix("ann", 1, "a", 1), fix("ben", 2, "b", 2)) == ("fix", {"a": 1, "b": 2})
    assert ruled(fix("ann", 1, "a", 1), said("ann", 2, "accept")) == ("fix", {"a": 1})
    assert ruled(fix("ann", 1, "a", 1), said("ann", 2, "reject"), said("ann", 3, "accept")) == ("accept", {})
    assert ruled(fix("ann", 1, "a", 1), said("ben", 2, "reject")) == ("reject", {})


def test_who_withdraws_was_never_heard() -> None:
    log = [said("ann", 1, "reject"), fix("ben", 2, "a", 1), said("ann", 3, "comment", comment="see there")]
    assert ruled(*log)[0] == "reject" and ruled(*log, said("ann", 4, "withdraw")) == ruled(log[1])
    assert merge([*log, said("ann", 4, "withdraw")]).conflicts == ()
    assert ruled(*log, said("ann", 0, "withdraw"))[0] == "reject"
    assert merge([fix("ann", 1, "a", 1), said("ann", 2, "withdraw")]) == Merged(rulings=(), conflicts=())
    assert ruled(fix("ann", 1, "a", 1), said("ann", 2, "withdraw"), said("ann", 3, "accept")) == ("accept", {})


@given(logs, st.sampled_from(PEOPLE))
def test_a_log_with_all_of_one_person_withdrawn_is_the_log_of_the_others(log: list[Decision], who: str) -> None:
    taken_back = [said(who, 9, "withdraw", uid=uid) for uid in "12"]
    assert merge([*log, *taken_back]) == merge(each for each in log if each.who != who)


def test_of_two_values_for_a_field_the_later_one_holds_and_they_are_a_conflict() -> None:
    log = [fix("ben", 1, "a", {"x": 1, "y": 2}), fix("ann", 2, "a", 4)]
    assert ruled(*log) == ("fix", {"a": 4})
    (conflict,) = merge(log).conflicts
    assert (conflict.field, conflict.sides) == ("a", (("ann", "4"), ("ben", '{"x": 1, "y": 2}')))
    alike = fix("ann", 2, "a", {"y": 2, "x": 1})
    assert merge([log[0], alike]).conflicts == ()


def messages(*texts: str) -> list[dict[str, str]]:
    return [{"content": text} for text in texts]


@pytest.mark.parametrize("people", [("ann", "ben"), ("ben", "ann"), ("ann", "ann")])
def test_a_later_fix_of_the_whole_replaces_one_of_its_part(people: tuple[str, str]) -> None:
    part, whole = fix(people[0], 1, "m.1.content", "early"), fix(people[1], 2, "m", messages("a", "late"))
    assert ruled(part, fix(people[0], 1, "m1", "x"), whole) == ("fix", {"m": messages("a", "late"), "m1": "x"})
    (found,) = merge([part, whole]).conflicts or (None,)
    if people[0] == people[1]:
        assert found is None
    else:
        assert found is not None and found.field == "m.1.content"
        assert dict(found.sides) == {people[0]: '"early"', people[1]: '"late"'}


def test_a_later_fix_of_the_part_changes_the_whole_that_somebody_fixed() -> None:
    whole, part = fix("ann", 1, "m", messages("a", "b")), fix("ben", 2, "m.10.content", "late")
    (ruling,) = merge([part, whole]).rulings
    assert [each.field for each in ruling.fixes] == ["m", "m.10.content"]
    assert [c.sides for c in merge([part, whole]).conflicts] == [(("ann", "null"), ("ben", '"late"'))]
    assert merge([whole, fix("ben", 2, "m.1.content", "b")]).conflicts == ()


def test_a_fix_keeps_its_own_time() -> None:
    log = [fix("ann", 1, "a", 1), fix("ben", 2, "a", 2), fix("ann", 3, "b", 3), said("ann", 4, "accept")]
    assert ruled(*log) == ("fix", {"a": 2, "b": 3})


def test_comments_decide_nothing_and_other_runs_are_told_apart() -> None:
    assert merge([said("ann", 1, "comment", comment="see there")]) == Merged(rulings=(), conflicts=())
    assert of_run([decision(), decision(run_id="other")], "run") == [decision()]


def test_what_is_appended_is_read_again(tmp_path: Path) -> None:
    assert read_decisions(tmp_path) == []
    first, second = decision(when=now()), said("ben", 2, "reject", reason="„falsch“\u2028 so")
    append(tmp_path, [first])
    append(tmp_path, [second, first])
    assert read_decisions(tmp_path) == read_decisions(tmp_path / LOG) == [first, second, first]


def test_a_log_that_has_grown_is_read_from_there_on_and_one_that_was_replaced_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed, parse = list[bytes](), decisions._parse_line
    monkeypatch.setattr(decisions, "_parse_line", lambda line, *more: parsed.append(line) or parse(line, *more))
    append(tmp_path, [decision(), decision(uid="2")])
    known = read_decisions(tmp_path)
    append(tmp_path, [decision(uid="3")])
    known.clear()  # what a caller does with its list is its own affair
    assert [each.uid for each in read_decisions(tmp_path)] == ["1", "2", "3"] and len(parsed) == 3
    whole = (tmp_path / LOG).read_bytes()
    (tmp_path / LOG).write_bytes(whole.replace(b'"2"', b'"4"'))
    assert [each.uid for each in read_decisions(tmp_path)] == ["1", "4", "3"] and len(parsed) == 6
    (tmp_path / LOG).write_bytes(whole + b"[]\n")
    with pytest.raises(InvalidInput, match=r"row 4: expected an object"):
        read_decisions(tmp_path)


def test_a_torn_last_line_is_passed_over_and_removed(tmp_path: Path) -> None:
    append(tmp_path, [decision(), decision(uid="2")])
    whole = (tmp_path / LOG).read_bytes()
    for length in range(whole.index(b"\n") + 1, len(whole)):
        (tmp_path / LOG).write_bytes(whole[:length])
        known = read_decisions(tmp_path)
        assert known[:1] == [decision()] and len(known) == 1 + (length == len(whole) - 1)
        append(tmp_path, [decision(uid="3")])
        assert read_decisions(tmp_path) == [*known, decision(uid="3")]


@pytest.mark.parametrize("deep", [b"[" * 5000, b'{"a":' * 5000, b"[" * 150 + b"]" * 150])
def test_a_line_that_is_nested_deeply_is_named_and_as_a_tail_passed_over(tmp_path: Path, deep: bytes) -> None:
    append(tmp_path, [decision()])
    whole = (tmp_path / LOG).read_bytes()
    (tmp_path / LOG).write_bytes(whole + deep)
    assert read_decisions(tmp_path) == [decision()]
    (tmp_path / LOG).write_bytes(whole + deep + b"\n" + whole)
    with pytest.raises(InvalidInput, match=r"row 2: not valid JSON \(it is nested"):
        read_decisions(tmp_path)


def test_a_fix_that_is_nested_deeply_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nested more than 100"):
        append(tmp_path, [decision(action="fix", field="a", value="[" * 150 + "]" * 150)])


def test_a_broken_line_elsewhere_is_named(tmp_path: Path) -> None:
    append(tmp_path, [decision(), decision()])
    path = tmp_path / LOG
    lines = path.read_text().splitlines()
    for bad, problem in (
        ("{", "not valid JSON"),
        ("[]", "expected an object"),
        (lines[1].replace('"accept"', '"like"'), "'like' is none of"),
        (lines[1].replace('"1.1"', '"9.0"'), "schema version 9.0"),
        (lines[1].replace('"accept"', '"reject"'), "must not be empty"),
    ):
        path.write_text(f"{lines[0]}\n{bad}\n{lines[1]}\n")
        with pytest.raises(InvalidInput, match=f"decisions.jsonl, row 2.*{problem}"):
            read_decisions(tmp_path)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (decision(who=" "), "who"),
        (decision(action="reject"), "reason"),
        (decision(action="comment"), "comment"),
        (decision(action="fix", value="1"), "field"),
        (decision(action="fix", field="answer", value="Paris"), "answer"),
    ],
)
def test_a_decision_that_says_too_little_is_not_written(tmp_path: Path, bad: Decision, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        append(tmp_path, [decision(), bad])
    assert caught.value.field == field and read_decisions(tmp_path) == []


def test_many_records_at_once_are_written_and_too_long_a_line_is_not(tmp_path: Path) -> None:
    many = [decision(uid=str(number), comment="x" * 1000) for number in range(1100)]
    append(tmp_path, many)
    assert read_decisions(tmp_path) == many
    with pytest.raises(InvalidInput, match="more than 1,048,576 bytes in a line"):
        append(tmp_path, [decision(comment="x" * (1 << 20))])
    assert len(read_decisions(tmp_path)) == len(many)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "curation").write_text("in the way")
    with pytest.raises(OutputError, match="cannot write"):
        append(tmp_path, [decision()])


def test_two_processes_append_and_a_kill_loses_at_most_the_line_being_written(tmp_path: Path) -> None:
    writers = {
        who: subprocess.Popen(
            [sys.executable, "-m", decision_writer.__name__, str(tmp_path), who], stdout=subprocess.PIPE, text=True
        )
        for who in ("ann", "ben")
    }
    told: dict[str, int] = {}
    for who, writer in writers.items():
        assert writer.stdout is not None
        for _ in range(30):
            told[who] = int(writer.stdout.readline())
    for who, writer in writers.items():
        writer.kill()
        rest = writer.communicate()[0].splitlines()
        told[who] = max([told[who], *(int(line) for line in rest if line.isdigit())])
    written = read_decisions(tmp_path)
    append(tmp_path, [decision(uid="after")])
    for who, last in told.items():
        numbers = [int(each.uid) for each in written if each.who == who]
        assert numbers == list(range(len(numbers))) and last < len(numbers) <= last + 2
    assert len(read_decisions(tmp_path)) == len(written) + 1
