"""`trailforge curate` on a small finished run: decide, see how it stands, apply, verify."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.pipelines.conftest import finished_run, original_run  # noqa: F401 - fixtures
from tests.pipelines.support import FinishedRun
from trailforge.commands import curate
from trailforge.curation.decisions import LOG, read_decisions
from trailforge.curation.verdicts import refusals
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import InvalidInput, RejectedRow, TrailforgeError, Trajectory, read_rows

root = typer.Typer()
curate.register(root)


@root.command()
def other() -> None:
    """So that `curate` is one command of several."""


def run(*arguments: object) -> str:
    result = CliRunner().invoke(root, ["curate", *map(str, arguments)])
    if isinstance(result.exception, TrailforgeError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(root, ["curate", *map(str, arguments)])
    assert result.exit_code == 2
    return " ".join(result.output.replace("│", " ").split())


def rows_of(folder: Path) -> list[Trajectory]:
    return list(read_rows(sorted((folder / "mcts_trajectories").glob("*.parquet")), Trajectory))


def test_decide_stats_apply(finished_run: FinishedRun, tmp_path: Path) -> None:  # noqa: F811
    folder, rows = finished_run.folder, rows_of(finished_run.folder)
    uids = [row.uid for row in rows]
    assert "reject by ann" in run("decide", folder, uids[0], "--reject", "  too\nshort ", "--who", "ann")
    run("decide", folder, uids[0], "--accept", "--who", "ben", "--comment", "fine with me")
    run("decide", folder, uids[1], "--fix", "question=Who then?", "--fix", 'answer_aliases=["x", "y"]', "--who", "ann")
    run("decide", folder, uids[1], "--accept", "--who", "ben")
    assert verify_run(folder).is_clean
    said = read_decisions(folder)
    assert [each.action for each in said] == ["reject", "accept", "comment", "fix", "fix", "accept"]
    assert said[0].reason == "too short" and said[0].source_id == rows[0].question_id

    shown = run("stats", folder)
    assert "50%" in shown and f"differ: mcts_trajectories, {uids[0]}: ann: reject, ben: accept" in shown

    told = run("apply", folder, "--out", tmp_path / "a b")
    assert f"trailforge verify '{tmp_path / 'a b'}'" in told
    (tmp_path / "a b").rename(tmp_path / "curated")
    count = len(rows) + finished_run.settings.items
    assert f"{count:,} rows, {count - 1:,} left; too short 1" in told and "People differ on 1" in told
    after = rows_of(tmp_path / "curated")
    assert (after[0].question, after[0].answer_aliases) == ("Who then?", ("x", "y")) and after[1:] == rows[2:]
    assert verify_run(tmp_path / "curated").is_clean
    with pytest.raises(InvalidInput, match="is a curated data set"):
        run("decide", tmp_path / "curated", uids[2], "--accept")


def test_a_person_takes_back_what_was_said(finished_run: FinishedRun, tmp_path: Path) -> None:  # noqa: F811
    folder, rows = finished_run.folder, rows_of(finished_run.folder)
    uid = rows[0].uid
    run("decide", folder, uid, "--reject", "dull", "--who", "ann")
    run("decide", folder, uid, "--fix", "question=Who then?", "--who", "ben")
    run("decide", folder, rows[1].uid, "--accept", "--who", "ben")
    assert "withdraw, comment by ann" in run("decide", folder, uid, "--withdraw", "--comment", "sorry", "--who", "ann")
    shown = run("stats", folder)
    assert "ann" not in shown and "differ" not in shown
    run("apply", folder, "--out", tmp_path / "curated")
    assert rows_of(tmp_path / "curated")[0].question == "Who then?" and verify_run(tmp_path / "curated").is_clean
    for row in rows[:2]:
        run("decide", folder, row.uid, "--withdraw", "--who", "ben")
    with pytest.raises(InvalidInput, match="nobody decided"):
        run("apply", folder, "--out", tmp_path / "again")
    with pytest.raises(InvalidInput, match="ann decided nothing on a row"):
        run("decide", folder, uid, "--withdraw", "--who", "ann")


def test_a_word_on_a_row_that_is_not_there_can_be_taken_back(finished_run: FinishedRun, tmp_path: Path) -> None:  # noqa: F811
    folder, row = finished_run.folder, rows_of(finished_run.folder)[0]
    run("decide", folder, row.uid, "--accept", "--who", "ann")
    line = (folder / LOG).read_text()
    (folder / LOG).write_text(
        line + line.replace(row.uid, "gone").replace("accept", "reject").replace('reason": "', 'reason": "dull')
    )
    assert "cannot be applied: mcts_trajectories, gone (ann): no such row in this run" in run("stats", folder)
    with pytest.raises(InvalidInput, match="a decision on row gone of mcts_trajectories, which is not in this run"):
        run("apply", folder, "--out", tmp_path / "curated")
    run("decide", folder, "gone", "--withdraw", "--comment", "of another run", "--who", "ann")
    run("apply", folder, "--out", tmp_path / "curated")
    assert verify_run(tmp_path / "curated").is_clean


def test_two_logs_are_merged_and_what_does_not_go_together_is_mended(
    finished_run: FinishedRun,  # noqa: F811
    tmp_path: Path,
) -> None:
    folder, row = finished_run.folder, rows_of(finished_run.folder)[0]
    turn = len(row.messages) - 1
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder, elsewhere)
    told = row.messages[turn].content.replace("<think>", "<think>So. ")
    run("decide", folder, row.uid, "--fix", f"final_answer=the {row.final_answer}", "--who", "ann")
    run("decide", elsewhere, row.uid, "--fix", f"messages.{turn}.content={told}", "--who", "ben")
    own = (folder / LOG).read_bytes()
    line = json.dumps(json.loads(own) | {"run_id": "before"})
    (elsewhere / LOG).write_bytes((elsewhere / LOG).read_bytes() + line.encode() + b'\n{"torn')
    merged = run("merge", folder, elsewhere, elsewhere / LOG, folder)
    assert merged.startswith("1 new words by ben; 2 on other runs are left out\n")
    unfit = f"cannot be applied: mcts_trajectories, {row.uid} (ann, ben): "
    assert unfit in merged and unfit in run("stats", folder)
    assert "0 new words; 2 on other" in run("merge", folder, elsewhere / LOG, elsewhere)
    with pytest.raises(InvalidInput, match="it ends with the answer"):
        run("apply", folder, "--out", tmp_path / "curated")
    run("decide", folder, row.uid, "--withdraw", "--who", "ann")
    assert "cannot be applied" not in run("stats", folder)
    run("apply", folder, "--out", tmp_path / "curated")
    assert rows_of(tmp_path / "curated")[0].messages[turn].content == told and verify_run(tmp_path / "curated").is_clean
    with pytest.raises(InvalidInput, match="no such file or folder"):
        run("merge", folder, tmp_path / "none.jsonl")


def test_a_pattern_is_refused_shown_and_taken_back(finished_run: FinishedRun) -> None:  # noqa: F811
    folder, row = finished_run.folder, rows_of(finished_run.folder)[0]
    asked = ["refuse", folder, "--field", "question", "--pattern", f"^{re.escape(row.question)}", "--who", "ann"]
    told = run(*asked, "--reason", " too\nvague ")
    assert "refuse by ann; it fits 1 of this run's 20 sources: " in told and row.question_id in told
    assert "(ann: too vague)" in " ".join(run("stats", folder).split())
    said = refusals([folder])
    assert len(said.patterns) == 1 and verify_run(folder).is_clean
    assert "withdraw by ann" in run(*asked, "--withdraw")
    assert refusals([folder]).patterns == () and "refused:" not in run("stats", folder)


def test_a_bad_pattern_is_one_line_and_writes_nothing(finished_run: FinishedRun) -> None:  # noqa: F811
    folder = finished_run.folder
    for field, pattern, reason, problem in (
        ("question", "(", "dull", "is no regular expression"),
        ("question", ".*", "dull", "matches the empty text"),
        ("question", "who sang", "", "field 'reason': must not be empty"),
        ("publisher", "who sang", "dull", "sources of mcts_trajectories have question, answer"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            run("refuse", folder, "--field", field, "--pattern", pattern, "--reason", reason)
    assert not (folder / "curation").exists()


def test_sources_and_rejected_rows_are_found_by_id(finished_run: FinishedRun) -> None:  # noqa: F811
    folder = finished_run.folder
    (gone, *_) = read_rows(sorted((folder / "rejected").glob("part-0*.parquet")), RejectedRow)
    run("decide", folder, gone.uid, "--accept", "--who", "ann")
    run("decide", folder, rows_of(folder)[0].question_id, "--reject", "vague", "--who", "ann")
    assert {each.table for each in read_decisions(folder)} <= {"rejected", "inputs"}
    assert "rejected" in run("stats", folder)


def test_decisions_of_another_run_do_not_count(finished_run: FinishedRun, tmp_path: Path) -> None:  # noqa: F811
    folder, row = finished_run.folder, rows_of(finished_run.folder)[0]
    run("decide", folder, row.uid, "--accept", "--who", "ann")
    line = json.loads((folder / LOG).read_text()) | {"run_id": "before"}
    (folder / LOG).write_text(json.dumps(line) + "\n")
    assert "1 decisions are on another run" in run("stats", folder)
    with pytest.raises(InvalidInput, match="nobody decided"):
        run("apply", folder, "--out", tmp_path / "out")


def test_what_cannot_be_done_is_one_line_and_writes_nothing(
    finished_run: FinishedRun,  # noqa: F811
    tmp_path: Path,
) -> None:
    folder, row = finished_run.folder, rows_of(finished_run.folder)[0]
    assert "give one of --accept" in refused("decide", folder, row.uid)
    assert "give one of --accept" in refused("decide", folder, row.uid, "--accept", "--reject", "x")
    assert "expected FIELD=VALUE" in refused("decide", folder, row.uid, "--fix", "answer")
    for arguments, problem in (
        (["none", "--accept"], "no row none in inputs, mcts_trajectories, rejected"),
        ([row.uid, "--fix", "answer=something else"], "filter unrewarded_answer rejects it then"),
        ([row.uid, "--fix", "reward=1"], "cannot be fixed"),
        ([row.uid, "--fix", "messages.77.content=x"], "no such field"),
        ([row.uid, "--fix", "answer_aliases=x"], "not valid JSON"),
        ([row.uid, "--reject", " "], "must not be empty"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            run("decide", folder, *arguments)
    with pytest.raises(InvalidInput, match="no decisions"):
        run("apply", folder, "--out", tmp_path / "out")
    with pytest.raises(InvalidInput, match="holds no finished run"):
        run("stats", tmp_path)
    assert not (folder / LOG).exists()
