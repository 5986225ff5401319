"""What an agent fails at as quotas: weak cells, a band of pass rates, and the command that writes both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.agent_episodes import COSTS, run_of, setting
from tests.support.evaluations import evaluation
from trailforge.cli import app
from trailforge.evaluation.folder import EPISODES, AgentChoice, BackendChoice, write_evaluation
from trailforge.evaluation.results.demand import (
    demand_band,
    demand_weak,
    find_cells,
    read_attempts,
    share_failed,
    split_by_band,
)
from trailforge.evaluation.results.failures import is_right
from trailforge.evaluation.results.metrics import make_episode
from trailforge.pipelines.sources.demand import Quota, read_demand
from trailforge.schemas import Hop, InvalidInput, Passage, Question, to_dict, write_parquet
from trailforge.schemas.agent_episode import AgentEpisode

PAGE = Passage(id="p", title="T", text="Vienna.", score=1.0)
RELATIONS = ("Where was #1 born?", "Who taught #1?")


def asked(number: int) -> Question:
    """One hop or two, and one of two relations."""
    last = RELATIONS[number // 2 % 2]
    hops = (Hop(question="Who made M?", answer="Lang"), Hop(question=last, answer="Vienna"))
    told = hops if number % 2 else (Hop(question=last.replace("#1", "Lang"), answer="Vienna"),)
    return Question(id=f"q{number}", question=f"{number}: where?", answer="Vienna", decomposition=told)


ASKED = [asked(number) for number in range(8)]


@pytest.fixture
def evaluated(tmp_path: Path) -> Path:
    """See `write_evaluated`."""
    return write_evaluated(tmp_path / "evaluation", tmp_path / "asked.jsonl")


def write_evaluated(folder: Path, questions: Path) -> Path:
    """Five attempts each: one hop 4 right, two hops of the first relation 2 right, of the second none."""
    (folder / EPISODES / "one").mkdir(parents=True)
    episodes = []
    for number, question in enumerate(ASKED):
        right = 4 if number % 2 == 0 else 2 if number // 2 % 2 == 0 else 0
        for seed in range(5):
            run = run_of([(PAGE,)], "Vienna" if seed < right else "Atlantis", asked=question.question)
            episodes.append(make_episode(question, run, setting(agent="scripted", seed=seed), costs=COSTS))
    write_parquet(folder / EPISODES / "one" / "part-0.parquet", AgentEpisode, episodes)
    grid = {
        "agents": (AgentChoice(name="scripted", config={}, hash="c"),),
        "models": ("none",),
        "seeds": tuple(range(5)),
    }
    write_evaluation(folder, evaluation(**grid, backends=(BackendChoice(name="bm25"),)))
    questions.write_text("".join(f"{json.dumps(to_dict(each))}\n" for each in ASKED))
    return folder


def test_weak_cells_get_a_share_by_how_often_they_fail(evaluated: Path) -> None:
    measured, episodes = read_attempts(evaluated)
    assert measured.startswith("scripted/bm25/none ") and len(episodes) == 40
    cells, unknown = find_cells(episodes, ASKED, ("hops", "relation"))
    assert not unknown
    assert {(each.hops, each.relation): (each.asked, each.failed) for each in cells} == {
        (1, "where was … born"): (10, 2), (1, "who taught …"): (10, 2),
        (2, "where was … born"): (10, 6), (2, "who taught …"): (10, 10),
    }  # fmt: skip
    quotas = demand_weak(cells, 0.5, least=10, most=9, keep=0.2)
    told = [(each.hops, each.relation, each.pass_rate) for each in quotas]
    assert told == [(2, "who taught …", 0.0), (2, "where was … born", 0.4), (None, "", None)]
    assert sum(each.share for each in quotas) == pytest.approx(1) and quotas[-1].share == 0.2
    assert quotas[0].share / quotas[1].share == pytest.approx(11 / 7, abs=0.01)
    assert [each.relation for each in demand_weak(cells, 0.5, least=10, most=1, keep=0)] == ["who taught …"]
    assert share_failed(episodes) == 0.5 and not demand_weak(cells, 1.0, least=1, most=9, keep=0.2)
    assert not demand_weak(cells, 0.5, least=11, most=9, keep=0.2), "too few attempts say nothing"


def test_failures_and_back_ends_tell_cells_apart(evaluated: Path) -> None:
    _, episodes = read_attempts(evaluated, "scripted/bm25")
    cells, _ = find_cells(episodes, ASKED[:4], ("hops", "failure", "backend"))
    assert {(each.hops, each.failure, each.failed) for each in cells} == {(1, "misread", 2), (2, "misread", 8)}
    assert {each.backend for each in cells} == {"bm25"}
    (weak, _) = demand_weak(cells, 0.25, least=1, most=9, keep=0.1)
    assert (weak.failure, weak.backend, weak.misleads) == ("misread", "bm25", True)
    with pytest.raises(InvalidInput, match="no episode of react"):
        read_attempts(evaluated, "react")


def test_what_is_outside_a_band_is_given_back_for_a_harder_or_an_easier_one(evaluated: Path) -> None:
    _, episodes = read_attempts(evaluated)
    split = split_by_band(episodes, ASKED, (0.1, 0.7))
    assert [each.id for each in split.inside] == ["q1", "q5"] and [each.id for each in split.hard] == ["q3", "q7"]
    assert [each.id for each in split.easy] == ["q0", "q2", "q4", "q6"]
    shares = {(each.hops, each.look_alike, each.blurred): each.share for each in demand_band(split, 0.0)}
    assert shares == {
        (2, None, None): 0.4167, (1, True, None): 0.1667, (2, None, True): 0.1667,
        (2, False, False): 0.125, (1, None, False): 0.125,
    }  # fmt: skip


def test_no_more_is_given_back_than_is_allowed_and_the_nearest_to_the_band_first(evaluated: Path) -> None:
    _, episodes = read_attempts(evaluated)
    split = split_by_band(episodes, ASKED, (0.1, 0.7))
    cut = split.cut(3)
    assert (len(cut.easy), len(cut.hard)) == (2, 1) and cut.inside == split.inside
    assert split.cut(6) == split and not split.cut(0).easy + split.cut(0).hard
    wide = split_by_band(episodes, ASKED, (0.9, 0.95))
    right = [sum(is_right(each.scores) for each in episodes if each.question_id == asked.id) for asked in wide.hard]
    assert right == sorted(right, reverse=True) and len({*right}) > 1


def test_the_command_writes_quotas_and_the_questions_in_the_band(evaluated: Path, tmp_path: Path) -> None:
    command = [
        "demand",
        str(evaluated),
        "--questions",
        str(tmp_path / "asked.jsonl"),
        "--out",
        str(tmp_path / "d.yaml"),
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0 and "20% of 20 attempts right" in result.output
    assert read_demand(tmp_path / "d.yaml").quotas[0] == Quota(
        share=0.8, hops=2, shape="chain", asked=20, pass_rate=0.2
    )
    result = CliRunner().invoke(app, [*command, "--pass-rate", "0.1..0.7", "--kept", str(tmp_path / "in.jsonl")])
    assert result.exit_code == 0 and "2 in the band, 4 too easy, 2 too hard" in result.output
    assert [json.loads(line)["id"] for line in (tmp_path / "in.jsonl").read_text().splitlines()] == ["q1", "q5"]
    result = CliRunner().invoke(app, [*command, "--pass-rate", "0.1..0.7", "--give-back", "3"])
    assert result.exit_code == 0 and "2 and 1 of the latter are given back" in result.output


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--by", "hops,colour"], "'colour' is none of hops"),
        (["--kept", "x.jsonl"], "say which: --pass-rate"),
        (["--give-back", "3"], "say which: --pass-rate"),
        (["--least", "99"], "no cell is weaker"),
        (["--pass-rate", "0.7..0.1"], "begins above"),
    ],
)
def test_what_cannot_be_asked_is_said(evaluated: Path, tmp_path: Path, more: list[str], problem: str) -> None:
    out = tmp_path / "d.yaml"
    command = ["demand", str(evaluated), "--questions", str(tmp_path / "asked.jsonl"), "--out", str(out), *more]
    result = CliRunner().invoke(app, command)
    assert result.exit_code and problem in str(result.exception) + result.output and not out.exists()


def test_questions_that_were_not_evaluated_are_refused(evaluated: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"id": "x", "question": "Who?", "answer": "B"}) + "\n")
    command = ["demand", str(evaluated), "--questions", str(other), "--out", str(tmp_path / "d.yaml")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code and "has none of the questions" in str(result.exception) + result.output
