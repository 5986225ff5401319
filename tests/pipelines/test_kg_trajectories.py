"""Runs of KG trajectories, free and guided: books, rows, what fails, resuming, seeds, what the intake asks for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pipelines.kg_support import (
    FREE,
    GUIDED,
    FinishedKg,
    begin_trajectories,
    questions_file,
    scripted_client,
    search_shards,
    searched_graph,
)
from tests.support import world
from tests.support.files import contents
from trailforge.generators.kg_trajectories import DATASET
from trailforge.mcts.plan import resolve
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.runs.intake import run_configuration
from trailforge.pipelines.runs.verify import verify_run
from trailforge.protocols import KG_SEARCH
from trailforge.schemas import InvalidInput, Question, RejectedRow, from_dict, read_parquet, to_dict

TABLES = (*DATASET.tables, "inputs", "shards")


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelWork, "client", scripted_client)


def written(folder: Path) -> dict[str, str]:
    """Rows and receipts."""
    return {name: data for name, data in contents(folder).items() if name.split("/")[0] in TABLES}


@pytest.mark.parametrize("style", ["free", "guided"])
def test_books_count_what_the_folder_holds(original_kg: Mapping[str, FinishedKg], style: str) -> None:
    run = original_kg[style]
    stages = {line.name: line for line in run.manifest.stages}
    assert list(stages) == ["read", "search", "episode", "filter"]
    assert all(line.balance == 0 and line.accepted for line in stages.values())
    assert (stages["read"].inputs, stages["search"].inputs) == (21, 20)
    episodes = run_configuration(run.dataset, run.settings).generator.episodes
    assert stages["episode"].inputs == stages["search"].accepted * episodes
    assert stages["filter"].inputs == stages["episode"].accepted
    assert stages["filter"].accepted == len(run.rows("kg_trajectories")) == len(run.rows("sft"))
    rejected = Counter((row.stage, row.reason) for row in run.rows("rejected"))
    for line in stages.values():
        for count in (*line.rejected, *line.failed):
            assert rejected.pop((line.name, count.reason)) == count.count
    assert rejected == {}
    assert verify_run(run.folder).problems == []


def test_the_runs_have_rows_for_the_reasons_that_they_are_to_show(original_kg: Mapping[str, FinishedKg]) -> None:
    """Without any of these the other tests would find nothing."""
    reasons = {style: {row.reason for row in original_kg[style].rows("rejected")} for style in ("free", "guided")}
    assert reasons["free"] >= {
        *("invalid_input", "malformed_reply", "malformed_conversation", "no_search", "wrong_answer", "idle_search"),
        "duplicate_episode",
    }
    assert reasons["guided"] >= {"invalid_input", "wrong_answer", "duplicate_episode"}
    assert any(row.flags for row in original_kg["free"].rows("kg_trajectories"))


@pytest.mark.parametrize(("style", "origin"), [("free", "policy"), ("guided", "oracle")])
def test_rows_are_right_episodes_of_the_questions(
    original_kg: Mapping[str, FinishedKg], style: str, origin: str
) -> None:
    run = original_kg[style]
    questions = {q.id: q for shard in run.settings.shards for q in read_parquet(run.folder / shard.input, Question)}
    rows = run.rows("kg_trajectories")
    for row in rows:
        question = questions[row.question_id]
        assert (row.origin, row.final_answer, row.num_hops) == (origin, question.answer, len(question.decomposition))
        assert row.plan == (tuple(hop.question for hop in question.decomposition) if style == "guided" else ())
        assert KG_SEARCH.validate(row.messages, strict=True) == [] and row.reward.r_acc == 1.0
        found = {number: hop.answer for number, hop in enumerate(question.decomposition, start=1)}
        assert [step.query for step in row.steps] == [resolve(hop.question, found) for hop in question.decomposition]
        assert all(step.triples_kept and step.documents for step in row.steps)
    selected, bad = {row.uid for row in rows}, {row.uid for row in run.rows("rejected")}
    pairs = run.rows("pairs")
    assert pairs and all(pair.good_uid in selected and pair.bad_uid in bad for pair in pairs)
    assert [row.trajectory_uid for row in run.rows("sft")] == [row.uid for row in rows]


def test_a_question_whose_filter_cannot_be_read_fails_alone(original_kg: Mapping[str, FinishedKg]) -> None:
    run = original_kg["free"]
    failed = [row for row in run.rows("rejected") if row.stage == "search"]
    assert failed and {row.reason for row in failed} == {"malformed_reply"}
    made = {row.question_id for row in run.rows("kg_trajectories")}
    for row in failed:
        assert row.detail.startswith("keep_triples: it is not valid JSON") and "None of them." in row.detail
        assert from_dict(Question, json.loads(row.payload)).id == row.uid and row.uid not in made
    shard = next(s for s in run.settings.shards if (run.folder / f"rejected/{s.name}.parquet").exists())
    assert (run.folder / f"kg_trajectories/{shard.name}.parquet").exists(), "the others of its shard have rows"


def test_a_guided_run_that_is_stopped_between_shards_goes_on_to_the_same_bytes(
    original_kg: Mapping[str, FinishedKg], tmp_path: Path
) -> None:
    """Free ones: as those of every data set, in `tests/flows/test_runs.py` and `tests/end_to_end/test_killed.py`."""
    run = original_kg["guided"]
    settings = begin_trajectories(
        tmp_path / "run", questions_file(tmp_path / "questions.jsonl"), GUIDED.on_graph(run.graph)
    )
    assert settings.run_id == run.settings.run_id and len(settings.shards) == 2
    search_shards(tmp_path / "run", settings, settings.shards[1:2])
    assert len(list((tmp_path / "run" / "shards").iterdir())) == 1
    search_shards(tmp_path / "run", settings, settings.shards)
    invalid = "rejected/part-inputs.parquet"  # names the file that the rows come from
    assert {**written(tmp_path / "run"), invalid: b""} == {**written(run.folder), invalid: b""}


def test_another_seed_gives_other_rows(tmp_path: Path) -> None:
    config = FREE.on_graph(searched_graph(tmp_path / "graph", 3))
    source = questions_file(tmp_path / "questions.jsonl", count=3, broken_row=None)
    runs: list[dict[str, str]] = []
    for name, seed in (("first", 0), ("again", 0), ("other", 1)):
        settings = begin_trajectories(tmp_path / name, source, replace(config, seed=seed))
        search_shards(tmp_path / name, settings, settings.shards)
        runs.append(written(tmp_path / name))
    first, again, other = runs
    assert first == again
    assert not first.keys() & other.keys() and not set(first.values()) & {
        data for name, data in other.items() if not name.startswith("inputs/")
    }


# The intake


def bare_file(path: Path, count: int, bare: int) -> Path:
    """Questions of which the last ones have no decomposition."""
    rows = [world.question(n, 2) for n in range(count)]
    rows = [*rows[: count - bare], *(replace(row, decomposition=()) for row in rows[count - bare :])]
    path.write_text("".join(json.dumps(to_dict(row)) + "\n" for row in rows))
    return path


def test_a_question_that_cannot_be_led_is_an_invalid_row(tmp_path: Path) -> None:
    source = bare_file(tmp_path / "questions.jsonl", 20, 1)
    settings = begin_trajectories(tmp_path / "guided", source, GUIDED)
    assert settings.items == 19 and [(c.reason, c.count) for c in settings.books[0].rejected] == [("invalid_input", 1)]
    (row,) = read_parquet(tmp_path / "guided/rejected/part-inputs.parquet", RejectedRow)
    said = "row 20, field 'decomposition': no decomposition to be led along (generator.style: guided); name its column"
    assert row.uid == f"{source}:20" and said in row.detail
    assert begin_trajectories(tmp_path / "free", source, FREE).items == 20


def test_too_many_questions_that_cannot_be_led_stop_the_run(tmp_path: Path) -> None:
    source = bare_file(tmp_path / "questions.jsonl", 20, 2)
    with pytest.raises(InvalidInput, match=r"row 19, field 'decomposition': no decomposition .* \(2 of 20 rows"):
        begin_trajectories(tmp_path / "run", source, GUIDED)
    assert not (tmp_path / "run" / "run.json").exists()
