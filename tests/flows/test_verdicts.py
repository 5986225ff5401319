"""What people said of runs, by folder or by log, as what the next run leaves out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import regex

from tests.support.model_server import running, stats
from tests.support.world import write_questions
from trailforge.curation.decisions import append
from trailforge.curation.verdicts import append_pattern, awaits_curation, copies, copy_logs, refusals
from trailforge.flows.execute import RunRequest, execute
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import (
    DECISIONS_LOG,
    PATTERNS_LOG,
    Decision,
    InvalidInput,
    Manifest,
    OutputError,
    PatternDecision,
    Question,
    ServerUnavailable,
    read_rows,
)

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
    assert said.sources == {("one", ""): "ann: vague", ("two", ""): "ann: vague"} and said.by_id_alone == 2
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


def test_patterns_give_the_logs_that_there_are_and_copies_are_what_they_were(runs: list[Path], tmp_path: Path) -> None:
    window = tmp_path / "day" / "verdicts"
    assert copy_logs([str(tmp_path / "*" / "none*")], window) == () and copies(window) == []
    entries = copy_logs([str(tmp_path / "*"), str(runs[0])], window)
    before = refusals(runs)
    assert [entry.path for entry in entries] == [entry.path for entry in before.logs]
    assert [entry.sha256 for entry in entries] == [sha256_of(copy) for copy in copies(window)]
    append(runs[0], [rejection("x", "ben")])
    assert refusals(copies(window)).hash == before.hash != refusals(runs).hash
    # Copies of copies would double from night to night.
    assert len(copy_logs([str(tmp_path / "**")], tmp_path / "later" / "verdicts")) == 3
    assert len(copy_logs([str(runs[1] / PATTERNS_LOG)], window)) == 1 == len(copies(window))
    (runs[0] / DECISIONS_LOG).write_text("{}\n{}\n")
    with pytest.raises(InvalidInput) as caught:
        copy_logs([str(runs[0])], window)
    assert str(runs[0]) in str(caught.value) and len(copies(window)) == 1


@pytest.mark.parametrize(
    ("change", "awaits"),
    [({}, True), ({"action": "comment", "comment": "odd"}, False), ({"table": "rejected"}, False)],
)
def test_curation_is_awaited_for_what_can_be_applied(tmp_path: Path, change: dict[str, str], awaits: bool) -> None:
    append(tmp_path, [replace(rejection("x"), **change)])
    assert awaits_curation(tmp_path / DECISIONS_LOG) is awaits


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


@pytest.mark.parametrize("action", ["accept", "reject", "comment"])
def test_a_word_on_a_table_that_is_not_known_is_an_error_that_names_it(runs: list[Path], action: str) -> None:
    """As in the log of a newer version: what people rejected there must not be made again without a word."""
    append(runs[0], [rejection("y"), replace(rejection("z"), table="video_questions", action=action, comment="so")])
    with pytest.raises(InvalidInput) as caught:
        refusals(runs)
    told = str(caught.value)
    assert f"{runs[0] / DECISIONS_LOG}, row 3, field 'table'" in told and "'video_questions'" in told


def test_a_rejection_without_its_source_is_an_error_until_it_is_said_again(runs: list[Path]) -> None:
    said = replace(rejection("row"), table="mcts_trajectories")
    append(runs[0], [said])
    with pytest.raises(InvalidInput, match="row row of mcts_trajectories was rejected without its source"):
        refusals(runs)
    append(runs[0], [replace(said, source_id="q7")])
    assert refusals(runs).sources["q7", ""] == "ann: vague"


@pytest.mark.slow
def test_the_next_run_leaves_out_what_was_refused_and_goes_on_only_with_the_same_verdicts(tmp_path: Path) -> None:
    questions, preset, first, out = (tmp_path / name for name in ("questions.jsonl", "preset.yaml", "first", "out"))
    write_questions(questions, 6)
    preset.write_text("model: {name: scripted}\nretrieval: {kind: bm25}\noutput: {shard_size: 3}\n")

    def run(folder: Path, url: str, *verdicts: Path) -> Manifest:
        return execute(
            RunRequest(
                dataset="mcts_trajectories",
                files=(questions,),
                out=folder,
                preset=str(preset),
                model=url,
                verdicts=verdicts,
            )
        )

    with running() as url:
        before = run(first, url)
        asked = list(read_rows(sorted((first / "inputs").glob("*.parquet")), Question))
        append(first, [rejection(asked[1].id)])
        append_pattern(first, refusal(regex.escape(asked[4].question)))
        with pytest.raises(ServerUnavailable):
            run(out, "http://127.0.0.1:9/v1", first)
        append(first, [Decision(run_id="r", table="inputs", uid="x", who="ann", when=WHEN, action="accept")])
        after = run(out, url, first)  # nothing else is refused: it goes on
        calls = stats(url)["calls"]
        append(first, [rejection("nobody asks this")])
        with pytest.raises(OutputError, match="holds a run with other verdicts"):
            run(out, url, first)
        with pytest.raises(OutputError, match="holds a run with other verdicts"):
            run(out, url)
        assert stats(url)["calls"] == calls
    left = [row.id for row in read_rows(sorted((out / "inputs").glob("*.parquet")), Question)]
    assert left == [row.id for row in asked if row not in (asked[1], asked[4])]
    (books,) = [line for line in after.stages if line.name == "read"]
    assert {count.reason: count.count for count in books.rejected} == {"rejected_by_curator": 1, "refused_pattern": 1}
    assert (books.inputs, books.accepted) == (6, 4) and verify_run(out).problems == []
    assert [Path(entry.path).name for entry in after.inputs] == ["questions.jsonl", "decisions.jsonl", "patterns.jsonl"]
    assert after.run_id != before.run_id and "What curators said" in (out / "README.md").read_text()
