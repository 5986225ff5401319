"""Questions with options and with sets of answers: agents of known strength, and what guessing is worth."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from tests.support.agent_episodes import row, run_of
from tests.support.scripted import ScriptedModel
from trailforge.evaluation.agents import ask_for
from trailforge.evaluation.folder import BackendChoice, Evaluation, choose_agent, read_episodes
from trailforge.evaluation.grid import Cell, EvaluationGrid, GridModel
from trailforge.evaluation.results.failures import broke_format
from trailforge.evaluation.results.metrics import score_run
from trailforge.evaluation.results.report import describe_table
from trailforge.evaluation.results.table import OptionScores, make_table
from trailforge.inference import Request
from trailforge.protocols import R_SEARCH
from trailforge.protocols.environment import Environment
from trailforge.retrieval.backends.declaration import BackendRetriever, FoundPassage
from trailforge.rewards import chance_of_choice, option_f1, score_set
from trailforge.schemas import Document, Question
from trailforge.schemas.question import write_options

LETTERS = "ABCDEF"
DRAWS = 40_000


class FindsNothing:
    async def find(self, query: str, k: int) -> list[FoundPassage]:
        return [FoundPassage.of(Document(id="d", title="Tides", text="The mill won."), 1.0, "")]

    def save(self, folder: Path) -> None:
        raise AssertionError("nobody saves it")


def choice(number: int, correct: str, options: int) -> Question:
    texts = tuple(f"thing {number}-{place}" for place in range(options))
    return Question(
        id=f"c{number}",
        question=write_options(f"Which of number {number}?", texts),
        answer=", ".join(correct),
        options=texts,
        correct_options=tuple(correct),
        dataset="choices",
    )


SINGLE = [choice(number, LETTERS[number % 4], 4) for number in range(12)]
MULTIPLE = [choice(12 + number, "ABD", 6) for number in range(12)]


def given(cells: list[Cell], questions: int) -> Evaluation:
    return Evaluation(
        questions="q",
        questions_sha256="s",
        dataset="choices",
        num_questions=questions,
        agents=tuple(cell.agent for cell in cells),
        backends=tuple(cell.backend for cell in cells),
        models=("m",),
        seeds=(0,),
        top_k=1,
    )


def evaluate(folder: Path, say: dict[str, str], agent: str = "single_shot") -> tuple[OptionScores, OptionScores, str]:
    """Of a grid whose agent answers each question so, by the text in which its answer is read."""

    def script(request: Request) -> str:
        asked = next(each for each in (*SINGLE, *MULTIPLE) if each.question in str(request.prompt).replace("\\n", "\n"))
        return f"So it is \\boxed{{{say[asked.id]}}}"

    cell = Cell(agent=choose_agent(agent, {}), backend=BackendChoice(name="all", index="i"), model="m", seed=0)
    work = EvaluationGrid(
        folder=folder,
        questions=[*SINGLE, *MULTIPLE],
        cells=[cell],
        open=lambda _: Environment(documents=BackendRetriever(FindsNothing()), top_k=1),
    )
    asyncio.run(work.run(GridModel(name="m", client=ScriptedModel(script))))
    table = make_table(given([cell], 24), read_episodes(folder))
    (line,) = table.rows
    single, multiple = line.options
    return single, multiple, describe_table(table)


def test_an_agent_of_known_strength_gets_the_em_and_f1_that_it_must_get(tmp_path: Path) -> None:
    """Of single choices it gets 9 of 12 right, 2 of them by the option's text; of sets it gets 4 whole, of 4 two of
    three, and of 4 all three with one too many."""
    wrong = {each.id: LETTERS[(LETTERS.index(each.answer) + 1) % 4] for each in SINGLE[:3]}
    by_text = {each.id: each.options[LETTERS.index(each.answer)] for each in SINGLE[3:5]}
    sets = {each.id: ("A, B, D", "A and B", "ABDE")[place % 3] for place, each in enumerate(MULTIPLE)}
    single, multiple, report = evaluate(tmp_path, {each.id: each.answer for each in SINGLE} | wrong | by_text | sets)
    assert (single.choice, single.questions, multiple.choice, multiple.questions) == ("single", 12, "multiple", 12)
    assert (single.exact_match.mean, single.f1.mean) == (0.75, 0.75)
    assert multiple.exact_match.mean == pytest.approx(1 / 3)
    assert multiple.f1.mean == pytest.approx((1.0 + 4 / 5 + 6 / 7) / 3)
    assert (single.exact_match_chance, single.f1_chance) == (0.25, 0.25)
    assert multiple.exact_match_chance == 1 / 63
    assert 0 < single.exact_match.low < 0.75 < single.exact_match.high <= 1.0
    assert "| single_shot | all | single | 12 | 75.0 [" in report and "| 25.0 | 75.0 [" in report


def test_an_agent_that_guesses_is_at_the_level_of_chance_that_stands_beside_it() -> None:
    dice = random.Random(7)
    asked = [choice(n, dice.choice(LETTERS[:4]), 4) for n in range(1500)]
    asked += [choice(1500 + n, "".join(sorted(dice.sample(LETTERS, 3))), 6) for n in range(1500)]
    rows = []
    for each in asked:
        letters = LETTERS[: len(each.options)]
        if len(each.correct_options) == 1:
            guess = dice.choice(letters)
        else:
            guess = ", ".join(letters[bit] for bit in _bits(dice.randrange(1, 2 ** len(letters))))
        rows.append(row(each, run_of([], guess)))
    (found,) = make_table(given([], 3000), rows).rows
    single, multiple = found.options
    for score, chance in (
        (single.exact_match, single.exact_match_chance),
        (single.f1, single.f1_chance),
        (multiple.exact_match, multiple.exact_match_chance),
        (multiple.f1, multiple.f1_chance),
    ):
        assert score.low < chance < score.high and score.high - score.low < 0.05


def _bits(number: int) -> list[int]:
    return [bit for bit in range(6) if number >> bit & 1]


@pytest.mark.parametrize(("options", "correct"), [(4, 1), (5, 1), (6, 3), (6, 5), (4, 2), (2, 2)])
def test_chance_is_what_a_simulated_guesser_gets(options: int, correct: int) -> None:
    dice, right = random.Random(options * 10 + correct), set(LETTERS[:correct])
    if correct == 1:
        guesses = [{dice.choice(LETTERS[:options])} for _ in range(DRAWS)]
    else:
        drawn = [dice.randrange(1, 2**options) for _ in range(DRAWS)]
        guesses = [{LETTERS[bit] for bit in range(options) if number >> bit & 1} for number in drawn]
    chance = chance_of_choice(options, correct)
    assert fmean(guess == right for guess in guesses) == pytest.approx(chance.exact_match, abs=0.012)
    assert fmean(option_f1(guess, right) for guess in guesses) == pytest.approx(chance.f1, abs=0.012)


def test_chance_of_no_right_option_is_refused() -> None:
    for options, correct in ((4, 0), (3, 4)):
        with pytest.raises(ValueError, match="options are correct"):
            chance_of_choice(options, correct)


def test_naming_all_options_pays_no_contain_em() -> None:
    scores = score_run(MULTIPLE[0], run_of([], "A, B, C, D, E, F"))
    assert (scores.exact_match, scores.contain_em, scores.right) == (0.0, 0.0, 0.0)
    assert scores.f1 == pytest.approx(2 / 3)


def test_an_answer_that_chooses_no_option_breaks_the_format(tmp_path: Path) -> None:
    evaluate(tmp_path, {each.id: "nothing of these" for each in (*SINGLE, *MULTIPLE)})
    rows = list(read_episodes(tmp_path))
    assert all(broke_format(each) and each.scores.f1 == 0.0 for each in rows)


def test_how_to_choose_is_said_once() -> None:
    asked = SINGLE[0]
    assert ask_for(asked, "").startswith(f"{asked.question}\nAnswer with the letters")
    assert ask_for(asked, R_SEARCH.name) == asked.question  # its rules say so
    assert ask_for(Question(id="q", question="Who?", answer="Ada"), "") == "Who?"


# Sets of answers


@pytest.mark.parametrize(
    ("said", "answers", "exact", "f1"),
    [
        ("Ada; Grace", ("Grace", "Ada"), 1.0, 1.0),
        ("1. Ada\n2. Grace", ("Ada", "Grace"), 1.0, 1.0),
        ("Ada and Grace", ("Ada", "Grace"), 1.0, 1.0),
        ("Ada, Grace, and Edsger", ("Ada", "Grace"), 0.0, 0.8),
        ("Ada", ("Ada", "Grace"), 0.0, 2 / 3),
        ("Ada, Ada", ("Ada", "Grace"), 0.0, 2 / 3),
        ("Washington, D.C.; Trinidad and Tobago", ("Trinidad and Tobago", "Washington, D.C."), 1.0, 1.0),
        ("two; 3", ("3", "2"), 1.0, 1.0),
        ("Oslo: 709,037; Bergen: 291,940", ("Oslo: 709,037", "Bergen: 291,940"), 1.0, 1.0),
        ("Oslo: 709,037; Bergen: 1", ("Oslo: 709,037", "Bergen: 291,940"), 0.0, 0.5),
        ("a: UUA, UUG; b: AUG", ("a: UUA, UUG", "b: AUG"), 1.0, 1.0),  # a semicolon parts more than a comma
        ("The two are Ada, Grace", ("Ada", "Grace"), 1.0, 1.0),
        ("unknown", ("Ada", "Grace"), 0.0, 0.0),
        ("", ("Ada", "Grace"), 0.0, 0.0),
    ],
)
def test_sets_of_answers_are_compared_item_by_item(
    said: str, answers: tuple[str, ...], exact: float, f1: float
) -> None:
    found = score_set(said, answers)
    assert (found.exact_match, found.total, found.f1) == (exact, exact, pytest.approx(f1))


def test_of_a_set_each_answer_has_to_stand_in_what_was_read() -> None:
    asked = Question(id="q", question="Who?", answer="Ada; Grace", answer_set=("Ada", "Grace"))
    run = run_of([], "Ada")
    shown = {(): None, ("1. (T) Ada.",): 0.5, ("1. (T) Ada.", "Nothing.\n2. (U) Grace came."): 1.0}
    for texts, share in shown.items():
        assert score_run(asked, replace(run, shown=texts)).answer_in_text == share
