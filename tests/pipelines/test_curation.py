"""A curated data set has what people left, says what they did, and verifies; a change behind its back is found."""

from __future__ import annotations

import json
import re
import shutil
import typing
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.bundles_support import FinishedBundles
from tests.pipelines.kg_support import FinishedKg
from tests.pipelines.support import FinishedRun, edit_manifest
from tests.support.rows import AGAIN, FIRST, MISLED, trajectory
from trailforge.curation.apply import apply_rulings
from trailforge.pipelines import curated
from trailforge.pipelines.curated import Undo, decidable, source_column
from trailforge.pipelines.dataset import Table
from trailforge.pipelines.datasets import dataset_names, dataset_of, is_curated, load_dataset
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.runs.intake import read_settings
from trailforge.pipelines.runs.stages import stage_receipts
from trailforge.pipelines.runs.status import read_status
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import (
    AppliedFix,
    BundleQuestion,
    ContrastivePair,
    CuratedRow,
    FileEntry,
    Fix,
    InvalidInput,
    KgQuestion,
    KgTrajectory,
    OutputError,
    Question,
    RejectedRow,
    Ruling,
    SearchEpisode,
    SftRow,
    Trajectory,
    read_rows,
    to_dict,
    write_parquet,
)

LOG = FileEntry(path="curation/decisions.jsonl", rows=3, sha256="0" * 64)


def rows_of(folder: Path, table: str, record: type) -> list[Any]:
    return list(read_rows(sorted((folder / table).glob("*.parquet")), record))


def reject(table: str, uid: str, reason: str = "dull") -> Ruling:
    return Ruling(table=table, uid=uid, action="reject", reason=reason, detail=f"ann: {reason}", who=("ann",))


def fix(table: str, uid: str, **values: Any) -> Ruling:
    fixes = tuple(Fix(field=name, value=json.dumps(value), who="ben") for name, value in values.items())
    return Ruling(table=table, uid=uid, action="fix", fixes=fixes, who=("ben",))


def accept(table: str, uid: str) -> Ruling:
    return Ruling(table=table, uid=uid, action="accept", who=("ann", "ben"))


def problems(folder: Path) -> str:
    return "\n".join(verify_run(folder).problems)


def content_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def curated_trajectories(run: FinishedRun, out: Path) -> list[Trajectory]:
    """The trajectories before, after their first was rejected, the second fixed and the third accepted."""
    rows = rows_of(run.folder, "mcts_trajectories", Trajectory)
    told = [{"role": m.role, "content": m.content, "train": m.train} for m in rows[1].messages]
    told[-1]["content"] = told[-1]["content"].replace("<think>", "<think>That is all. ", 1)
    rulings = [
        reject("mcts_trajectories", rows[0].uid),
        fix("mcts_trajectories", rows[1].uid, messages=told, answer_aliases=["The same"]),
        accept("mcts_trajectories", rows[2].uid),
    ]
    apply_rulings(run.folder, out, rulings, LOG)
    return rows


@pytest.fixture(scope="module")
def curated_set(original_run: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Trajectory]]:
    """What `curated_trajectories` makes and returns. To be read only."""
    out = tmp_path_factory.mktemp("curated") / "out"
    before = content_of(original_run.folder)
    rows = curated_trajectories(original_run, out)
    assert content_of(original_run.folder) == before
    return out, rows


