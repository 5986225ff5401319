"""Episodes of research agents as rows to train on: windows, each turn once, for TRL and in OpenAI's form."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.agents.test_browse import CONFIG, GOLD, question, row_of, run
from tests.support.browse_agent import Road
from tests.support.evaluations import evaluation as grid
from trailforge.evaluation.folder import EPISODES, write_evaluation
from trailforge.protocols.browse.native import TOOLS
from trailforge.schemas import InvalidInput, SftRow, read_parquet, write_parquet
from trailforge.schemas.agent_episode import AgentEpisode
from trailforge.training.exports import export
from trailforge.training.exports.episodes import FILE, sft_rows


def episode(writing: str = "native", context: str = "all", stops: int = 6) -> AgentEpisode:
    config = replace(CONFIG, writing=writing, context=context)  # type: ignore[arg-type]
    return row_of(run(Road(stops), config), question(*GOLD))


def evaluation(folder: Path, *episodes: AgentEpisode) -> Path:
    (folder / EPISODES / "cell").mkdir(parents=True)
    write_evaluation(folder, grid())
    write_parquet(folder / EPISODES / "cell" / "part-00000.parquet", AgentEpisode, list(episodes))
    return folder


def exported(folder: Path, to: str) -> list[dict[str, Any]]:
    assert export(folder, to, folder.with_name(to))[FILE]
    return [json.loads(line) for line in (folder.with_name(to) / FILE).read_text().splitlines()]


@pytest.mark.parametrize("writing", ["native", "tags"])
@pytest.mark.parametrize("context", ["all", "newest:2"])
def test_each_turn_is_trained_in_one_row(writing: str, context: str, tmp_path: Path) -> None:
    made = episode(writing, context)
    rows = sft_rows(made)
    turns = sum(message.role == "assistant" for message in made.messages)
    assert sum(map(sum, map(lambda row: row.train, rows))) == turns
    assert (len(rows) == 1) is (context == "all") and {row.segment_count for row in rows} == {len(rows)}
    assert all((row.native is not None) is (writing == "native") for row in rows)
    path = tmp_path / "sft.parquet"
    write_parquet(path, SftRow, rows)
    assert read_parquet(path, SftRow) == rows


def test_openai_rows_have_tools_calls_with_ids_and_weights(tmp_path: Path) -> None:
    (row,) = exported(evaluation(tmp_path / "evaluation", episode()), "openai")
    assert row["tools"] == list(TOOLS)
    called, answered = row["messages"][2], row["messages"][3]
    assert called["reasoning_content"] == "I begin." and called["weight"] == 1
    (call,) = called["tool_calls"]
    assert call["type"] == "function" and json.loads(call["function"]["arguments"]) == {"query": "Stop 1"}
    assert answered["role"] == "tool" and answered["tool_call_id"] == call["id"] and "weight" not in answered
    assert row["messages"][-1]["content"] == "<answer>Oslo</answer>"


def test_turns_of_earlier_windows_have_no_weight(tmp_path: Path) -> None:
    rows = exported(evaluation(tmp_path / "evaluation", episode(context="newest:2")), "openai")
    weights = [[message["weight"] for message in row["messages"] if message["role"] == "assistant"] for row in rows]
    assert len(rows) > 2 and all(0 in each for each in weights[1:])
    assert sum(map(sum, weights)) == sum(message.role == "assistant" for message in episode().messages)


@pytest.mark.parametrize("writing", ["native", "tags"])
def test_trl_rows_complete_from_the_first_new_turn(writing: str, tmp_path: Path) -> None:
    (row,) = exported(evaluation(tmp_path / "evaluation", episode(writing)), "trl")
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    assert row["completion"][0]["role"] == row["completion"][-1]["role"] == "assistant"
    assert ("tools" in row) is (writing == "native")


def test_other_trainers_and_evaluations_without_such_episodes_say_so_in_a_line(tmp_path: Path) -> None:
    folder = evaluation(tmp_path / "evaluation", replace(episode(), browse=None))
    with pytest.raises(InvalidInput, match="verl does not take several tools yet; take --to trl or --to openai"):
        export(folder, "verl", tmp_path / "verl")
    with pytest.raises(InvalidInput, match="no episode of browse with a right answer"):
        export(folder, "trl", tmp_path / "trl")
    assert not (tmp_path / "trl").exists()


def test_wrong_answers_are_not_trained(tmp_path: Path) -> None:
    wrong = episode()
    wrong = replace(wrong, uid="w", scores=replace(wrong.scores, right=0.0), answer="Rome")
    assert len(exported(evaluation(tmp_path / "evaluation", episode(), wrong), "openai")) == 1
