"""A finished run verifies; every change of it is found, also one that hides behind a corrected hash."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.forging import Changes, Forgeries, not_found
from tests.pipelines.support import CONFIG, FinishedRun, edit_manifest, forge, make_run, questions_file
from tests.support.files import contents
from trailforge.generators.mcts_trajectories.checks import tree_problems
from trailforge.generators.mcts_trajectories.choice import over_cap
from trailforge.generators.mcts_trajectories.telling.spans import moved_spans
from trailforge.inference import Reply, Request, Sampling
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.pipelines.dataset import LEDGER
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import (
    InvalidInput,
    OutputError,
    RejectedRow,
    SearchTree,
    SftRow,
    Trajectory,
    read_parquet,
    to_dict,
    write_parquet,
)


def problems(run: FinishedRun) -> str:
    report = verify_run(run.folder)
    assert report.is_clean is (report.problems == [])
    return "\n".join(report.problems)


def told(run: FinishedRun, template: str) -> str:
    """A problem with the figures that the run's manifest had at first."""
    stages = {line.name: line for line in run.manifest.stages}
    rows, into = stages["filter"].accepted, stages["filter"].inputs
    figures = {"rows": rows, "fewer": rows - 1, "more": rows + 1, "into": into, "fewer_in": into - 1}
    return template.format(**figures, unsolved=stages["solve"].rejected[0].count)


def part(run: FinishedRun, table: str, number: int = 0) -> Path:
    return sorted((run.folder / table).glob("part-0*.parquet"))[number]


def test_a_run_without_invalid_or_unsolved_questions_verifies(tmp_path: Path) -> None:
    make_run(tmp_path / "run", questions_file(tmp_path / "q.jsonl", count=3, broken_row=None))
    assert verify_run(tmp_path / "run").problems == []


def test_a_deleted_file_is_found(finished_run: FinishedRun) -> None:
    path = part(finished_run, "sft", 1)
    path.unlink()
    assert problems(finished_run) == f"sft/{path.name}: missing"


def test_a_file_that_the_manifest_does_not_know_is_found(finished_run: FinishedRun) -> None:
    path = part(finished_run, "sft")
    path.with_name("part-00099-x.parquet").write_bytes(path.read_bytes())
    assert problems(finished_run) == "sft/part-00099-x.parquet: not in the manifest"


def test_a_dropped_row_is_found(finished_run: FinishedRun) -> None:
    path = part(finished_run, "mcts_trajectories")
    write_parquet(path, Trajectory, read_parquet(path, Trajectory)[1:])
    assert "sha256 differs" in problems(finished_run)


def test_a_wrong_number_of_rows_in_the_manifest_is_found(finished_run: FinishedRun) -> None:
    edit_manifest(finished_run.folder, lambda content: content["files"][0].update(rows=7))
    assert "8 rows, the manifest says 7" in problems(finished_run)


def test_thoughts_of_a_model_that_say_too_much_are_found(finished_run: FinishedRun) -> None:
    def cheat(rows: list[Any]) -> list[Any]:
        first, *others = rows
        turn = first.messages[2]
        content = turn.content.replace("<think>", "<think>Zanzibar comes to mind. ")
        messages = (*first.messages[:2], replace(turn, content=content), *first.messages[3:])
        spans = moved_spans(first.spans, first.messages, messages)
        told = replace(first, messages=messages, spans=spans, thoughts="model")
        return [told, *(replace(row, thoughts="model") for row in others)]

    path = forge(finished_run.folder, "mcts_trajectories", cheat)
    uid, *others = [row.uid for row in read_parquet(path, Trajectory)]
    found = problems(finished_run)
    assert f"{path.name}, {uid}: filter unfounded_thoughts rejects its thoughts: turn 1: 'Zanzibar'" in found
    assert "spans" not in found and not any(f"{other}: filter" in found for other in others)


def test_a_changed_reward_of_a_rollout_is_found_in_it_and_in_the_values_above_it(finished_run: FinishedRun) -> None:
    def cheat(rows: list[Any]) -> list[Any]:
        rollout = rows[0].rollouts[0]
        return [
            replace(rows[0], rollouts=(replace(rollout, reward=1 - rollout.reward), *rows[0].rollouts[1:])),
            *rows[1:],
        ]

    path = forge(finished_run.folder, "trees", cheat)
    found = problems(finished_run)
    question = read_parquet(path, SearchTree)[0].question_id
    assert f"{path.name}, {question}: reward of rollout 0 differs" in found
    assert f"{path.name}, {question}: node 0: " in found


