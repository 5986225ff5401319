"""More like this: by the run's encoder, by shared words where it has none, by both where there is much to encode."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.generators.agent_trajectories.made_rows import row_of
from tests.support.rows import QUESTION
from trailforge.pipelines.runs.finished import OpenRun, open_run
from trailforge.pipelines.runs.intake import Settings
from trailforge.pipelines.search import alike
from trailforge.pipelines.search.alike import can_compare
from trailforge.pipelines.search.rows import all_rows, search_on, search_rows
from trailforge.schemas import AgentTrajectory, InvalidInput, Question, RejectedRow, to_dict, write_parquet

ASKED = {
    "boat": "Which stream carries ships through Vienna?",
    "pay": "Who founded the bank in Geneva?",
    "river": "On what river does the capital of Austria lie?",
    "money": "Which man began a bank that lends in Geneva?",
}


def run_of(folder: Path, retrieval: dict[str, Any]) -> OpenRun:
    questions = [replace(QUESTION, id=id, question=text) for id, text in ASKED.items()]
    (folder / "inputs").mkdir(parents=True)
    write_parquet(folder / "inputs" / "part-00000.parquet", Question, questions)
    payloads = [json.dumps({"question": ASKED["pay"]}), "no JSON", json.dumps({"title": "Bank", "text": "Of Geneva."})]
    rejected = [
        RejectedRow(uid=f"r{number}", stage="read", reason="bad", score=0, detail="", payload=payload)
        for number, payload in enumerate(payloads)
    ]
    (folder / "rejected").mkdir()
    write_parquet(folder / "rejected" / "part-00000.parquet", RejectedRow, rejected)
    settings = Settings(
        dataset="mcts_trajectories", run_id="run", config_hash="c", config=json.dumps({"retrieval": retrieval}),
        sources=(), limit=None, shards=(), files=(), books=(),
    )  # fmt: skip
    (folder / "run.json").write_text(json.dumps(to_dict(settings)))
    return open_run(folder)


def found(run: OpenRun, search: str) -> list[str]:
    return [list(ASKED)[number] for number in search_rows(run, "inputs", search).rows]


def test_by_an_encoder_what_means_the_same_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(tmp_path, {"kind": "dense", "encoder": "minilm"})
    assert found(run, "like:river")[:2] == ["river", "boat"] and found(run, "like:pay")[:2] == ["pay", "money"]
    assert found(run, "like:pay -lends") == [each for each in found(run, "like:pay") if each != "money"]
    monkeypatch.setattr(alike, "MOST_CHARACTERS", 100)  # two of the questions
    fresh = open_run(tmp_path)
    fresh.keep(("alike.encoder",), run.once(("alike.encoder",), AssertionError))
    assert found(fresh, "like:pay") == ["pay", "money"]


def test_without_an_encoder_by_the_words_that_rows_share(tmp_path: Path) -> None:
    run = run_of(tmp_path, {"kind": "bm25"})
    assert found(run, "like:money")[:2] == ["money", "pay"]
    assert found(run, "like:money nowhere") == []
    assert all_rows(run, "inputs", "like:money") == search_rows(run, "inputs", "like:money").rows
    before = search_rows(run, "inputs", "like:money")
    search_on(run, "inputs", "like:money")
    assert search_rows(run, "inputs", "like:money").rows == before.rows
    assert search_rows(run, "rejected", "like:r0").rows == (0, 2)


def test_agents_episodes_are_compared_by_what_they_were_asked(tmp_path: Path) -> None:
    (tmp_path / "agent_trajectories").mkdir()
    made = row_of()
    rows = [replace(made, uid=id, episode=replace(made.episode, question=text)) for id, text in ASKED.items()]
    write_parquet(tmp_path / "agent_trajectories" / "part-00000.parquet", AgentTrajectory, rows)
    run = run_of(tmp_path, {"kind": "bm25"})
    assert can_compare(run, "agent_trajectories")
    assert search_rows(run, "agent_trajectories", "like:money").rows[:2] == (3, 1)


@pytest.mark.parametrize(
    ("table", "search", "problem"),
    [
        ("inputs", "like:nobody", "no row nobody in inputs: give the id of one of its rows"),
        ("rejected", "like:r1", "row r1 has no text"),
    ],
)
def test_what_cannot_be_compared_is_said(tmp_path: Path, table: str, search: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        search_rows(run_of(tmp_path, {"kind": "bm25"}), table, search)
