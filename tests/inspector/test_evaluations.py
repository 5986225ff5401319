"""An evaluation's folder, opened: which episodes are asked for, and what a terminal shows of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.agent_episodes import episode
from tests.support.evaluations import evaluation, play_cell, whole_folder, write_folder, write_training
from trailforge.cli import app
from trailforge.evaluation.folder import read_episodes
from trailforge.inspector.evaluations import (
    FACETS,
    OpenEvaluation,
    find_episodes,
    is_training,
    open_evaluation,
    open_training,
    split_questions,
    stamp_evaluation,
    verdict_of,
)
from trailforge.inspector.terminal import show_training
from trailforge.schemas import InvalidInput, write_parquet
from trailforge.schemas.agent_episode import AgentEpisode


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_folder(tmp_path_factory.mktemp("evaluation"))


@pytest.fixture(scope="module")
def opened(folder: Path) -> OpenEvaluation:
    return open_evaluation(folder)


WANTED = {"agent": "single_shot", "back end": "", "failure tag": "miss_at_hop_1"}


def show(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["show", *map(str, arguments)], env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    return done.output


def test_the_whole_of_a_light_episode_is_the_stored_one(folder: Path, opened: OpenEvaluation) -> None:
    stored = {each.uid: each for each in read_episodes(folder)}
    assert len(stored) == len(opened.episodes) == 360
    for number in range(0, 360, 37):
        assert opened.whole(number) == stored[opened.episodes[number].uid]


def test_a_folder_that_gets_another_shard_is_opened_anew(tmp_path: Path) -> None:
    write_folder(tmp_path, evaluation(), {("search_o1", "raptor_plain"): play_cell("search_o1", "raptor_plain")[:3]})
    before = stamp_evaluation(tmp_path)
    assert stamp_evaluation(tmp_path) == before
    cell = tmp_path / "episodes" / "search_o1-raptor_plain"
    write_parquet(cell / "part-00001.parquet", AgentEpisode, play_cell("search_o1", "raptor_plain")[3:5])
    assert stamp_evaluation(tmp_path) != before and len(open_evaluation(tmp_path).episodes) == 5


def test_a_right_answer_that_nothing_bears_out_is_right_by_luck() -> None:
    assert verdict_of(episode()) == "right"
    assert verdict_of(episode(found_at=(None,))) == "right by luck"
    assert verdict_of(episode(answer="Rome")) == "wrong"


def test_episodes_are_selected_by_all_that_is_asked_together(opened: OpenEvaluation) -> None:
    found = [opened.episodes[n] for n in opened.select(WANTED, words="Q03")]
    assert found and {(each.agent, each.question_id) for each in found} == {("single_shot", "q03")}
    assert all("miss_at_hop_1" in each.failures for each in found)
    assert opened.select({"agent": ""}) == list(range(360)) and opened.select({}, words="nowhere") == []


def test_questions_are_parted_by_who_gets_them_right_most_of_the_time() -> None:
    def run(**answers: str) -> list[AgentEpisode]:
        return [
            episode(name, seed=seed, answer="Paris" if sign == "+" else "Rome")
            for name, signs in answers.items()
            for seed, sign in enumerate(signs)
        ]

    first, second = run(a="+-+", b="+--", c="+++", d="-"), run(a="--+", b="-++", c="+++", e="+")
    parted = split_questions(first, second)
    assert {side: [name for name, _, _ in questions] for side, questions in parted.items()} == {
        "only the first is right": ["set:a"],
        "only the second is right": ["set:b"],
        "both are right": ["set:c"],
        "neither is right": [],
    }
    ((_, one, other),) = parted["only the second is right"]
    assert (one.seed, one.answer, other.seed, other.answer) == (1, "Rome", 1, "Paris")


def test_episodes_are_found_by_question_uid_tag_and_verdict(opened: OpenEvaluation) -> None:
    by_question = find_episodes(opened, id="q07", kind=None, count=99)
    assert len(by_question) == 18
    uid = opened.episodes[by_question[3]].uid
    assert find_episodes(opened, id=uid, kind=None, count=1) == [by_question[3]]
    wrong = find_episodes(opened, id=None, kind="wrong", count=4)
    assert len(wrong) == 4 and {opened.episodes[number].scores.right for number in wrong} == {0.0}
    with pytest.raises(InvalidInput, match="there are miss_at_hop_1, miss_at_hop_2, stopped_early, right, wrong"):
        find_episodes(opened, id=None, kind="misread", count=1)
    with pytest.raises(InvalidInput, match="no episode q99"):
        find_episodes(opened, id="q99", kind=None, count=1)


def test_a_terminal_shows_the_table_and_an_episode(folder: Path, opened: OpenEvaluation) -> None:
    shown = show(folder)
    assert "graph_search over linear_rag" in shown and "97.5" in shown and "Not all is there" not in shown
    assert "report.md" not in shown
    shown = show(folder, "--kind", "miss_at_hop_2")
    one = opened.whole(find_episodes(opened, id=None, kind="miss_at_hop_2", count=1)[0])
    assert one.uid in shown and one.messages[1].content in shown and "by none" in shown
    assert "not trained" not in shown
    assert show(folder, "--id", "q05", "--count", "3").count("What is q05?\ngold answer") == 3


def test_questions_of_an_own_file_are_named_by_it(tmp_path: Path) -> None:
    cells = {("search_o1", "raptor_plain"): play_cell("search_o1", "raptor_plain")[:3]}
    write_folder(tmp_path, evaluation(dataset="", questions="mine.jsonl"), cells)
    assert "20 questions of mine.jsonl" in show(tmp_path)


def test_a_terminal_is_not_moved_by_what_an_agent_wrote(tmp_path: Path) -> None:
    first = replace(play_cell("search_o1", "raptor_plain")[0], answer="\x1b[2J[bold]x[/bold]\u202e")
    write_folder(tmp_path, evaluation(), {("search_o1", "raptor_plain"): [first]})
    shown = show(tmp_path, "--id", first.uid)
    assert "\x1b" not in shown and "\u202e" not in shown and "[bold]x[/bold]" in shown


def test_a_run_is_not_compared_with_an_evaluation(folder: Path, tmp_path: Path) -> None:
    for one, other in ((folder, tmp_path), (tmp_path, folder)):
        done = CliRunner().invoke(app, ["inspect", str(one), "--beside", str(other), "--no-open"])
        assert isinstance(done.exception, InvalidInput) and "holds no evaluation" in str(done.exception)


def test_a_training_is_printed_by_step_and_its_episodes_by_tag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_training(tmp_path)
    assert is_training(folder) and not is_training(tmp_path / "episodes")
    show_training(folder)
    shown = capsys.readouterr().out
    assert "60 episodes" in shown and "3 steps" in shown and "reward" in shown
    show_training(folder, kind="failed", count=3)
    assert capsys.readouterr().out.count("ended: failed") == 3
    assert {FACETS["step"](open_training(folder).episodes[number]) for number in (0, 20, 40)} == {(1,), (2,), (12,)}