_OTHER_SPANS = "its spans are not those of its conversation"
TRAJECTORIES: dict[str, tuple[Changes, str]] = {
    "reward": (lambda row: {"reward": replace(row.reward, f1=0.5)}, "reward is not what follows from its question"),
    "moved span": (
        lambda row: {"spans": (*row.spans[:-1], replace(row.spans[-1], start=row.spans[-1].start - 1))},
        _OTHER_SPANS,
    ),
    "no spans": (lambda row: {"spans": ()}, _OTHER_SPANS),
    "answer": (lambda row: {"final_answer": "Nobody"}, "filter unrewarded_answer rejects it"),
    "gold": (
        lambda row: {"follows_gold": not row.follows_gold},
        "follows_gold is not what follows from its question",
    ),
    "question": (lambda row: {"question_id": "none"}, "its question 'none' is not among the inputs"),
}


def test_a_changed_trajectory_is_found(original_run: FinishedRun, tmp_path: Path) -> None:
    changes = {name: change for name, (change, _) in TRAJECTORIES.items()}
    said = Forgeries("mcts_trajectories", Trajectory, changes).found(original_run.folder, tmp_path)
    assert not_found(said, {name: found for name, (_, found) in TRAJECTORIES.items()}) == {}


def test_a_row_turned_away_where_there_is_room_is_found(finished_run: FinishedRun) -> None:
    row = next(iter(read_parquet(part(finished_run, "mcts_trajectories"), Trajectory)))
    homeless = replace(row, reflection_error="retrieval", kind="reflective", question_id="none")
    over = RejectedRow(
        uid=row.uid, stage="filter", reason="cap", score=2.0, detail="", payload=json.dumps(to_dict(homeless))
    )
    forge(finished_run.folder, "rejected", lambda rows: [*rows, over])
    assert "rejected for want of room, but its question has room for its kind" in problems(finished_run)


def test_more_rows_of_a_kind_than_are_wanted_are_found(original_run: FinishedRun) -> None:
    caps = CONFIG.generator.reflection
    rows = list(read_parquet(part(original_run, "mcts_trajectories"), Trajectory))
    correct = [row for row in rows if row.kind == "correct"][:1] * (caps.max_correct + 1)
    assert over_cap(correct[-1], correct[:-2], caps).keep and not over_cap(correct[-1], correct[:-1], caps).keep


def test_a_trajectory_twice_is_found(finished_run: FinishedRun) -> None:
    forge(finished_run.folder, "mcts_trajectories", lambda rows: [*rows, rows[0]])
    found = problems(finished_run)
    assert "filter duplicate_trajectory rejects it" in found
    assert told(finished_run, "stage filter: {rows} accepted, {more} rows found") in found


SFT_ROWS: dict[str, Changes] = {
    "train": lambda row: {"train": tuple(not t for t in row.train)},
    "trajectory": lambda row: {"trajectory_uid": "none"},
    "messages": lambda row: {"messages": row.messages[:-1], "train": row.train[:-1]},
}


def test_a_changed_sft_row_is_found(original_run: FinishedRun, tmp_path: Path) -> None:
    said = Forgeries("sft", SftRow, SFT_ROWS).found(original_run.folder, tmp_path)
    assert not_found(said, dict.fromkeys(SFT_ROWS, "this row of sft is not what kept rows give")) == {}


def test_a_rejected_row_that_no_stage_counts_is_found(finished_run: FinishedRun) -> None:
    forge(finished_run.folder, "rejected", lambda rows: [*rows, replace(rows[0], stage="made", reason="up")])
    assert "rejected/: 1 rows of made/up that no stage counts" in problems(finished_run)


def test_a_table_of_another_kind_is_found(finished_run: FinishedRun) -> None:
    path = part(finished_run, "sft")
    path.write_bytes(part(finished_run, "trees").read_bytes())
    edit_manifest(finished_run.folder, lambda content: _refit(content, path, rows=8))
    assert "holds SearchTree rows, expected SftRow" in problems(finished_run)


