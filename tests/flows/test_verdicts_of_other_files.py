"""Two files number their questions alike: a decision on one file's question touches no other file's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.bundle_rows import sample_documents
from trailforge.curation.decisions import LOG, append, read_decisions
from trailforge.curation.verdicts import copies, copy_logs, refusals
from trailforge.flows.configuration import configuration_of
from trailforge.inspector.deciding import decide
from trailforge.pipelines.dataset import resolve
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.runs.intake import RunInputs, read_settings, write_settings
from trailforge.schemas import Decision, Question, SourceDocument, read_rows, to_dict, write_parquet

DATA_SETS = ("mcts_trajectories", "agent_trajectories", "kg_trajectories")
BEFORE = Path(__file__).parent.parent / "schemas" / "before"


def asked(path: Path, *questions: str) -> Path:
    """A file of own questions q1, q2, …"""
    rows = (
        {
            "id": f"q{number}", "question": text, "answer": "Kiel",
            "decomposition": [{"question": text, "answer": "Kiel"}],
            "paragraphs": [{"id": "0", "title": "Kiel", "text": "A port on the Baltic Sea."}],
        }
        for number, text in enumerate(questions, start=1)
    )  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def taken(folder: Path, source: Path, *verdicts: Path, dataset: str = "mcts_trajectories") -> list[str]:
    """Take a file in as a run does; the texts of what is left."""
    inputs = RunInputs(dataset=dataset, files=(source,), refused=refusals(verdicts))
    declared = load_dataset(dataset)
    settings = resolve(declared.take_in)(inputs, folder, configuration_of(declared, "demo"))
    write_settings(folder, settings)
    rows: list[Any] = list(read_rows([folder / shard.input for shard in settings.shards], declared.inputs.record))
    return [row.question if isinstance(row, Question) else row.text for row in rows]


def run_id(folder: Path) -> str:
    settings = read_settings(folder)
    assert settings is not None
    return settings.run_id


def reject(folder: Path, table: str, row: dict[str, Any]) -> Decision:
    """As a person does, at the page or by `curate decide`."""
    said = [{"action": "reject", "reason": "vague"}]
    (word,) = decide(folder, run_id(folder), table, row, "ann", said, lambda row, ruling: None)
    return word


def as_of_before(folder: Path) -> None:
    """The log as the version before wrote it."""
    lines = [to_dict(each) | {"schema_version": "1.0"} for each in read_decisions(folder)]
    (folder / LOG).write_text(
        "".join(json.dumps({k: v for k, v in line.items() if k != "source_hash"}) + "\n" for line in lines)
    )


INPUT = ("inputs", {"id": "q1"})
ROW = ("mcts_trajectories", {"uid": "u", "question_id": "q1"})


@pytest.mark.parametrize("word", [INPUT, ROW], ids=["question", "row"])
@pytest.mark.parametrize("age", ["now", "before"])
def test_a_question_of_another_file_stays_and_the_same_one_goes(
    tmp_path: Path, word: tuple[str, dict[str, Any]], age: str
) -> None:
    mine, other = asked(tmp_path / "a.jsonl", "Where?", "Who?"), asked(tmp_path / "b.jsonl", "When?", "Why?")
    run = tmp_path / "run"
    taken(run, mine)
    said = reject(run, *word)
    assert said.source_hash
    if age == "before":
        as_of_before(run)
    assert refusals([run]).by_id_alone == 0
    assert taken(tmp_path / "other", other, run) == ["When?", "Why?"]
    assert taken(tmp_path / "again", mine, run) == ["Who?"]
    mixed = asked(tmp_path / "c.jsonl", "When?", "Where?")  # the same text under another id is another question
    assert taken(tmp_path / "mixed", mixed, run) == ["When?", "Where?"]


@pytest.mark.parametrize("dataset", DATA_SETS)
def test_so_it_is_with_every_data_set_of_questions(tmp_path: Path, dataset: str) -> None:
    run = tmp_path / "run"
    taken(run, asked(tmp_path / "a.jsonl", "Where?", "Who?"), dataset="mcts_trajectories")
    reject(run, *INPUT)
    other = asked(tmp_path / "b.jsonl", "When?", "Who?")
    inputs = RunInputs(dataset=dataset, files=(other,), refused=refusals([run]))
    found = [Question(id="q1", question=text, answer="Kiel") for text in ("When?", " Where?\n")]
    assert [inputs.refused.row_of(each) is None for each in found] == [True, False]


def test_so_it_is_with_documents(tmp_path: Path) -> None:
    first, *others = sample_documents()
    mine, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    write_parquet(mine, SourceDocument, [first, *others])
    write_parquet(other, SourceDocument, [replace(first, text="Something else altogether happened."), *others])
    run = tmp_path / "run"
    everything = taken(run, mine, dataset="document_bundles")
    reject(run, "inputs", to_dict(next(iter(read_rows(sorted((run / "inputs").glob("*")), SourceDocument)))))
    assert taken(tmp_path / "again", mine, run, dataset="document_bundles") == everything[1:]
    assert len(taken(tmp_path / "other", other, run, dataset="document_bundles")) == len(everything)


def test_two_people_differ_on_two_questions_of_one_id_without_touching_each_other(tmp_path: Path) -> None:
    mine, other = asked(tmp_path / "a.jsonl", "Where?", "Who?"), asked(tmp_path / "b.jsonl", "When?", "Who?")
    for name, source in (("one", mine), ("two", other)):
        taken(tmp_path / name, source)
    reject(tmp_path / "one", *INPUT)
    decide(tmp_path / "two", run_id(tmp_path / "two"), *INPUT, "ann", [{"action": "accept"}], lambda row, ruling: None)
    both = [tmp_path / "one", tmp_path / "two"]
    assert taken(tmp_path / "next", mine, *both) == ["Who?"]  # ann's later word was on another question
    assert taken(tmp_path / "last", other, *both) == ["When?", "Who?"]


def test_a_word_that_is_taken_back_refuses_nothing_in_a_log_of_any_age(tmp_path: Path) -> None:
    mine, run = asked(tmp_path / "a.jsonl", "Where?", "Who?"), tmp_path / "run"
    taken(run, mine)
    reject(run, *ROW)
    as_of_before(run)
    decide(run, run_id(run), *ROW, "ann", [{"action": "withdraw"}], lambda row, ruling: None)
    assert refusals([run]).sources == {}


@pytest.mark.parametrize("move", [
    lambda run, to: copy_logs([str(run)], to) and copies(to)[0],
    lambda run, to: shutil.copytree(run / "curation", to) / "decisions.jsonl",
], ids=["night", "person"])  # fmt: skip
def test_a_log_that_was_copied_from_its_run_says_itself_what_it_is_about(
    tmp_path: Path, move: Callable[[Path, Path], Path]
) -> None:
    mine, other = asked(tmp_path / "a.jsonl", "Where?", "Who?"), asked(tmp_path / "b.jsonl", "When?", "Why?")
    run = tmp_path / "run"
    taken(run, mine)
    reject(run, *ROW)
    log = move(run, tmp_path / "away")
    shutil.rmtree(run)
    assert taken(tmp_path / "other", other, log) == ["When?", "Why?"]
    assert taken(tmp_path / "again", mine, log) == ["Who?"]


def test_a_night_copies_an_old_log_with_what_its_run_tells(tmp_path: Path) -> None:
    mine, other = asked(tmp_path / "a.jsonl", "Where?", "Who?"), asked(tmp_path / "b.jsonl", "When?", "Why?")
    run = tmp_path / "run"
    taken(run, mine)
    reject(run, *ROW)
    as_of_before(run)
    before = refusals([run])
    copy_logs([str(run)], tmp_path / "night")
    shutil.rmtree(run)
    (log,) = copies(tmp_path / "night")
    assert refusals([log]).hash == before.hash and refusals([log]).sources == before.sources
    assert taken(tmp_path / "other", other, log) == ["When?", "Why?"]


def test_an_old_log_without_its_run_holds_as_ever_and_it_is_said_how_often(tmp_path: Path) -> None:
    """Runs that were begun with it go on; a rejection is never lost."""
    log = tmp_path / "old"
    (log / LOG).parent.mkdir(parents=True)
    shutil.copy(BEFORE / "decision-1.0.json", log / LOG)
    append(log, [replace(read_decisions(log)[0], uid="q9", action="accept", reason="")])
    said = refusals([log])
    assert said.sources == {("q1", ""): "ann: vague"} and said.by_id_alone == 1
    assert taken(tmp_path / "run", asked(tmp_path / "b.jsonl", "When?", "Why?"), log) == ["Why?"]


def test_a_run_that_was_begun_with_an_old_log_goes_on(tmp_path: Path) -> None:
    """What is refused had this name before words told what their source says."""
    mine, run = asked(tmp_path / "a.jsonl", "Where?", "Who?"), tmp_path / "run"
    taken(run, mine)
    reject(run, *INPUT)
    told = refusals([run])
    ids_alone = replace(told, sources={(name, ""): detail for (name, _), detail in told.sources.items()})
    assert told.sources != ids_alone.sources and told.hash == ids_alone.hash == "f092fc7f97f5"
