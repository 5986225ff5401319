"""Finished runs over a knowledge graph verify; every change of them is found, also one behind a corrected hash."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.forging import Changes, Forgeries, not_found
from tests.pipelines.kg_support import FinishedKg
from tests.pipelines.support import edit_manifest, forge
from trailforge.generators import select_stage
from trailforge.generators.kg_questions import selection
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.runs.finish import MANIFEST, manifest_of
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import KgQuestion, RejectedRow, SftRow, from_dict, read_parquet, to_dict, write_parquet

Copies = Callable[[str], FinishedKg]
Runs = Mapping[str, FinishedKg]


def problems(run: FinishedKg) -> str:
    return "\n".join(verify_run(run.folder).problems)


def forged(run: FinishedKg, table: str, edit: Callable[[list[Any]], list[Any]], number: int = 0) -> str:
    """What is found after rows of a table's file were changed, and hash and count with them."""
    record = {**run.dataset.records, "inputs": run.dataset.inputs.record}[table]
    forge(run.folder, table, edit, record=record, number=number)
    return problems(run)


Cases = Mapping[str, tuple[Changes, str]]


def overlooked(run: FinishedKg, copies: Path, table: str, cases: Cases, **rows: Any) -> dict[str, str]:
    """What is said of a forged row of each case, where it is not what is wanted."""
    changes = {name: change for name, (change, _) in cases.items()}
    said = Forgeries(table, run.dataset.records[table], changes, **rows).found(run.folder, copies)
    return not_found(said, {name: found for name, (_, found) in cases.items()})


def of_filter(row: RejectedRow) -> bool:
    return row.stage == "filter"


def question_of(row: RejectedRow) -> str:
    return json.loads(row.payload)["question_id"]


def changed(run: FinishedKg, table: str, changes: Changes, is_meant: Callable[[Any], bool] = lambda row: True) -> str:
    """What is found after the first row that is meant was changed."""

    def edit(rows: list[Any]) -> list[Any]:
        place = next(i for i, row in enumerate(rows) if is_meant(row))
        return [*rows[:place], replace(rows[place], **changes(rows[place])), *rows[place + 1 :]]

    return forged(run, table, edit)


def payload_with(**changes: Any) -> Changes:
    """Of a rejected row."""
    return lambda row: {"payload": json.dumps(json.loads(row.payload) | changes)}


def refit_books(run: FinishedKg) -> None:
    """Write the manifest that the receipts now add up to."""
    made = manifest_of(run.folder, run.settings, run.dataset, seconds=run.manifest.seconds)
    (run.folder / MANIFEST).write_text(json.dumps(to_dict(made)))


def edit_receipt(run: FinishedKg, name: str, edit: Callable[[dict[str, Any]], object]) -> None:
    path = run.folder / "shards" / f"{name}.json"
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


# Episodes


def other_step(row: Any, **changes: Any) -> dict[str, Any]:
    return {"steps": (replace(row.steps[0], **changes), *row.steps[1:])}


EPISODES: dict[str, tuple[Changes, str]] = {
    "answer": (lambda row: {"answer": "Nobody"}, "answer is not what follows"),
    "other question": (lambda row: {"question_id": "none"}, "its question 'none' is not among the inputs"),
    "gain": (lambda row: {"reward": replace(row.reward, r_gain=0.4)}, "reward is not what follows"),
    "recall": (lambda row: {"reward": replace(row.reward, r_recall=None)}, "reward is not what follows"),
    "gold": (lambda row: {"gold_hops": row.gold_hops[::-1]}, "gold_hops is not what follows"),
    "draw": (lambda row: {"sample": row.sample + 9}, "uid is not what follows"),
    "uid": (lambda row: {"uid": "none"}, "uid is not what follows"),
    "final answer": (lambda row: {"final_answer": f"{row.final_answer}."}, "are not those of its conversation"),
    "stop": (lambda row: {"stop": "too_long"}, "are not those of its conversation"),
    "wrong": (lambda row: {"final_answer": "Nobody"}, "filter wrong_answer rejects it"),
    "triples": (lambda row: other_step(row, triples_kept=()), "are not those of its conversation"),
    "mention": (lambda row: other_step(row, entities=()), "are not those of its conversation"),
    "query": (lambda row: other_step(row, query="Who?"), "are not those of its conversation"),
    "unsearched": (lambda row: {"messages": row.messages[:2]}, "filter malformed_conversation rejects it"),
    "nothing": (lambda row: {"messages": ()}, "filter malformed_conversation rejects it"),
}  # fmt: skip


