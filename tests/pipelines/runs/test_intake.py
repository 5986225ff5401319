"""Questions into shards: what is invalid is named or put aside, and a run that is already there stays as it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.support import CONFIG, FinishedRun, config_with, questions_file, take_in
from tests.support import world
from tests.support.files import contents, digest
from trailforge.filters import FilterConfig
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.pipelines.runs.config import OutputConfig, read_config
from trailforge.pipelines.runs.intake import (
    config_of,
    discard_staged,
    read_settings,
    refuse_other_run,
    write_settings,
)
from trailforge.retrieval import RetrievalConfig
from trailforge.schemas import InvalidInput, OutputError, Question, RejectedRow, read_parquet, to_dict


def rows_file(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def question(number: int, **changes: Any) -> dict[str, Any]:
    return to_dict(world.question(number, 2)) | changes


def spooled(folder: Path) -> list[Question]:
    settings = read_settings(folder)
    assert settings is not None
    return [q for shard in settings.shards for q in read_parquet(folder / shard.input, Question)]


def test_questions_are_spooled_in_their_order_and_cut_into_shards(tmp_path: Path) -> None:
    source = questions_file(tmp_path / "q.jsonl", count=20, broken_row=None)
    settings = take_in(source, tmp_path / "run", CONFIG, None)
    write_settings(tmp_path / "run", settings)
    assert spooled(tmp_path / "run") == [world.question(n, (2, 3)[n % 2]) for n in range(20)]
    assert [(shard.first, shard.rows) for shard in settings.shards] == [(0, 8), (8, 8), (16, 4)]
    assert [shard.name[:11] for shard in settings.shards] == ["part-00000-", "part-00001-", "part-00002-"]
    assert settings.items == 20 and settings.sources[0].rows == 20
    assert read_settings(tmp_path / "run") == settings


def test_the_same_questions_and_configuration_give_the_same_files_anywhere(tmp_path: Path) -> None:
    source = questions_file(tmp_path / "q.jsonl")
    first = take_in(source, tmp_path / "one", CONFIG, None)
    second = take_in(source, tmp_path / "two", CONFIG, None)
    assert first == second
    write_settings(tmp_path / "one", first)
    write_settings(tmp_path / "two", second)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize(
    "config", [replace(CONFIG, seed=1), config_with(filters=FilterConfig(max_tokens=99))], ids=["seed", "filter"]
)
def test_names_of_shards_hold_the_configuration(tmp_path: Path, config: MctsRunConfig) -> None:
    source = questions_file(tmp_path / "q.jsonl")
    one, other = (take_in(source, tmp_path / "run", c, None) for c in (CONFIG, config))
    assert not {s.name for s in one.shards} & {s.name for s in other.shards}
    assert one.run_id != other.run_id


def test_a_limit_takes_the_first_valid_questions(tmp_path: Path) -> None:
    source = rows_file(tmp_path / "q.jsonl", ["broken", *(question(n) for n in range(40))])
    settings = take_in(source, tmp_path / "run", CONFIG, 20)
    write_settings(tmp_path / "run", settings)
    assert [q.id for q in spooled(tmp_path / "run")] == [f"made-{n:05d}" for n in range(20)]
    assert settings.sources[0].rows == 21


def test_few_invalid_rows_go_to_rejected_with_place_reason_and_text(tmp_path: Path) -> None:
    no_answer = question(90)
    del no_answer["answer"]
    rows = ["{broken", *(question(n) for n in range(40)), no_answer]
    source = rows_file(tmp_path / "q.jsonl", rows)
    settings = take_in(source, tmp_path / "run", CONFIG, None)
    write_settings(tmp_path / "run", settings)
    broken, unanswered = read_parquet(tmp_path / "run" / "rejected" / "part-inputs.parquet", RejectedRow)
    assert (broken.uid, broken.stage, broken.reason) == (f"{source}:1", "read", "invalid_input")
    assert broken.payload == "{broken" and broken.detail.startswith(f"{source}, row 1, ")
    assert unanswered.uid == f"{source}:42" and "field 'answer'" in unanswered.detail
    assert json.loads(unanswered.payload) == no_answer
    (books,) = settings.books
    assert (books.inputs, books.accepted, books.balance) == (42, 40, 0)
    assert [(c.reason, c.count) for c in books.rejected] == [("invalid_input", 2)]
    assert settings.sources[0].rows == 42


@pytest.mark.parametrize(("valid", "stops"), [(18, True), (19, False)])
def test_more_than_one_in_twenty_invalid_rows_stop_the_run(tmp_path: Path, valid: int, stops: bool) -> None:
    forward = question(99)
    forward["decomposition"][0]["question"] = "What is the patron of #2?"
    source = rows_file(tmp_path / "q.jsonl", [*(question(n) for n in range(valid)), forward])
    if not stops:
        assert take_in(source, tmp_path / "run", CONFIG, None).items == valid
        return
    with pytest.raises(InvalidInput) as raised:
        take_in(source, tmp_path / "run", CONFIG, None)
    assert (raised.value.file, raised.value.row) == (source, 19)
    assert raised.value.field == "decomposition[0].question"
    assert "hop 1 refers to #2" in str(raised.value) and "1 of 19 rows are invalid" in str(raised.value)
    assert contents(tmp_path) == {"q.jsonl": digest(source.read_bytes())}


def test_a_question_without_paragraphs_is_invalid_where_its_paragraphs_are_searched(tmp_path: Path) -> None:
    bare = question(77, paragraphs=[], decomposition=[])
    source = rows_file(tmp_path / "q.jsonl", ["", "", *(question(n) for n in range(20)), bare, "", question(78)])
    settings = take_in(source, tmp_path / "run", CONFIG, None)
    write_settings(tmp_path / "run", settings)
    (row,) = read_parquet(tmp_path / "run" / "rejected" / "part-inputs.parquet", RejectedRow)
    assert row.uid == f"{source}:23" and json.loads(row.payload)["id"] == "made-00077"
    assert "field 'paragraphs'" in row.detail and "one corpus for all questions (--documents)" in row.detail
    assert [q.id for q in spooled(tmp_path / "run")][-1] == "made-00078"
    over_a_corpus = config_with(retrieval=RetrievalConfig(kind="bm25", scope="corpus", corpus_index="corpus.jsonl"))
    assert take_in(source, tmp_path / "other", over_a_corpus, None).items == 22


def test_invalid_rows_of_several_kinds_stay_in_the_order_of_the_file(tmp_path: Path) -> None:
    bare = [question(n, paragraphs=[], decomposition=[]) for n in (77, 78)]
    rows = [*(question(n) for n in range(60)), bare[0], "broken", bare[1]]
    source = rows_file(tmp_path / "q.jsonl", rows)
    write_settings(tmp_path / "run", take_in(source, tmp_path / "run", CONFIG, None))
    rejected = read_parquet(tmp_path / "run" / "rejected" / "part-inputs.parquet", RejectedRow)
    assert [row.uid for row in rejected] == [f"{source}:{n}" for n in (61, 62, 63)]


def test_a_file_of_documents_is_told_where_documents_go(tmp_path: Path) -> None:
    source = tmp_path / "q.jsonl"
    source.write_text('{"title": "Basel", "text": "Basel lies on the Rhine."}\n' * 3)
    with pytest.raises(InvalidInput, match=r"these look like documents: `trailforge document-bundles --documents`"):
        take_in(source, tmp_path / "run", CONFIG, None)


@pytest.mark.parametrize("content", ["", "\n\n", "[]"])
def test_a_file_without_questions_is_refused(tmp_path: Path, content: str) -> None:
    source = tmp_path / "q.jsonl"
    source.write_text(content)
    with pytest.raises(InvalidInput, match=r"q\.jsonl: holds no questions"):
        take_in(source, tmp_path / "run", CONFIG, None)


def test_nothing_changes_in_the_folder_until_the_settings_are_written(finished_run: FinishedRun) -> None:
    before = contents(finished_run.folder)
    other = questions_file(finished_run.folder.parent / "other.jsonl", count=30, broken_row=9)
    take_in(other, finished_run.folder, CONFIG, None)
    discard_staged(finished_run.folder)
    assert contents(finished_run.folder) == before


def test_a_file_that_turns_out_unusable_leaves_the_folder_as_it_was(finished_run: FinishedRun) -> None:
    before = contents(finished_run.folder)
    rows = [*(question(n) for n in range(30)), *["broken"] * 3]
    source = rows_file(finished_run.folder.parent / "bad.jsonl", rows)
    with pytest.raises(InvalidInput, match="3 of 33 rows are invalid"):
        take_in(source, finished_run.folder, CONFIG, None)
    assert contents(finished_run.folder) == before


def test_files_of_an_intake_that_was_given_up_do_not_stay_beside_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    earlier = take_in(questions_file(tmp_path / "a.jsonl", count=30), folder, CONFIG, None)
    write_settings(folder, earlier)
    (folder / "run.json").unlink()  # as if killed just before it was written
    settings = take_in(questions_file(tmp_path / "b.jsonl", count=9, broken_row=None), folder, CONFIG, None)
    write_settings(folder, settings)
    assert set(contents(folder)) == {"run.json", *(entry.path for entry in settings.files)}


def test_the_same_run_is_let_in(finished_run: FinishedRun) -> None:
    settings = take_in(finished_run.source, finished_run.folder, CONFIG, None)
    refuse_other_run(finished_run.folder, settings)
    assert settings == finished_run.settings


def test_an_empty_folder_is_let_in(tmp_path: Path) -> None:
    source = questions_file(tmp_path / "q.jsonl")
    settings = take_in(source, tmp_path / "run", CONFIG, None)
    refuse_other_run(tmp_path / "run", settings)
    write_settings(tmp_path / "run", settings)
    assert read_settings(tmp_path / "run") == settings


def test_the_folder_of_other_questions_is_refused(finished_run: FinishedRun) -> None:
    source = questions_file(finished_run.folder.parent / "other.jsonl", count=30)
    settings = take_in(source, finished_run.folder, CONFIG, None)
    with pytest.raises(OutputError, match="holds a run with other input; give another --out, or --replace"):
        refuse_other_run(finished_run.folder, settings)


def test_the_folder_of_another_limit_is_refused(finished_run: FinishedRun) -> None:
    settings = take_in(finished_run.source, finished_run.folder, CONFIG, 3)
    with pytest.raises(OutputError, match=r"holds a run with other input \(limit: None -> 3\)"):
        refuse_other_run(finished_run.folder, settings)


def test_the_folder_of_another_configuration_is_refused_with_what_differs(finished_run: FinishedRun) -> None:
    config = config_with(seed=7, output=OutputConfig(shard_size=8), filters=FilterConfig(max_tokens=99))
    settings = take_in(finished_run.source, finished_run.folder, config, None)
    with pytest.raises(OutputError) as refused:
        refuse_other_run(finished_run.folder, settings)
    assert "filters.max_tokens: 16384 -> 99" in str(refused.value)
    assert "seed: 0 -> 7" in str(refused.value) and "--replace" in str(refused.value)


def test_a_setting_that_is_no_more_is_left_out_of_an_earlier_run(finished_run: FinishedRun) -> None:
    content = json.loads(finished_run.settings.config)
    content["output"]["per_turn_rows"] = False
    earlier = replace(finished_run.settings, config=json.dumps(content))
    assert config_of(earlier) == config_of(finished_run.settings)
    assert read_config(MctsRunConfig, config_of(earlier), source="run.json") == CONFIG


@pytest.mark.parametrize("content", ["{", "[]", '{"dataset": 5}', "5"])
def test_a_folder_with_a_foreign_run_json_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(OutputError, match=r"run\.json was not written by this trailforge .*; give another --out"):
        read_settings(tmp_path)