def test_a_row_that_cannot_be_read_is_named_once_and_the_rest_is_checked(finished_run: FinishedRun) -> None:
    path = part(finished_run, "mcts_trajectories")
    table = pq.read_table(path)
    at = table.schema.get_field_index("kind")
    kinds = pa.array(["strange", *table["kind"].to_pylist()[1:]]).cast(table.schema.field(at).type)
    pq.write_table(table.set_column(at, table.schema.field(at), kinds), path)
    edit_manifest(finished_run.folder, lambda content: _refit(content, path, rows=table.num_rows))
    forge(finished_run.folder, "sft", lambda rows: rows[:-1])
    found = problems(finished_run).splitlines()
    assert sum("'kind'" in line and str(path) in line for line in found) == 1, found
    assert len(found) > 1


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda m: _lower(m, 3, "accepted"), "stage filter: {into} in, {fewer_in} accounted for"),
        (lambda m: _lower(m, 3, "accepted", "inputs"), "stage filter: {fewer} accepted, {rows} rows found"),
        (lambda m: m["stages"][2]["rejected"][0].update(count=99), "no_correct_rollout, {unsolved} rows in rejected/"),
        (lambda m: m["stages"].pop(3), "stage filter: {rows} rows, not in the books"),
        (lambda m: m["stages"].pop(2), "rejected/: {unsolved} rows of solve/no_correct_rollout that no stage counts"),
        (lambda m: m["files"][0].update(sha256="0" * 64), "sha256 differs"),
        (lambda m: m["files"].pop(0), "not in the manifest"),
    ],
)
def test_an_edited_manifest_is_found(
    finished_run: FinishedRun, edit: Callable[[dict[str, Any]], object], found: str
) -> None:
    edit_manifest(finished_run.folder, edit)
    assert told(finished_run, found) in problems(finished_run)


def test_whatever_else_of_a_manifest_is_not_what_the_receipts_add_up_to_is_named(finished_run: FinishedRun) -> None:
    edits = {
        "calls": 1,
        "prompt_tokens": 1,
        "cost": 0.0,
        "calls_per_accepted_row": None,
        "config_hash": "0" * 12,
        "run_id": "another",
        "model": "a better one",
    }
    edit_manifest(finished_run.folder, lambda m: (m.update(edits), m["inputs"][0].update(sha256="0" * 64)))
    said = {f"manifest.json: {name} is not what run.json and the receipts add up to" for name in (*edits, "inputs")}
    assert set(problems(finished_run).splitlines()) == said


def test_data_dropped_from_disk_and_manifest_together_is_found(finished_run: FinishedRun) -> None:
    for table in ("mcts_trajectories", "sft"):
        for path in (finished_run.folder / table).glob("*.parquet"):
            path.unlink()
    edit_manifest(
        finished_run.folder,
        lambda m: m.update(
            files=[f for f in m["files"] if f["path"].split("/")[0] not in ("mcts_trajectories", "sft")]
        ),
    )
    found = problems(finished_run)
    assert told(finished_run, "stage filter: {rows} accepted, 0 rows found") in found
    assert "files is not what" in found


def test_a_missing_receipt_is_found(finished_run: FinishedRun) -> None:
    (finished_run.folder / "shards" / f"{finished_run.settings.shards[2].name}.json").unlink()
    assert "1 of 3 shards have no receipt" in problems(finished_run)


@pytest.mark.parametrize("name", ["manifest.json", "run.json"])
def test_a_folder_that_is_not_finished_is_refused(finished_run: FinishedRun, name: str) -> None:
    (finished_run.folder / name).unlink()
    with pytest.raises(InvalidInput, match=r"run: holds no finished run \(no manifest\.json\)"):
        verify_run(finished_run.folder)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="none: no such folder"):
        verify_run(tmp_path / "none")


def test_visits_that_do_not_add_up_are_found(original_run: FinishedRun) -> None:
    tree = read_parquet(part(original_run, "trees"), SearchTree)[0]
    assert tree_problems(tree) == []
    root = tree.nodes[0]
    wrong = replace(tree, nodes=(replace(root, visits=root.visits + 1), *tree.nodes[1:]))
    (problem,) = tree_problems(wrong)
    assert problem.startswith(f"node 0: {root.visits + 1} visits of value ")


