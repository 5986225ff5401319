"""`curation.yaml`: what it says is read, what is wrong in it is said in a line, and rows are divided between people."""

from __future__ import annotations

from pathlib import Path

import pytest

from trailforge.curation.agreement import by_reason
from trailforge.curation.decisions import LatestDecision
from trailforge.curation.guide import DEFAULT_REASONS, CurationGuide, TableGuide, find_guide, read_guide
from trailforge.schemas import InvalidInput

TABLES = ("mcts_trajectories", "rejected")
UIDS = [f"u{number}" for number in range(1000)]


def read(tmp_path: Path, text: str) -> CurationGuide:
    path = tmp_path / "curation.yaml"
    path.write_text(text)
    return read_guide(path, TABLES)


def test_a_table_has_what_its_section_says_and_else_what_is_said_for_all(tmp_path: Path) -> None:
    guide = read(
        tmp_path,
        "annotators: {ann: [], ben: [rejected], eve: [mcts_trajectories]}\noverlap: 0.5\nreasons: [bad,  'very  bad']\n"
        "guidelines: |\n  Read it.\n  All.\ntables: {rejected: {overlap: 0, reasons: [right]}}\n",
    )
    mine, rejected = guide.of("mcts_trajectories"), guide.of("rejected")
    assert mine == TableGuide(
        reasons=("bad", "very bad"), guidelines="Read it.\nAll.", overlap=0.5, annotators=("ann", "eve")
    )
    assert rejected.reasons == ("right",) and rejected.overlap == 0 and rejected.annotators == ("ann", "ben")
    assert read_guide(None, TABLES).of("rejected") == TableGuide(reasons=DEFAULT_REASONS)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("resons: [a]", "resons"),
        ("reasons: []", "reasons"),
        ("reasons: [a, a]", "reasons"),
        ("reasons: [a, '']", "reasons"),
        ("reasons: [1,2]", "reasons"),
        (f"reasons: {[*'abcdefghij']}", "reasons"),
        ("annotators: ann", "annotators"),
        ("annotators: {ann: [trees]}", "annotators.ann"),
        ("annotators: [ann]\noverlap: 0.2", "overlap"),
        ("annotators: [ann, ben]\noverlap: 1.2", "overlap"),
        ("annotators: [ann, ben]\npeople: 1", "people"),
        ("tables: {trees: {}}", "tables.trees"),
        ("tables: {rejected: [a]}", "tables.rejected"),
        ("tables: {rejected: {annotators: [a]}}", "tables.rejected.annotators"),
        ("tables: {rejected: {guidelines: 3}}", "tables.rejected.guidelines"),
        ("tables: {rejected: {reasons: x}}", "tables.rejected.reasons"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_field(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path, text)
    assert caught.value.field == field and str(tmp_path / "curation.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_guide_is_found_in_the_run_or_beside_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    assert find_guide(run) is None
    (tmp_path / "curation.yaml").touch()
    assert find_guide(run) == tmp_path / "curation.yaml"
    (run / "curation.yaml").touch()
    assert find_guide(run) == run / "curation.yaml"
    for missing in ("other.yaml", "curation.txt"):
        with pytest.raises(InvalidInput):
            find_guide(run, tmp_path / missing)


def test_each_row_has_one_owner_and_the_overlap_as_many_people_as_are_asked_for() -> None:
    guide = TableGuide(annotators=("ann", "ben", "eve"), overlap=0.2, people=2)
    people = {uid: guide.people_for("t", uid) for uid in UIDS}
    assert {len(each) for each in people.values()} == {1, 2}
    assert 0.15 < sum(len(each) > 1 for each in people.values()) / len(UIDS) < 0.25
    for name in guide.annotators:
        assert 0.28 < sum(each[0] == name for each in people.values()) / len(UIDS) < 0.39
    fewer = TableGuide(annotators=("ben", "ann"), overlap=0.2)
    for uid, each in people.items():  # who joins takes nothing from one to give it to another
        assert each[0] == "eve" or fewer.people_for("t", uid)[0] == each[0]


def stance(who: str, uid: str, reason: str = "") -> LatestDecision:
    return LatestDecision(
        table="t", uid=uid, who=who, when="", action="reject" if reason else "accept", reason=reason, fixes=(),
        source_id="",
    )  # fmt: skip


def test_agreement_is_told_by_reason() -> None:
    stances = [
        *(stance("ann", "1", "bad"), stance("ben", "1", "bad")),
        *(stance("ann", "2", "bad"), stance("ben", "2", "odd")),
        *(stance("ann", "3"), stance("ben", "3")),
        stance("ann", "4", "odd"),
    ]
    bad, odd = by_reason(stances)
    assert (bad.reason, bad.given, bad.pairs, bad.same) == ("bad", 3, 2, 1)
    assert (odd.reason, odd.given, odd.pairs, odd.same) == ("odd", 2, 1, 0)
    assert bad.kappa == pytest.approx(0.4) and odd.kappa == 0