def test_a_forged_episode_is_found(original_kg: Runs, tmp_path: Path) -> None:
    assert overlooked(original_kg["free"], tmp_path, "kg_trajectories", EPISODES) == {}


def test_a_forged_plan_and_a_conflict_that_was_dropped_are_found(finished_kg: Copies) -> None:
    run = finished_kg("guided")
    assert "plan is not what follows" in changed(
        run, "kg_trajectories", lambda row: {"plan": row.plan[:1]}, lambda row: not row.conflicts
    )
    found = changed(run, "kg_trajectories", lambda row: {"conflicts": ()}, lambda row: bool(row.conflicts))
    assert "flags is not what follows" in found


def test_an_episode_that_comes_twice_is_found(finished_kg: Copies) -> None:
    run = finished_kg("free")
    rows = len(run.rows("kg_trajectories"))
    found = forged(run, "kg_trajectories", lambda rows: [*rows, rows[0]])
    assert "filter duplicate_episode rejects it" in found and f"{rows} accepted, {rows + 1} rows found" in found


SFT_ROWS: dict[str, Changes] = {
    "train": lambda row: {"train": tuple(not train for train in row.train)},
    "messages": lambda row: {"messages": row.messages[:-1], "train": row.train[:-1]},
    "reward": lambda row: {"reward": replace(row.reward, total=9.0)},
    "episode": lambda row: {"trajectory_uid": "none"},
    "right by": lambda row: {"right_by": "judge"},
    "right by nothing": lambda row: {"right_by": None},
}
PAIRS: dict[str, Changes] = {
    "good": lambda row: {"good_uid": "none"},
    "bad": lambda row: {"bad_uid": "none"},
    "swapped": lambda row: {"good_messages": row.bad_messages, "bad_messages": row.good_messages},
    "reward": lambda row: {"bad_reward": -1.0},
    "place": lambda row: {"diverges_at": 0},
    "reason": lambda row: {"reason": "low_reward"},
}


@pytest.mark.parametrize(
    ("table", "changes", "found"),
    [
        ("sft", SFT_ROWS, "this row of sft is not what kept rows give"),
        ("pairs", PAIRS, "this row of pairs is not what kept rows give"),
    ],
    ids=["sft", "pairs"],
)
def test_a_changed_sft_row_and_a_pair_that_is_none_are_found(
    original_kg: Runs, tmp_path: Path, table: str, changes: Mapping[str, Changes], found: str
) -> None:
    cases = {name: (change, found) for name, change in changes.items()}
    assert overlooked(original_kg["free"], tmp_path, table, cases) == {}


def of_before(path: Path, version: str, column: str) -> None:
    """Make a file one of an earlier version, which had no such column."""
    table = pq.read_table(path).drop_columns([column])
    at = table.column_names.index("schema_version")
    table = table.set_column(at, table.schema.field(at), pa.array([version] * len(table)))
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"trailforge.version": version}), path)


def test_rows_of_a_version_that_did_not_say_what_finds_them_right_are_no_problem(
    original_kg: Runs, tmp_path: Path
) -> None:
    """A column that holds nothing is one."""
    folder = Path(shutil.copytree(original_kg["free"].folder, tmp_path / "run"))
    path = sorted((folder / "sft").glob("*.parquet"))[0]

    def refit(content: dict[str, Any]) -> None:
        name = path.relative_to(folder).as_posix()
        next(each for each in content["files"] if each["path"] == name)["sha256"] = sha256_of(path)

    def is_amiss() -> bool:
        edit_manifest(folder, refit)
        return any("is not what kept rows give" in each for each in verify_run(folder).problems)

    of_before(path, "1.3", "right_by")
    assert "right_by" not in pq.read_schema(path).names and not is_amiss()
    write_parquet(path, SftRow, read_parquet(path, SftRow))
    assert is_amiss()


