"""How hard an agent found the questions of a training set: columns, and what is chosen by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support import finished_runs as made
from tests.support.agent_episodes import COSTS, run_of, setting
from tests.support.evaluations import evaluation
from tests.training.views.test_build import ALL, build, reasons
from trailforge.cli import app
from trailforge.evaluation.folder import EPISODES, AgentChoice, BackendChoice, write_evaluation
from trailforge.evaluation.results.difficulty import measure_difficulty
from trailforge.evaluation.results.metrics import make_episode
from trailforge.schemas import InvalidInput, Passage, PreferenceRow, Question, RlRow, SftRow, write_parquet
from trailforge.schemas.agent_episode import AgentEpisode
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import WantedRange
from trailforge.training.sets.difficulty import read_measured
from trailforge.training.sets.files import open_set

ASKED = [made.question(number) for number in range(5)]
PAGES = [Passage(id=f"p{number}", title=f"T{number}", text="Text.", score=1.0) for number in range(6)]


def play(question: Question, seed: int, *, right: bool, searches: int, agent: str = "scripted") -> AgentEpisode:
    """An attempt whose every search shows the same page and another one."""
    brought = [(PAGES[0], PAGES[n + 1]) for n in range(searches)]
    run = run_of(brought, question.answer if right else "Atlantis", asked=question.question)
    return make_episode(question, run, setting(agent=agent, seed=seed), costs=COSTS)


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Of four attempts each: all right, half of them, a quarter by many searches, none; one question was not asked."""
    folder = tmp_path / "evaluation"
    plan = [(4, 1), (2, 2), (1, 5), (0, 3)]
    rows = [
        play(ASKED[number], seed, right=seed < right, searches=searches)
        for number, (right, searches) in enumerate(plan)
        for seed in range(4)
    ]
    lost = replace(rows[0], seed=4, stop="failed", answer="", scores=replace(rows[0].scores, right=0.0))
    others = [play(ASKED[number], 0, right=False, searches=1, agent="other") for number in range(4)]
    for name, episodes in (("one", [*rows, lost]), ("other", others)):
        (folder / EPISODES / name).mkdir(parents=True)
        write_parquet(folder / EPISODES / name / "part-0.parquet", AgentEpisode, episodes)
    agents = tuple(AgentChoice(name=name, config={}, hash="c") for name in ("scripted", "other"))
    grid = {"agents": agents, "backends": (BackendChoice(name="bm25"),), "models": ("none",), "seeds": (0, 1, 2, 3)}
    write_evaluation(folder, evaluation(**grid))
    return folder


def test_attempts_are_counted_and_the_right_ones_say_what_they_needed(measured: Path) -> None:
    cell, found = measure_difficulty(measured, "scripted")
    assert cell == "scripted/bm25/none"
    told = {each.question: (each.pass_rate, each.attempts, each.calls, each.pages) for each in found}
    assert [told[each.question] for each in ASKED[:4]] == [
        (1.0, 4, 1.0, 2.0), (0.5, 4, 2.0, 3.0), (0.25, 4, 5.0, 6.0), (0.0, 4, None, None),
    ]  # fmt: skip
    for name, number in (("", 2), ("scripted/dense", 0), ("script", 0)):
        with pytest.raises(InvalidInput, match=rf"means {number} cells of this evaluation; choose of scripted/bm25"):
            measure_difficulty(measured, name)


def test_rows_to_ask_say_how_hard_they_were_found(measured: Path, tmp_path: Path) -> None:
    run = made.mcts_run(tmp_path / "run", ASKED, [])
    given = read_measured(measured, "scripted/bm25/none")
    manifest = make_training_set([run], tmp_path / "out", ALL, measured=given)
    assert manifest.measured.startswith("scripted/bm25/none ")
    rows = {row.question_id: row for row in open_set(tmp_path / "out").rows("rl", "train", RlRow)}
    assert [rows[f"q{n}"].pass_rate for n in range(5)] == [1.0, 0.5, 0.25, 0.0, None]
    assert (rows["q2"].attempts, rows["q2"].calls_needed, rows["q2"].pages_needed) == (4, 5.0, 6.0)
    assert {row.measured_by for row in rows.values()} == {"scripted/bm25/none", ""}
    assert build([run], tmp_path / "plain").manifest.measured == ""


def test_a_band_is_taken_of_conversations_and_of_questions_to_ask(measured: Path, tmp_path: Path) -> None:
    conversations = [row for asked in ASKED for row in made.mcts_rows(asked)]
    run = made.mcts_run(tmp_path / "run", ASKED, conversations)
    command = [
        "training-set",
        str(run),
        "--validation",
        "0",
        "--measured",
        str(measured),
        "--measured-cell",
        "scripted",
    ]

    def left(out: str, *bands: str) -> dict[str, list[str]]:
        result = CliRunner().invoke(app, [*command, *bands, "--out", str(tmp_path / out)])
        assert result.exit_code == 0, result.output
        built = open_set(tmp_path / out)
        tables = {"sft": SftRow, "rl": RlRow, "pairs": PreferenceRow}
        return {name: sorted({row.question_id for row in built.rows(name, "train", tables[name])}) for name in tables}

    found = left("middle", "--pass-rate", "0.1..0.7")
    assert found["rl"] == found["sft"] == ["q1", "q2"] and not {*found["pairs"]} - {"q1", "q2"}
    told = reasons(tmp_path / "middle")
    assert told["rl", "outside_pass_rate"] == 2 and told["rl", "not_measured"] == 1
    assert left("long", "--calls", "4..")["rl"] == ["q2"]
    assert left("both", "--pass-rate", "..0.5", "--calls", "..4")["rl"] == ["q1"]
    with pytest.raises(InvalidInput, match="give an evaluation"):
        make_training_set([run], tmp_path / "none", replace(ALL, pass_rate=WantedRange(0.1, 0.7)))


@pytest.mark.parametrize("text", ["0.5", "a..b", "..", "3..2", "nan.."])
def test_what_is_no_band_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"expected two numbers|begins above"):
        WantedRange.read(text, "--calls")
    assert str(WantedRange.read("0.1..0.7", "--calls")) == "0.1..0.7" and 4 in WantedRange.read("4..", "--calls")


def test_an_evaluation_of_other_questions_and_a_cell_of_none_are_refused(measured: Path, tmp_path: Path) -> None:
    run = made.mcts_run(tmp_path / "run", [made.question(9)], [])
    with pytest.raises(InvalidInput, match="none of these questions was measured"):
        make_training_set([run], tmp_path / "out", ALL, measured=read_measured(measured, "scripted"))
    result = CliRunner().invoke(app, ["training-set", str(run), "--measured-cell", "x", "--out", str(tmp_path / "o")])
    assert result.exit_code and not (tmp_path / "out").exists() and not (tmp_path / "o").exists()
