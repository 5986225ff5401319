"""Which questions are searched last, with how much at a time; the model's word on its own claims, in the books."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.pipelines import support
from tests.pipelines.support import take_in
from tests.support import world
from tests.support.scripted import ScriptedModel
from trailforge.generators.mcts_trajectories import DATASET
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import expected_hops
from trailforge.generators.mcts_trajectories.telling.thoughts import ThoughtsConfig
from trailforge.generators.mcts_trajectories.work import tail_of
from trailforge.inference import ModelClient, Request
from trailforge.pipelines.engine.pipeline import run_pipeline
from trailforge.pipelines.runs.config import OutputConfig, ScheduleConfig
from trailforge.pipelines.runs.finish import finish_run
from trailforge.pipelines.runs.intake import write_settings
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import Question, RejectedRow, read_rows


def tail(folder: Path, count: int, hops: tuple[int, ...], **schedule: int) -> set[int]:
    world.write_questions(folder / "questions.jsonl", count, hops=hops)
    config = MctsRunConfig(output=OutputConfig(shard_size=4))
    settings = take_in(folder / "questions.jsonl", folder / "out", config)
    write_settings(folder / "out", settings)
    questions = read_rows((folder / "out" / shard.input for shard in settings.shards), Question)
    last = tail_of(folder / "out", settings, ScheduleConfig(**schedule))
    return {position for position, question in enumerate(questions) if question in last}


def test_the_shortest_of_the_last_questions_are_the_tail(tmp_path: Path) -> None:
    assert tail(tmp_path, 18, (2, 3, 4), tail_questions=3, tail_window=9) == {9, 12, 15}


def test_of_equally_long_ones_the_last_are_the_tail(tmp_path: Path) -> None:
    assert tail(tmp_path, 10, (2,), tail_questions=3, tail_window=6) == {7, 8, 9}


def test_a_small_run_has_no_tail_and_none_is_none(tmp_path: Path) -> None:
    assert tail(tmp_path, 5, (2, 3), tail_questions=3, tail_window=256) == set()
    assert len(tail(tmp_path, 6, (2, 3), tail_questions=3, tail_window=256)) == 3
    assert tail(tmp_path, 5, (2, 3), tail_questions=0, tail_window=256) == set()


def test_without_a_gold_decomposition_the_words_say_how_long_a_search_will_be() -> None:
    question = world.question(1, 3)
    assert expected_hops(question) == 3
    bare = replace(question, decomposition=())
    assert expected_hops(replace(bare, question="Who is he?")) == 2
    assert expected_hops(replace(bare, question=" ".join(["word"] * 28))) == 4


@dataclass(frozen=True, kw_only=True)
class DoubtfulWork(support.ScriptedWork):
    """As `ScriptedWork`, with a model that finds no claim stated."""

    async def client(self, link: object = None) -> ModelClient:
        """In place of `ModelWork.client`."""
        model: Any = ScriptedModel(lambda request: _doubt(request) or support.reply(request))
        return model


def _doubt(request: Request) -> str:
    if request.purpose != "thoughts":
        return ""
    turns = json.loads(request.json_schema or "")["properties"]
    fields = {name: turn["properties"] for name, turn in turns.items()}
    said = {"boolean": False, "string": "I see."}
    return json.dumps({name: {field: said[kind["type"]] for field, kind in of.items()} for name, of in fields.items()})


def _kind(row: RejectedRow) -> tuple[str, str]:
    """Its question, and what its places are counted by."""
    payload = json.loads(row.payload)
    return payload["question_id"], payload["reflection_error"] or payload["kind"]


def test_rows_whose_claims_are_not_stated_are_in_the_books_and_make_room(tmp_path: Path) -> None:
    generator = replace(
        support.CONFIG.generator,
        thoughts=ThoughtsConfig(source="model"),
        reflection=replace(support.CONFIG.generator.reflection, max_correct=1, max_pairs=1),
    )
    config, out = replace(support.CONFIG, generator=generator), tmp_path / "run"
    settings = take_in(support.questions_file(tmp_path / "q.jsonl", count=6, broken_row=None), out, config)
    write_settings(out, settings)
    work = DoubtfulWork(folder=str(out), run_id=settings.run_id, config=config)
    run_pipeline(work, out, settings.shards, support.IN_PROCESS)
    manifest = finish_run(out, settings, DATASET, seconds=1.0)
    books = next(stage for stage in manifest.stages if stage.name == "filter")
    assert (books.accepted, sum(each.count for each in books.rejected)) == (0, books.inputs)
    assert {each.reason for each in books.rejected} == {"unsupported_claim"}, "nothing is over a cap that nobody fills"
    report = verify_run(out)
    assert report.problems == []
    rejected = list(read_rows(sorted((out / "rejected").glob("*.parquet")), RejectedRow))
    assert max(Counter(_kind(row) for row in rejected if row.reason == "unsupported_claim").values()) > 1
    correct = [row for row in rejected if json.loads(row.payload)["kind"] == "correct"]
    assert f"| correct | {len(correct)} | 0 | unsupported_claim {len(correct)} |" in (out / "README.md").read_text()
    support.forge(out, "rejected", lambda rows: [*rows, replace(correct[0], reason="cap")])
    found = verify_run(out).problems
    assert found and not any("want of room" in problem for problem in found)