def test_pairs_of_a_version_before_are_held_against_what_they_say(original_kg: Runs, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(original_kg["free"].folder, tmp_path / "run"))
    new = ("protocol", "agent", "agent_config", "backend", "index", "bad_answer", "parts_at_fault", "provenance")
    paths = sorted((folder / "pairs").glob("*.parquet"))
    for path in paths:
        for column in new:
            of_before(path, "1.0", column)

    def refit(content: dict[str, Any]) -> None:
        for path in paths:
            name = path.relative_to(folder).as_posix()
            next(each for each in content["files"] if each["path"] == name)["sha256"] = sha256_of(path)
        next(each for each in content["schema_versions"] if each["table"] == "pairs")["version"] = "1.0"

    edit_manifest(folder, refit)
    assert [each for each in verify_run(folder).problems if "run.json" not in each] == []
    table = pq.read_table(paths[0])
    at = table.column_names.index("reason")
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(["so"] * len(table))), paths[0])
    edit_manifest(folder, refit)
    assert any("this row of pairs is not what kept rows give" in each for each in verify_run(folder).problems)


REJECTED_EPISODES: dict[str, tuple[Changes, str]] = {
    "reason": (lambda row: {"reason": "low_reward"}, "the filters choose others of its rows, or for other reasons"),
    "detail": (lambda row: {"detail": "so"}, "the filters choose others of its rows, or for other reasons"),
    "uid": (lambda row: {"uid": "none"}, "this rejected row holds another episode"),
    "payload": (lambda row: {"payload": "{"}, "this rejected row holds no episode"),
    "answer": (payload_with(answer="Nobody"), "rejected: answer is not what follows"),
    "right": (payload_with(num_tool_calls=7), "rejected: num_tool_calls is not what follows"),
}  # fmt: skip


def test_a_forged_rejected_episode_is_found(original_kg: Runs, tmp_path: Path) -> None:
    rows = {"is_meant": of_filter, "key": question_of}
    assert overlooked(original_kg["free"], tmp_path, "rejected", REJECTED_EPISODES, **rows) == {}


def test_a_selected_episode_that_was_hidden_among_the_rejected_is_found(finished_kg: Copies) -> None:
    """With its SFT row and the books: but the filters would have kept it."""
    run = finished_kg("free")
    row = run.rows("kg_trajectories")[0]
    wrong = next(r for r in run.rows("rejected") if r.reason == "wrong_answer")
    hidden = replace(wrong, uid=row.uid, payload=json.dumps(to_dict(row)))
    for table in ("kg_trajectories", "sft"):
        forged(run, table, lambda rows: rows[1:])
    assert f"{row.question_id}: the filters choose others" in forged(run, "rejected", lambda rows: [*rows, hidden])


# Questions


def scores(row: Any, name: str, **changes: Any) -> dict[str, Any]:
    return {"filters": tuple(replace(s, **changes) if s.name == name else s for s in row.filters)}


def facts(row: Any, **changes: Any) -> dict[str, Any]:
    return {"chain": replace(row.chain, facts=(replace(row.chain.facts[0], **changes), *row.chain.facts[1:]))}


QUESTIONS: dict[str, tuple[Changes, str]] = {
    "answer": (lambda row: {"answer": "Nobody"}, "answer is not what follows"),
    "alias": (lambda row: {"answer_aliases": ("Nobody",)}, "answer_aliases is not what follows"),
    "words": (lambda row: {"question": f"Then {row.question}"}, "uid is not what follows"),
    "hop": (lambda row: {"decomposition": ()}, "0 sub-questions for"),
    "hop's answer": (lambda row: {"decomposition": tuple(replace(h, answer="") for h in row.decomposition)},
                     "decomposition is not what follows"),
    "hop's question": (lambda row: {"decomposition": tuple(replace(h, question="It?#9") for h in row.decomposition)},
                       "filter malformed_question rejects it"),
    "several": (lambda row: {"num_answers": 2}, "num_answers is not what follows"),
    "date": (lambda row: {"as_of": "1999"}, "as_of is not what follows"),
    "writer": (lambda row: {"writer": "templates"}, "writer is not what follows"),
    "path": (lambda row: {"chain": replace(row.chain, id="none")}, "its facts are not those of path none"),
    "fact": (lambda row: facts(row, left_without=99), "its facts are not those of path"),
    "score": (lambda row: scores(row, "shortcut", score=99.0), "its row says 99"),
    "passed": (lambda row: scores(row, "start_missing", passed=False), "its row says that start_missing rejects it"),
    "known": (lambda row: scores(row, "right_from_memory", passed=False), "says that right_from_memory rejects it"),
    "not asked": (lambda row: {"filters": tuple(s for s in row.filters if s.name != "right_from_memory")},
                  "not those of the filters that it went through"),
    "no scores": (lambda row: {"filters": ()}, "not those of the filters that it went through"),
}  # fmt: skip