@pytest.fixture
def changed_set(curated_set: tuple[Path, list[Trajectory]], tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(curated_set[0], tmp_path / "out")


def test_rejected_rows_go_with_their_sft_rows_and_fixed_rows_are_derived(
    curated_set: tuple[Path, list[Trajectory]],
) -> None:
    out, rows = curated_set
    assert problems(out) == ""
    after = rows_of(out, "mcts_trajectories", Trajectory)
    derived = after[0]
    assert after[1:] == rows[2:] and derived.uid not in {row.uid for row in rows}
    assert "That is all." in derived.messages[-1].content and derived.answer_aliases == ("The same",)
    assert derived.token_estimate > rows[1].token_estimate and derived.provenance == rows[1].provenance
    told = {row.uid: row for row in rows_of(out, "curated", CuratedRow)}
    assert told[rows[1].uid].new_uid == derived.uid and told[rows[1].uid].who == ("ben",)
    assert [each.field for each in told[rows[1].uid].fixes] == ["messages", "answer_aliases"]
    assert told[rows[2].uid].action == "accept" and told[rows[2].uid].payload == ""
    gone = [row for row in rows_of(out, "rejected", RejectedRow) if row.stage == "curate"]
    assert [(row.uid, row.reason, row.detail) for row in gone] == [(rows[0].uid, "dull", "ann: dull")]
    assert json.loads(gone[0].payload)["question"] == rows[0].question
    sft = rows_of(out, "sft", SftRow)
    assert [row.trajectory_uid for row in sft] == [row.uid for row in after]
    assert "That is all." in sft[0].messages[-1].content


def test_the_books_have_one_stage_more_and_the_run_an_id_of_its_own(
    original_run: FinishedRun, curated_set: tuple[Path, list[Trajectory]]
) -> None:
    out, rows = curated_set
    settings = read_settings(out)
    assert settings is not None and is_curated(settings) and not is_curated(original_run.settings)
    assert settings.run_id != original_run.settings.run_id and settings.sources[-1] == LOG
    *stages, last = stage_receipts(dataset_of(settings), out, settings)
    assert len(stages) == len(original_run.settings.shards)
    (books,) = last.stages
    count = len(rows) + len(rows_of(original_run.folder, "inputs", Question))
    assert (books.inputs, books.accepted) == (count, count - 1)
    status = read_status(out)
    assert status.state == "finished"
    card = (out / "README.md").read_text()
    assert original_run.settings.run_id in card and "| rejected | 1 |" in card and "2 curators" in card


def test_a_missing_card_is_not_made_again_by_the_command_of_the_run(changed_set: Path) -> None:
    (changed_set / "README.md").unlink()
    (problem,) = verify_run(changed_set).problems
    assert problem == "README.md: missing; `trailforge curate apply` of the run writes it, to another --out"


def test_what_a_killed_process_left_is_no_obstacle_and_the_same_decisions_give_the_same_bytes(
    original_run: FinishedRun, curated_set: tuple[Path, list[Trajectory]], tmp_path: Path
) -> None:
    left = tmp_path / ".out.curating"
    (left / "mcts_trajectories").mkdir(parents=True)
    (left / "mcts_trajectories" / "part-00099-x.parquet").write_text("half")
    with pytest.raises(OutputError, match=r"\.out\.curating is in the way"):  # it has no lock, so it is a stranger's
        curated_trajectories(original_run, tmp_path / "out")
    (left / ".lock").touch()
    curated_trajectories(original_run, tmp_path / "out")
    assert not left.exists() and content_of(tmp_path / "out") == content_of(curated_set[0])


def test_a_rejected_source_takes_all_that_was_made_of_it(original_run: FinishedRun, tmp_path: Path) -> None:
    rows = rows_of(original_run.folder, "mcts_trajectories", Trajectory)
    source = rows[0].question_id
    apply_rulings(original_run.folder, tmp_path / "out", [reject("inputs", source)], LOG)
    after = rows_of(tmp_path / "out", "mcts_trajectories", Trajectory)
    assert after == [row for row in rows if row.question_id != source] != rows
    asked = rows_of(original_run.folder, "inputs", Question)
    assert rows_of(tmp_path / "out", "inputs", Question) == [row for row in asked if row.id != source] != asked
    told = rows_of(tmp_path / "out", "curated", CuratedRow)
    assert told[0].uid == source and {row.reason for row in told[1:]} == {"of_rejected_row"}
    assert problems(tmp_path / "out") == ""


def test_all_questions_may_go(original_run: FinishedRun, tmp_path: Path) -> None:
    asked = rows_of(original_run.folder, "inputs", Question)
    apply_rulings(original_run.folder, tmp_path / "out", [reject("inputs", row.id) for row in asked], LOG)
    assert not (tmp_path / "out" / "inputs").exists() and problems(tmp_path / "out") == ""


def test_all_rows_may_go(original_run: FinishedRun, tmp_path: Path) -> None:
    rows = rows_of(original_run.folder, "mcts_trajectories", Trajectory)
    manifest = apply_rulings(
        original_run.folder, tmp_path / "out", [reject("mcts_trajectories", r.uid) for r in rows], LOG
    )
    assert not (tmp_path / "out" / "sft").exists() and problems(tmp_path / "out") == ""
    asked = rows_of(tmp_path / "out", "inputs", Question)
    assert [line.accepted for line in manifest.stages if line.name == "curate"] == [len(asked)]


def test_pairs_of_a_rejected_episode_go(original_kg: Mapping[str, FinishedKg], tmp_path: Path) -> None:
    run = original_kg["guided"]
    pair: ContrastivePair = run.rows("pairs")[0]
    uid, other = pair.good_uid, run.rows("pairs")[-1]
    rulings = [reject("kg_trajectories", uid)] + [reject("pairs", other.uid)] * (other.good_uid != uid)
    apply_rulings(run.folder, tmp_path / "out", rulings, LOG)
    assert problems(tmp_path / "out") == ""
    gone = {uid for uid in (pair.uid, other.uid)}
    assert not gone & {row.uid for row in rows_of(tmp_path / "out", "pairs", ContrastivePair)}
    assert uid not in {row.uid for row in rows_of(tmp_path / "out", "kg_trajectories", KgTrajectory)}
    assert uid not in {row.trajectory_uid for row in rows_of(tmp_path / "out", "sft", SftRow)}


def test_questions_of_a_graph_are_written_anew_as_lines(original_kg: Mapping[str, FinishedKg], tmp_path: Path) -> None:
    run = original_kg["by_rule"]
    rows: list[KgQuestion] = run.rows("kg_questions")
    asked = rows[1].question.replace("?", ", then?")
    rulings = [reject("kg_questions", rows[0].uid), fix("kg_questions", rows[1].uid, question=asked)]
    apply_rulings(run.folder, tmp_path / "out", rulings, LOG)
    assert problems(tmp_path / "out") == ""
    lines = [json.loads(line) for line in (tmp_path / "out" / "questions.jsonl").read_text().splitlines()]
    assert len(lines) == len(rows) - 1 and lines[0]["question"] == asked
    with pytest.raises(InvalidInput, match="rejects it then"):
        apply_rulings(
            run.folder, tmp_path / "bad", [fix("kg_questions", rows[1].uid, question="Who is it, then?")], LOG
        )
    (tmp_path / "out" / "questions.jsonl").write_text("")
    assert "not as it was written" in problems(tmp_path / "out")


def test_episodes_of_rejected_and_fixed_bundle_questions_go(
    original_bundles: FinishedBundles, tmp_path: Path, texts: list[str]
) -> None:
    rows = rows_of(original_bundles.folder, "bundle_questions", BundleQuestion)
    answered = {row.question_id for row in rows_of(original_bundles.folder, "episodes", SearchEpisode)}
    one, two, three, *_ = {row.bundle_id: row for row in rows if row.uid in answered}.values()
    rulings = [
        reject("bundle_questions", one.uid),
        fix("bundle_questions", two.uid, question=f"Say: {two.question}"),
        reject("bundles", three.bundle_id),
    ]
    apply_rulings(original_bundles.folder, tmp_path / "out", rulings, LOG)
    assert problems(tmp_path / "out") == ""
    gone = {row.uid for row in rows if row.bundle_id == three.bundle_id} | {one.uid, two.uid}
    asked = {row.uid for row in rows_of(tmp_path / "out", "bundle_questions", BundleQuestion)}
    assert not gone & asked
    episodes = rows_of(tmp_path / "out", "episodes", SearchEpisode)
    assert {row.question_id for row in episodes} <= asked
    assert {row.trajectory_uid for row in rows_of(tmp_path / "out", "sft", SftRow)} == {row.uid for row in episodes}
    reasons = {row.reason for row in rows_of(tmp_path / "out", "curated", CuratedRow) if row.action == "follow"}
    assert episodes and reasons == {"of_rejected_row", "of_fixed_row"}


def forge(folder: Path, table: str, record: type, edit: Callable[[list[Any]], list[Any]]) -> None:
    """Change a file of a table, and manifest, settings and receipts with it."""
    path = sorted((folder / table).glob("*.parquet"))[0]
    rows, old = edit(list(read_rows([path], record))), sha256_of(path)
    write_parquet(path, record, rows)
    number, new, name = len(rows), sha256_of(path), path.relative_to(folder).as_posix()
    for file in [folder / "run.json", *(folder / "shards").glob("*.json")]:
        content = json.loads(file.read_text())
        for entry in content["files"]:
            if entry["path"] == name:
                entry.update(rows=number, sha256=new)
        file.write_text(json.dumps(content))
    assert old != new

    def refit(content: dict[str, Any]) -> None:
        next(e for e in content["files"] if e["path"] == name).update(rows=number, sha256=new)

    edit_manifest(folder, refit)


def first_with(**changes: Any) -> Callable[[list[Any]], list[Any]]:
    """Rows of which the first is changed."""
    return lambda rows: [replace(rows[0], **changes), *rows[1:]]


def with_other_reward(rows: list[CuratedRow]) -> list[CuratedRow]:
    return first_with(payload=rows[0].payload.replace('"exact_match": 1.0', '"exact_match": 0.5'))(rows)


@pytest.mark.parametrize(
    ("table", "record", "edit", "found"),
    [
        ("mcts_trajectories", Trajectory, first_with(question="Another?"), "not what people left of what the run made"),
        ("mcts_trajectories", Trajectory, lambda rows: rows[:-1], "stage filter: .* accepted, .* rows found"),
        ("sft", SftRow, lambda rows: rows[1:], "this row of sft is missing"),
        ("curated", CuratedRow, first_with(reason="bad"), "not the rows that people rejected"),
        ("curated", CuratedRow, first_with(detail="zoe: dull"), "not the rows that people rejected"),
        ("curated", CuratedRow, lambda rows: rows[1:], "stage filter: .* accepted, .* rows found"),
        ("curated", CuratedRow, with_other_reward, "reward is not what follows from its question"),
        ("curated", CuratedRow, first_with(payload="{"), "not valid JSON"),
    ],
)
def test_a_change_behind_its_back_is_found(
    changed_set: Path, table: str, record: type, edit: Callable[[list[Any]], list[Any]], found: str
) -> None:
    forge(changed_set, table, record, edit)
    try:
        told = problems(changed_set)
    except InvalidInput as error:
        told = str(error)
    assert re.search(found, told), told


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"question": "Who founded Rome?"}, "not what people left of what the run made"),
        ({"answer": "Kiel", "final_answer": "Kiel"}, "its last step found .*, its answer is 'Kiel'"),
    ],
)
def test_a_fix_that_only_some_fields_tell_is_found(
    original_run: FinishedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, str], found: str
) -> None:
    def trusting(row: Trajectory, ruling: Ruling, product: Table) -> tuple[Trajectory, tuple[AppliedFix, ...]]:
        was = tuple(
            AppliedFix(field=each.field, old_value="", new_value=each.value, who=each.who) for each in ruling.fixes
        )
        return replace(row, uid="fixed", **values), was

    row = rows_of(original_run.folder, "mcts_trajectories", Trajectory)[0]
    with monkeypatch.context() as unchecked:
        unchecked.setattr(curated, "apply_fixes", trusting)
        apply_rulings(original_run.folder, tmp_path / "out", [fix("mcts_trajectories", row.uid, **values)], LOG)
    told = problems(tmp_path / "out")
    assert re.search(found, told), told


