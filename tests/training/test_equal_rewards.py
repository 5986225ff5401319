"""What filters kept as right is right for the rewards of all exports, or says that it is right in another way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import finished_runs as made
from tests.support.equal_rewards import compare_rewards, pay_by
from tests.support.recorded_episodes import recorded_episodes, recorded_question
from trailforge.generators.agent_trajectories.rows import sft_rows
from trailforge.generators.kg_trajectories.rows import kg_sft_row, reward_of
from trailforge.rewards.dynasearcher import PAPER
from trailforge.schemas import KgTrajectory, Question, SftRow
from trailforge.schemas.agent_episode import AgentTrajectory


def questions_of(rows: Sequence[KgTrajectory | AgentTrajectory]) -> list[Question]:
    return [recorded_question(each) for each in dict.fromkeys(row.question_id for row in rows)]


def kg_run(folder: Path) -> Path:
    rows, _ = recorded_episodes(KgTrajectory)
    questions = questions_of(rows)
    rows = [replace(row, reward=reward_of(row, PAPER)) for row in rows]
    tables = {"inputs": (Question, questions), "kg_trajectories": (KgTrajectory, rows)}
    return made.write_run(folder, "kg_trajectories", {**tables, "sft": (SftRow, list(map(kg_sft_row, rows)))})


def agents_run(folder: Path) -> Path:
    rows, _ = recorded_episodes(AgentTrajectory)
    questions = questions_of(rows)
    sft = [each for row in rows for each in sft_rows(row, data_source="agent_trajectories")]
    tables = {"inputs": (Question, questions), "agent_trajectories": (AgentTrajectory, rows)}
    return made.write_run(folder, "agent_trajectories", {**tables, "sft": (SftRow, sft)})


def test_a_strong_models_rows_over_graph_and_documents(tmp_path: Path) -> None:
    """ "Italy" for "Italian" and "France" for "French" among them, which are one name by rule."""
    compared = compare_rewards([kg_run(tmp_path / "kg"), agents_run(tmp_path / "agents")], tmp_path)
    assert (len(compared.equal), compared.listed) == (17, {})


def test_our_own_reward_pays_each_kept_row_as_right(tmp_path: Path) -> None:
    """The filters' matcher is its own."""
    paid = pay_by("abstention", [kg_run(tmp_path / "kg"), agents_run(tmp_path / "agents")], tmp_path)
    assert paid == [1.0] * 17


def test_a_reward_that_finds_less_than_the_filters_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets without names by rule: the row that says "France" for "French" is not paid what was recorded."""
    monkeypatch.setattr("trailforge.training.sets.runs.make_target", lambda golds, preset: tuple(golds))
    with pytest.raises(AssertionError):
        compare_rewards([kg_run(tmp_path / "kg"), agents_run(tmp_path / "agents")], tmp_path)


def test_rows_of_the_other_data_sets(tmp_path: Path) -> None:
    """Trajectories of a tree, and episodes of bundles with options and without."""
    asked = [made.question(number) for number in range(3)]
    rows = [row for each in asked for row in made.mcts_rows(each)]
    runs = [made.mcts_run(tmp_path / "mcts", asked, rows), made.bundles_run(tmp_path / "bundles")]
    compared = compare_rewards(runs, tmp_path)
    assert len(compared.equal) > len(rows) and Counter(compared.listed.values()).keys() <= {"judge", "partly"}


def test_an_answer_that_covers_its_gold_stays_in_sft_and_its_question_leaves(tmp_path: Path) -> None:
    """The matcher calls it right, its reward pays it in part: as it says."""
    asked = [made.question(number) for number in range(2)]
    (row,), (other,) = (made.mcts_rows(each) for each in asked)
    last = row.messages[-1]
    assert "Vienna" in last.content and row.right_by == "target"
    last = replace(last, content=last.content.replace("Vienna", "Vienna in Austria"))
    longer = replace(row, right_by="matching", messages=(*row.messages[:-1], last))
    compared = compare_rewards([made.mcts_run(tmp_path / "run", asked, [longer, other])], tmp_path)
    assert compared.listed == {row.uid: "matching"} and compared.equal == [other.uid]
