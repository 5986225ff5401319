"""Which questions are searched last, and with how much at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.pipelines.support import take_in
from tests.support import world
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import expected_hops
from trailforge.generators.mcts_trajectories.work import tail_of
from trailforge.pipelines.runs.config import OutputConfig, ScheduleConfig
from trailforge.pipelines.runs.intake import write_settings
from trailforge.schemas import Question, read_rows


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
