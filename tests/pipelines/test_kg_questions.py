"""Runs of questions made of a graph: books, rows, duplicates, what fails, resuming, seeds, graphs with few paths."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pipelines.kg_support import (
    BY_RULE,
    WRITTEN,
    FinishedKg,
    begin_questions,
    run_stages,
    scripted_client,
)
from tests.pipelines.support import run_stage, stage_run
from tests.support.files import contents
from tests.support.graph_questions import context
from tests.support.kg_agent import NO_PATH_MORE
from tests.support.kg_worlds import DUST
from tests.support.scripted import ScriptedModel
from trailforge.filters.kg.questions import KgQuestionFilterConfig
from trailforge.generators.kg_questions import DATASET as KG_QUESTIONS
from trailforge.generators.kg_questions import selection, work
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_questions.work import question_of
from trailforge.generators.select_stage import only_shard
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.runs.finish import finish_run
from trailforge.pipelines.runs.intake import RunInputs, run_configuration, write_settings
from trailforge.pipelines.runs.verify import verify_run
from trailforge.pipelines.sources import read_questions
from trailforge.pipelines.sources.refused import Refusals
from trailforge.schemas import FactChain, KgQuestion, NothingLeft, RefusedPattern, from_dict, read_parquet, read_rows
from trailforge.schemas.errors import NOTICE

KINDS = ("written", "by_rule")
TABLES = (*KG_QUESTIONS.tables, "inputs", "shards", selection.JSONL)


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelWork, "client", scripted_client)


def written(folder: Path) -> dict[str, str]:
    """Rows, receipts and the file of questions."""
    return {name: data for name, data in contents(folder).items() if name.split("/")[0] in TABLES}


@pytest.mark.parametrize("kind", KINDS)
def test_books_count_what_the_folder_holds(original_kg: Mapping[str, FinishedKg], kind: str) -> None:
    run = original_kg[kind]
    stages = {line.name: line for line in run.manifest.stages}
    assert list(stages) == ["read", "write", "filter", "select"]
    assert all(line.balance == 0 and line.accepted for line in stages.values())
    assert stages["read"].accepted == stages["write"].inputs and stages["write"].accepted == stages["filter"].inputs
    assert stages["filter"].accepted == stages["select"].inputs == len(run.rows("candidates"))
    assert stages["select"].accepted == len(run.rows("kg_questions"))
    rejected = Counter((row.stage, row.reason) for row in run.rows("rejected"))
    for line in stages.values():
        for count in (*line.rejected, *line.failed):
            assert rejected.pop((line.name, count.reason)) == count.count
    assert rejected == {}
    assert verify_run(run.folder).problems == []


@pytest.mark.parametrize(("kind", "writer"), [("written", "model"), ("by_rule", "templates")])
def test_rows_are_questions_of_the_paths(original_kg: Mapping[str, FinishedKg], kind: str, writer: str) -> None:
    run = original_kg[kind]
    paths = {p.id: p for shard in run.settings.shards for p in read_parquet(run.folder / shard.input, FactChain)}
    rows = run.rows("kg_questions")
    for row in rows:
        assert row.chain == paths[row.chain.id] and row.answer == row.chain.answer.label
        assert (row.num_answers, row.writer, row.as_of) == (1, writer, "2021-05") and row.fewest_left > 1
        assert [score.name for score in row.filters][-6:] == [
            "right_from_memory", "agreed_otherwise", "ambiguous_question", "doubtful_fact", "unclear_question",
            "same_facts",
        ]  # fmt: skip
        assert all(score.passed for score in row.filters)
        assert all(start.label in row.question for start in row.chain.starts)
        assert len(row.provenance.call_keys) == 4 + 1 + (writer == "model")
    assert {row.shape for row in rows} >= {"chain", "intersection"} and len({row.question for row in rows}) == len(rows)
    order = list(paths)
    assert [order.index(row.chain.id) for row in rows] == sorted(order.index(row.chain.id) for row in rows)


def test_the_file_of_questions_is_what_the_other_generators_read(original_kg: Mapping[str, FinishedKg]) -> None:
    run = original_kg["written"]
    questions = [selection.question_of(row) for row in run.rows("kg_questions")]
    assert list(read_questions(run.folder / selection.JSONL, needs_decomposition=True)) == questions


def test_a_duplicate_of_another_shard_is_rejected_with_the_uid_of_its_twin(
    original_kg: Mapping[str, FinishedKg],
) -> None:
    run = original_kg["written"]
    shard_of = {
        row.uid: shard.name
        for shard in run.settings.shards
        for path in (run.folder / "candidates").glob(f"{shard.name}.parquet")
        for row in read_parquet(path, KgQuestion)
    }
    kept = {row.uid: row for row in run.rows("kg_questions")}
    duplicates = [row for row in run.rows("rejected") if row.stage == "select"]
    assert duplicates and {row.reason for row in duplicates} == {"same_facts"}
    twins = {row.uid: row.detail.removesuffix(" asks it too") for row in duplicates}
    assert any(shard_of[uid] != shard_of[twin] for uid, twin in twins.items())
    for row in duplicates:
        same = from_dict(KgQuestion, json.loads(row.payload))
        twin = kept[twins[row.uid]]
        in_twin = {fact.triple for fact in same.chain.facts} <= {fact.triple for fact in twin.chain.facts}
        assert in_twin or same.question == twin.question


def test_a_path_that_the_model_cannot_word_fails_alone(original_kg: Mapping[str, FinishedKg]) -> None:
    run = original_kg["written"]
    failed = [row for row in run.rows("rejected") if row.stage == "write"]
    assert failed
    for row in failed:
        assert row.reason == "malformed_reply" and "I would rather not." in row.detail
        assert from_dict(FactChain, json.loads(row.payload)).id == row.uid
    assert len(run.rows("candidates")) + len(run.rows("rejected")) == NO_PATH_MORE + len(
        [row for row in run.rows("rejected") if row.stage == "select"]
    )


def test_a_graph_with_fewer_paths_gives_fewer_rows(
    original_kg: Mapping[str, FinishedKg], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert WRITTEN.count == 60 and original_kg["written"].settings.items == NO_PATH_MORE
    config = replace(BY_RULE, count=5).on_graph(original_kg["by_rule"].graph)
    settings = work.take_in(RunInputs(dataset="kg_questions"), tmp_path / "few", config)
    assert settings.items == 5 and not caplog.records
    work.take_in(RunInputs(dataset="kg_questions"), tmp_path / "all", replace(config, count=60))
    (notice,) = (record.getMessage() for record in caplog.records if record.levelno == NOTICE)
    tries = original_kg["by_rule"].settings.tries
    assert notice.startswith(f"the graph gave {NO_PATH_MORE} of 60 paths: ") and tries
    assert all(f"{each.reason} {each.count:,}" in notice for each in tries)
    none = replace(config, paths=replace(config.paths, min_triples=1000, intersections=0.0))
    mine = RunInputs(dataset="kg_questions", options={"kg": Path("my/graph")})
    with pytest.raises(NothingLeft, match="holds no paths of the wanted forms") as caught:
        work.take_in(mine, tmp_path / "none", none)
    told = str(caught.value)
    assert told.startswith("my/graph: ") and caught.value.exit_code == 14
    assert "(chain of 1, chain of 2, chain of 3, chain of 4)" in told and "attempts that gave none: none: " in told
    assert "not paths.excluded" in told and "0 of such that lead to one entity (paths.min_triples 1000" in told
    assert not (tmp_path / "none" / "inputs").exists()


# Going on, and seeds


def test_a_run_that_is_stopped_in_either_stage_goes_on_to_the_same_bytes(
    original_kg: Mapping[str, FinishedKg], tmp_path: Path
) -> None:
    run = original_kg["written"]
    config: KgQuestionRunConfig = run_configuration(KG_QUESTIONS, run.settings)
    settings = begin_questions(tmp_path, config)
    stopped = replace(settings, shards=settings.shards[2:])
    run_stage(KG_QUESTIONS, "write", tmp_path, stopped, config)
    assert len(list((tmp_path / "shards").iterdir())) == len(settings.shards) - 2
    run_stages(tmp_path, settings)
    whole = written(run.folder)
    assert written(tmp_path) == whole
    for path in [tmp_path / "shards/selection.json", *(tmp_path / "kg_questions").glob("*.parquet")]:
        path.unlink()
    (tmp_path / selection.JSONL).write_text("half a li")
    run_stages(tmp_path, settings)
    assert written(tmp_path) == whole


def test_another_seed_samples_other_paths(original_kg: Mapping[str, FinishedKg], tmp_path: Path) -> None:
    config = replace(BY_RULE, count=8).on_graph(original_kg["by_rule"].graph)
    first, again, other = (
        begin_questions(tmp_path / name, replace(config, seed=seed))
        for name, seed in (("first", 0), ("again", 0), ("other", 1))
    )
    assert contents(tmp_path / "first" / "inputs") == contents(tmp_path / "again" / "inputs")
    assert first.run_id == again.run_id != other.run_id
    paths = [{p.id for p in read_parquet(tmp_path / n / s.shards[0].input, FactChain)} for n, s in
             (("first", first), ("other", other))]  # fmt: skip
    assert paths[0] != paths[1]


def test_the_questions_of_an_earlier_run_do_not_stay_when_nothing_is_selected(
    original_kg: Mapping[str, FinishedKg], tmp_path: Path
) -> None:
    config = run_configuration(KG_QUESTIONS, original_kg["written"].settings)
    settings = begin_questions(tmp_path, config)
    (tmp_path / selection.JSONL).write_text("{}\n")
    selection.select(stage_run(tmp_path, config, [only_shard(settings.shards)], settings.shards))
    assert not (tmp_path / selection.JSONL).exists()


def test_reasons_of_memory_and_check_stand_in_the_books(original_kg: Mapping[str, FinishedKg]) -> None:
    run = original_kg["written"]
    rejected = Counter(row.reason for row in run.rows("rejected") if row.stage == "filter")
    assert rejected.keys() >= {"right_from_memory", "agreed_otherwise", "ambiguous_question"}
    calls = {each.purpose: each.calls for each in run.manifest.calls_by_purpose}
    assert calls["check"] == len(run.rows("candidates")) + rejected["ambiguous_question"]
    for row in run.rows("rejected"):
        if row.reason == "agreed_otherwise":
            assert re.fullmatch(r"2 of [2-4] draws say '.+'", row.detail)
            question = from_dict(KgQuestion, json.loads(row.payload))
            assert len(question.provenance.call_keys) == 1 + int(row.detail.split()[2])


async def test_a_path_with_two_answers_is_rejected_with_their_number() -> None:
    model = ScriptedModel(lambda request: "UNKNOWN")
    config = replace(BY_RULE, filters=KgQuestionFilterConfig())
    two = replace(DUST, answer=replace(DUST.answer, matches=2))
    result = await question_of(two, context(client=model), config)
    (row,) = result.rows["rejected"]
    assert (row.stage, row.reason, row.score) == ("filter", "not_unique", 2.0)
    assert row.detail == "2 entities may be 'Elmton'"
    assert not result.rows["candidates"] and not model.requests, "what is rejected anyway is not asked"
    assert [line.balance for line in result.stages] == [0, 0]
    (row,) = (await question_of(DUST, context(client=model), config)).rows["candidates"]
    assert row.num_answers == 1 and len(model.requests) == 4


def test_no_question_is_made_of_a_relation_that_people_refuse(
    original_kg: Mapping[str, FinishedKg], tmp_path: Path
) -> None:
    before = original_kg["by_rule"]
    relation = before.rows("kg_questions")[0].chain.facts[0].triple.relation_label
    said = RefusedPattern(field="relation", pattern=f"^{relation}$", detail="ann: too easy")
    chain = next(row.chain.id for row in before.rows("kg_questions") if relation not in _relations(row))
    config, folder = BY_RULE.on_graph(before.graph), tmp_path / "run"
    refused = Refusals(sources={(chain, ""): "ann: no"}, patterns=(said,))
    settings = work.take_in(RunInputs(dataset="kg_questions", refused=refused), folder, config)
    write_settings(folder, settings)
    run_stages(folder, settings)
    manifest = finish_run(folder, settings, KG_QUESTIONS, seconds=1.0)
    rows = read_rows(sorted((folder / "kg_questions").glob("*.parquet")), KgQuestion)
    assert not [row.uid for row in rows if relation in _relations(row) or row.chain.id == chain]
    read = manifest.stages[0]
    aside = {count.reason: count.count for count in read.rejected}
    assert aside["rejected_by_curator"] == 1 and aside["refused_pattern"] > 1
    assert read.inputs == before.settings.items == read.accepted + sum(aside.values())
    assert verify_run(folder).problems == []


def _relations(row: KgQuestion) -> set[str]:
    return {fact.triple.relation_label for fact in row.chain.facts}