def test_what_cannot_be_applied_is_said_and_leaves_nothing(original_run: FinishedRun, tmp_path: Path) -> None:
    row = rows_of(original_run.folder, "mcts_trajectories", Trajectory)[0]
    for rulings, problem in (
        ([], "nobody decided"),
        ([accept("rejected", "x")], "nobody decided"),
        ([reject("mcts_trajectories", "none")], "row none of mcts_trajectories, which is not in this run"),
        ([reject("sft", row.uid)], "rows of 'sft' follow from others"),
        ([fix("inputs", row.question_id, answer="x")], "cannot be fixed"),
        ([fix("mcts_trajectories", row.uid, reward=1)], "'reward'.*cannot be fixed"),
        ([fix("mcts_trajectories", row.uid, **{"messages.99.content": "x"})], "no such field"),
        ([fix("mcts_trajectories", row.uid, question=3)], "leaves no valid row: expected str"),
        ([fix("mcts_trajectories", row.uid, answer="something else")], "filter unrewarded_answer rejects it then"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            apply_rulings(original_run.folder, tmp_path / "out", rulings, LOG)
        assert list(tmp_path.iterdir()) == []


def test_one_turn_can_be_fixed(original_run: FinishedRun, tmp_path: Path) -> None:
    row = rows_of(original_run.folder, "mcts_trajectories", Trajectory)[0]
    told = row.messages[2].content.replace("<think>", "<think>Let me see. ")
    one_turn = fix("mcts_trajectories", row.uid, **{"messages.2.content": told})
    apply_rulings(original_run.folder, tmp_path / "out", [one_turn], LOG)
    assert rows_of(tmp_path / "out", "mcts_trajectories", Trajectory)[0].messages[2].content == told
    assert problems(tmp_path / "out") == ""


def test_folders_that_will_not_do_are_said(
    original_run: FinishedRun, curated_set: tuple[Path, list[Trajectory]], tmp_path: Path
) -> None:
    out, rows = curated_set
    again = [reject("mcts_trajectories", rows[3].uid)]
    with pytest.raises(OutputError, match="not empty"):
        apply_rulings(original_run.folder, out, again, LOG)
    with pytest.raises(InvalidInput, match="is a curated data set"):
        apply_rulings(out, tmp_path / "twice", again, LOG)
    shutil.copytree(original_run.folder, tmp_path / "unfinished")
    (tmp_path / "unfinished" / "manifest.json").unlink()
    with pytest.raises(InvalidInput, match="holds no finished run"):
        apply_rulings(tmp_path / "unfinished", tmp_path / "more", again, LOG)


@pytest.mark.parametrize("dataset", dataset_names())
def test_of_each_table_that_people_decide_on_it_is_known_what_a_rejection_refuses(dataset: str) -> None:
    """A table that is missing in `source_column` would be an error of the page, and of the next run's `--verdicts`."""
    records = load_dataset(dataset).records
    for table in decidable(dataset):
        at: object = {"inputs": Question, **records}[table]
        for step in source_column(table).split(".") if source_column(table) else ():
            at = typing.get_type_hints(at)[step]
        assert at is str or not source_column(table)


def test_rows_that_people_rejected_before_a_new_version_are_read_as_rows_of_now(tmp_path: Path) -> None:
    """What a curated set holds of them is JSON of their time, which no file's version tells."""
    row = trajectory(FIRST, replace(MISLED, query_rephrased=True), AGAIN, error="retrieval")
    old = to_dict(row) | {"schema_version": "1.3"}
    del old["error_source"]
    told = CuratedRow(
        table="mcts_trajectories", uid=row.uid, action="reject", reason="dull", detail="", who=(), source_id="",
        new_uid=None, fixes=(), file="part-00000.parquet", position=0, payload=json.dumps(old),
    )  # fmt: skip
    (tmp_path / "curated").mkdir()
    write_parquet(tmp_path / "curated" / "part-00000.parquet", CuratedRow, [told])
    (found,) = Undo(tmp_path).original("mcts_trajectories", "part-00000.parquet", Trajectory, iter(()))
    assert found == replace(row, error_source="provoked")