def _refit(content: dict[str, Any], path: Path, *, rows: int) -> None:
    from trailforge.pipelines.engine.files import sha256_of

    entry = next(e for e in content["files"] if e["path"] == f"{path.parent.name}/{path.name}")
    entry.update(rows=rows, sha256=sha256_of(path))


def _lower(content: dict[str, Any], stage: int, *names: str) -> None:
    for name in names:
        content["stages"][stage][name] -= 1


@pytest.mark.parametrize("name", ["README.md", "plots/funnel.png"])
@pytest.mark.parametrize("how", ["changed", "missing"])
def test_a_card_or_figure_that_is_not_the_runs_is_found(finished_run: FinishedRun, name: str, how: str) -> None:
    path = finished_run.folder / name
    path.write_bytes(path.read_bytes() + b" ") if how == "changed" else path.unlink()
    assert f"{name}: {'not as it was written' if how == 'changed' else 'missing'}" in problems(finished_run)


def test_a_manifest_that_knows_no_card_is_still_read(finished_run: FinishedRun) -> None:
    def earlier(content: dict[str, Any]) -> None:
        del content["card"]
        content["schema_version"] = "1.1"

    edit_manifest(finished_run.folder, earlier)
    assert problems(finished_run) == ""


def with_ledger(run: FinishedRun, calls: int = 200) -> Path:
    path = run.folder / LEDGER
    ledger = SqliteLedger(path)

    async def fill() -> None:
        for number in range(calls):
            request = Request(model="m", prompt=f"{number} " * 99, sampling=Sampling(max_tokens=9))
            text = hashlib.sha256(str(number).encode()).hexdigest() * 9
            reply = Reply(text=text, finish_reason="stop", prompt_tokens=1, completion_tokens=1, key=request.key)
            await ledger.put(request, reply)
        await ledger.aclose()

    asyncio.run(fill())
    return path


def test_a_sound_ledger_is_no_problem_and_is_not_touched(finished_run: FinishedRun) -> None:
    with_ledger(finished_run)
    before = contents(finished_run.folder)
    assert problems(finished_run) == "" and contents(finished_run.folder) == before


def test_a_ledger_with_a_reply_that_cannot_be_unpacked_is_found(finished_run: FinishedRun) -> None:
    path = with_ledger(finished_run)
    with contextlib.closing(sqlite3.connect(path)) as ledger:
        ledger.execute("UPDATE calls SET value = x'00ff00ff' WHERE key = (SELECT min(key) FROM calls)")
        ledger.commit()
    assert "ledger/calls.sqlite: the replies of 1 calls cannot be read, the first " in problems(finished_run)


@pytest.mark.parametrize("how", ["cut", "overwritten", "no database"])
def test_a_damaged_ledger_is_found(finished_run: FinishedRun, how: str) -> None:
    path = with_ledger(finished_run)
    content = path.read_bytes()
    spoilt = {
        "cut": content[: len(content) // 2],
        "overwritten": content[: len(content) // 3] + b"\x00" * (len(content) // 3) + content[len(content) // 3 * 2 :],
        "no database": b"text" * 9000,
    }
    path.write_bytes(spoilt[how])
    assert "ledger/calls.sqlite: " in problems(finished_run)


@pytest.mark.parametrize("name", ["run.json", "manifest.json", "a receipt"])
@pytest.mark.parametrize("text", ["[" * 200_000, "{", '{"config": "{"}'])
def test_what_is_nested_too_deeply_or_cut_is_one_of_our_errors(finished_run: FinishedRun, name: str, text: str) -> None:
    receipts = sorted((finished_run.folder / "shards").iterdir())
    path = receipts[0] if name == "a receipt" else finished_run.folder / name
    path.write_text(text)
    try:
        found = problems(finished_run)
    except (InvalidInput, OutputError) as error:
        found = str(error)
    assert str(path) in found and "\n" not in found


def test_a_configuration_in_run_json_that_is_none_is_named(finished_run: FinishedRun) -> None:
    path = finished_run.folder / "run.json"
    content = json.loads(path.read_text())
    for config in ("{", "[]", "[" * 200_000):
        path.write_text(json.dumps(content | {"config": config}))
        with pytest.raises(OutputError, match=r"run\.json was not written by this trailforge .*give another --out"):
            verify_run(finished_run.folder)
