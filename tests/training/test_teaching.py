"""The experiment on teaching, in small: worlds, rows through all filters, and arms of equally many trained tokens.

Long form, with the training: `benchmarks/teaching.py`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.warm import Running
from trailforge.evaluation.folder import read_episodes
from trailforge.evaluation.results.failures import is_right
from trailforge.schemas import SftRow
from trailforge.training.sets.files import open_set

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def teaching() -> Iterator[ModuleType]:
    """The benchmark as a module, whose commands begin with their libraries loaded."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(BENCHMARKS))
        module = importlib.import_module("teaching")
        patched.setattr(module, "trailforge", warm_command)
        yield module


def warm_command(*words: object, log: Path) -> None:
    """In the place of `teaching.trailforge`."""
    code = Running(list(map(str, words)), {**os.environ, "OMP_NUM_THREADS": "1"}, log, log).wait(120)
    assert code == 0, log.read_text()


@pytest.fixture(scope="module")
def made(teaching: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Path]]:
    """A world of few questions, and the training sets of all arms. One run for all tests: it takes 15 seconds."""
    folder = tmp_path_factory.mktemp("teaching")
    scale = teaching.Scale(entities=60, questions=24, test_questions=12)
    world = teaching.make_world(folder, scale, 0)
    rows = teaching.make_rows(folder, world / "questions.jsonl", world / "corpus.jsonl")
    return folder, teaching.make_sets(folder, rows, 0, list(teaching.ARMS))


def rows_of(sets: dict[str, Path], arm: str) -> list[SftRow]:
    """Those that an arm is trained on."""
    return list(open_set(sets[arm]).rows("sft", "train", SftRow))


def test_rows_of_every_arm_come_through_the_filters(made: tuple[Path, dict[str, Path]]) -> None:
    """A has the correct rows of B alone; D has the conversations of B but for what was found."""
    _, sets = made
    mixed, control = rows_of(sets, "B"), rows_of(sets, "D")
    kinds = {row.reflection_error for row in mixed}
    assert {None, "retrieval", "reasoning"} <= kinds
    assert {row.uid for row in rows_of(sets, "A")} == {row.uid for row in mixed if row.reflection_error is None}
    found = [[m.content for row in rows for m in row.messages if m.role == "tool"] for rows in (mixed, control)]
    assert found[0] != found[1] and sorted(found[0]) == sorted(found[1])
    said = [[m for row in rows for m in row.messages if m.role != "tool"] for rows in (mixed, control)]
    assert said[0] == said[1]


def test_a_fifth_of_one_arms_questions_is_answered_wrongly_without_loss(
    made: tuple[Path, dict[str, Path]],
) -> None:
    _, sets = made
    mixed, wrong = rows_of(sets, "B"), rows_of(sets, "F")
    assert [row.uid for row in mixed] == [row.uid for row in wrong]
    changed = {row.question_id for row in wrong if row.is_wrong}
    assert len(changed) == round(0.2 * len({row.question_id for row in mixed})) > 0
    for right, row in zip(mixed, wrong, strict=True):
        if row.question_id in changed:
            assert row.messages[:-1] == right.messages[:-1] and row.messages[-1] != right.messages[-1]
            assert row.train == (*right.train[:-1], False) and row.is_wrong
        else:
            assert row == right


def test_one_arm_has_the_questions_of_a_band_and_another_as_many_by_lot(
    teaching: ModuleType, made: tuple[Path, dict[str, Path]]
) -> None:
    """What is in the band is counted here by the attempts themselves; a question has all its rows or none."""
    folder, sets = made
    mixed, banded, lot = rows_of(sets, "B"), rows_of(sets, "H"), rows_of(sets, "I")
    rates: dict[str, list[bool]] = {}
    for each in read_episodes(folder / "measured"):
        rates.setdefault(each.question_id, []).append(is_right(each.scores))
    asked = {row.question_id for row in banded}
    inside = {name for name, right in rates.items() if 0.1 <= sum(right) / len(right) <= 0.7}
    assert asked == inside & {row.question_id for row in mixed} and {len(right) for right in rates.values()} == {8}
    chosen = {row.question_id for row in lot}
    assert 0 < len(asked) == len(chosen) < len({row.question_id for row in mixed})
    for rows, ids in ((banded, asked), (lot, chosen)):
        assert sorted(row.uid for row in rows) == sorted(row.uid for row in mixed if row.question_id in ids)


def test_arms_are_trained_on_equally_many_tokens(teaching: ModuleType, made: tuple[Path, dict[str, Path]]) -> None:
    """Within half a step's tokens, though C has fewer in each row; steps make up for it."""
    base: Any = importlib.import_module("_teaching_base")
    folder, sets = made
    world = teaching.make_world(folder / "base", teaching.Scale(entities=90, questions=20), 1, for_base=True)
    tokenizer, preset = folder / "tokenizer", folder / "train.yaml"
    base.make_tokenizer(base.Texts(folder / "base" / "graph", world)).save_pretrained(tokenizer)
    preset.write_text(teaching.TRAIN_PRESET, encoding="utf-8")
    amounts = {arm: teaching.amount_of(each, tokenizer, preset, 50_000) for arm, each in sets.items()}
    for each in amounts.values():
        assert each.trained_tokens == pytest.approx(50_000, abs=each.trained_tokens / each.steps)
    assert amounts["C"].tokens_per_epoch < amounts["B"].tokens_per_epoch == amounts["D"].tokens_per_epoch
    assert amounts["C"].steps > amounts["B"].steps


def test_no_entity_of_a_test_question_is_asked_for_in_training(
    teaching: ModuleType, made: tuple[Path, dict[str, Path]]
) -> None:
    """And the base model has read none of their names."""
    worlds: Any = importlib.import_module("_teaching_world")
    folder, sets = made
    tested = _names_in(worlds, folder / "world" / "test.jsonl")
    learnt = _names_in(worlds, folder / "world" / "questions.jsonl")
    assert tested and not tested & learnt
    assert {name for row in rows_of(sets, "B") for name in worlds.NAME.findall(row.question)} <= learnt
    assert not tested & set(worlds.names_of(worlds=False))


def _names_in(worlds: Any, questions: Path) -> set[str]:
    """Of all that questions, their parts and their answers name."""
    parts = ("question", "answer", "decomposition")
    return {
        name for each in worlds.read_lines(questions) for part in parts for name in worlds.NAME.findall(str(each[part]))
    }


@pytest.mark.parametrize("table", ["rows", "stops"])
def test_the_page_says_what_the_stored_episodes_say(teaching: ModuleType, table: str) -> None:
    """Of its tables those without intervals, whose draws take long."""
    report: Any = importlib.import_module("_teaching_report")
    assert report.TABLES[table]() in report.PAGE.read_text(encoding="utf-8")