def test_a_forged_candidate_is_found(original_kg: Runs, tmp_path: Path) -> None:
    assert overlooked(original_kg["written"], tmp_path, "candidates", QUESTIONS) == {}


def test_a_forged_selected_question_is_found(original_kg: Runs, tmp_path: Path) -> None:
    found = "it is not what the filters left in `candidates/`"
    cases = {name: (QUESTIONS[name][0], found) for name in ("answer", "score", "no scores")}
    assert overlooked(original_kg["written"], tmp_path, "kg_questions", cases) == {}


def test_a_selected_question_that_is_a_duplicate_is_found(finished_kg: Copies) -> None:
    run = finished_kg("written")
    twin = next(row for row in run.rows("rejected") if row.stage == "select")
    row = from_dict(KgQuestion, json.loads(twin.payload))
    found = forged(run, "kg_questions", lambda rows: [*rows[:-1], row])
    assert f"kg_questions, {row.uid}: it is not what the filters left" in found
    again = forged(run, "kg_questions", lambda rows: [*rows[:-1], rows[0]])
    assert "the rows are not in the order of their paths" in again


def test_another_order_of_the_questions_is_found(finished_kg: Copies) -> None:
    assert "not in the order of their paths" in forged(finished_kg("written"), "kg_questions", lambda r: r[::-1])


REJECTED_QUESTIONS: dict[str, tuple[Changes, str]] = {
    "reason": (lambda row: {"reason": "not_unique"}, "its row says that"),
    "payload": (lambda row: {"payload": "[]"}, "this rejected row holds no question"),
    "answer": (payload_with(answer="Nobody"), "rejected: answer is not what follows"),
    "no scores": (payload_with(filters=[]), "rejected: its scores are not those of the filters"),
}  # fmt: skip


def test_a_forged_rejected_question_is_found(original_kg: Runs, tmp_path: Path) -> None:
    assert overlooked(original_kg["written"], tmp_path, "rejected", REJECTED_QUESTIONS, is_meant=of_filter) == {}


def test_another_twin_of_a_duplicate_is_found(finished_kg: Copies) -> None:
    run = finished_kg("written")
    name = f"rejected/{select_stage.REJECTED}.parquet"
    first, *others = read_parquet(run.folder / name, RejectedRow)
    write_parquet(run.folder / name, RejectedRow, [replace(first, detail="none asks it too"), *others])
    _refit_hash(run, name)
    assert "part-selection, duplicates: they are not those among the candidates" in problems(run)


def _refit_hash(run: FinishedKg, name: str) -> None:
    digest = sha256_of(run.folder / name)
    edit_manifest(run.folder, lambda m: next(f for f in m["files"] if f["path"] == name).update(sha256=digest))


def test_a_changed_file_of_questions_is_found(finished_kg: Copies) -> None:
    run = finished_kg("written")
    path = run.folder / selection.JSONL
    path.write_text(path.read_text().replace("What does", "What did", 1))
    assert "questions.jsonl: not as it was written" in problems(run)
    _refit_hash(run, selection.JSONL)
    assert "questions.jsonl, rows: they are not those of `kg_questions/`" in problems(run)
    path.unlink()
    assert "questions.jsonl: missing" in problems(run)


# Both


@pytest.mark.parametrize("style", ["free", "written"])
def test_books_that_count_a_row_too_many_are_found(finished_kg: Copies, style: str) -> None:
    """Also when receipt and manifest agree on it."""
    run = finished_kg(style)
    accepted = next(line for line in run.manifest.stages if line.name == "filter").accepted

    def one_more(content: dict[str, Any]) -> None:
        line = next(line for line in content["stages"] if line["name"] == "filter")
        line.update(inputs=line["inputs"] + 1, accepted=line["accepted"] + 1)

    edit_manifest(run.folder, one_more)
    assert "manifest.json: stages is not what run.json and the receipts add up to" in problems(run)
    edit_receipt(run, run.settings.shards[0].name, one_more)
    refit_books(run)
    assert problems(run) == f"stage filter: {accepted + 1} accepted, {accepted} rows found"


@pytest.mark.parametrize("style", ["free", "written"])
def test_books_that_do_not_balance_are_found(finished_kg: Copies, style: str) -> None:
    run = finished_kg(style)
    edit_manifest(run.folder, lambda m: m["stages"][1].update(inputs=99))
    assert f"stage {run.manifest.stages[1].name}: 99 in" in problems(run)
