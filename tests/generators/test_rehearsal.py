"""The rehearsal: near what was measured, the same every time, in proportion, and resting on what was counted."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import pytest

from benchmarks.search_yield import Check, checks, foretell, read_preset, search_all, usual_hops, within
from tests.support.world import question
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.estimate import Yield, behaviour_of, counted_of, estimate, rehearse
from trailforge.generators.mcts_trajectories.rehearsal.counted import (
    Behaviour,
    read_counted,
    share_of,
    with_shares,
)
from trailforge.generators.mcts_trajectories.rehearsal.world import ChainModel, Engine, make_question, read_question
from trailforge.inference import Request, Sampling, Usage
from trailforge.mcts.inputs import WantedRows
from trailforge.mcts.rollout import is_usable_query
from trailforge.pipelines.estimate import StageEstimate, count_tokens
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.schemas import Question

QUESTIONS = [question(n, 2 + n % 2) for n in range(12)]
COUNTED = read_counted("strong")
SURE = with_shares(COUNTED.behaviour(), found=1.0, lost=0.0, read=1.0, unstable=0.0)
SAMPLE = Path(__file__).parents[2] / "sample_data" / "musique_style_questions.jsonl"


def config(name: str = "msearcher", **search: object) -> MctsRunConfig:
    """A shipped preset with prices."""
    given = read_preset(name)
    model = replace(given.model, prompt_price_per_million=1.0, completion_price_per_million=4.0)
    generator = replace(given.generator, search=replace(given.generator.search, **search))
    return replace(given, model=model, generator=generator)


async def estimates(given: MctsRunConfig | None = None, total: int = 12) -> tuple[list[StageEstimate], Yield]:
    return await rehearse(QUESTIONS, given or config(), total=total)


def total(lines: list[StageEstimate]) -> Usage:
    return sum((line.usage for line in lines), start=Usage())


@pytest.fixture(scope="module")
def whole() -> tuple[list[StageEstimate], Yield]:
    """`estimates`, made once."""
    return asyncio.run(estimates())


def test_every_stage_of_the_preset_is_there_and_has_its_cost(whole: tuple[list[StageEstimate], Yield]) -> None:
    assert [line.stage for line in whole[0]] == ["judge", "split", "rephrase", "answer"]
    for line in whole[0]:
        usage = line.usage
        assert usage.calls > 0 and usage.prompt_tokens > 20 * usage.calls
        assert usage.cost == pytest.approx((usage.prompt_tokens + 4 * usage.completion_tokens) / 1e6)


async def test_a_sample_stands_for_all_and_always_says_the_same(whole: tuple[list[StageEstimate], Yield]) -> None:
    lines, found = await estimates(total=1200)
    assert found == whole[1] and [line.stage for line in lines] == [line.stage for line in whole[0]]
    for line, of_sample in zip(lines, whole[0], strict=True):
        for name in ("calls", "prompt_tokens", "completion_tokens", "cost"):
            assert getattr(line.usage, name) == pytest.approx(100 * getattr(of_sample.usage, name))


async def test_a_shorter_search_is_estimated_as_cheaper(whole: tuple[list[StageEstimate], Yield]) -> None:
    few = WantedRows(correct=1, retrieval=0, reasoning=0, decomposition=0)
    short, _ = await estimates(config(wanted=few, max_calls=30, oracle_rollouts=2))
    assert total(short).calls < 0.8 * total(whole[0]).calls


async def test_longer_passages_make_longer_prompts(whole: tuple[list[StageEstimate], Yield]) -> None:
    long = [
        replace(q, paragraphs=tuple(replace(p, text=f"{p.text} {'word ' * 300}") for p in q.paragraphs))
        for q in QUESTIONS[:4]
    ]
    lines, _ = await rehearse(long, config(), total=4)
    answers, before = (next(line.usage for line in of if line.stage == "answer") for of in (lines, whole[0]))
    assert answers.prompt_tokens / answers.calls > before.prompt_tokens / before.calls + 300


async def test_questions_without_paragraphs_or_hops_are_estimated_with_usual_ones() -> None:
    bare = [Question(id=q.id, question=q.question, answer=q.answer) for q in QUESTIONS]
    lines, found = await rehearse(bare, config(), total=12)
    assert total(lines).prompt_tokens > 0 and found.origins["oracle"] == 0


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("Who directed Metropolis?", 6), ("born in 1890.", 7), ("Ünïcode\nlines", 4)]
)
def test_tokens_are_counted_by_words_digits_and_marks(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


@pytest.mark.parametrize("preset", ["msearcher", "tree-search", "gold-first", "demo"])
def test_the_estimate_of_a_preset_is_that_of_its_simulation(preset: str) -> None:
    """Rows and calls a row of --dry-run beside those of the benchmark's simulation, over other questions."""
    given = read_preset(preset)
    told = estimate(RunInputs(dataset="mcts_trajectories", files=(SAMPLE,)), given)
    assert counted_of(given).source in told.rests_on
    behaviour = behaviour_of(given)
    hops = [len(each.decomposition) for each in _sampled()]
    simulated, _ = asyncio.run(search_all(given, behaviour, hops, seed=1))
    assert sum(told.rows.values()) == pytest.approx(simulated.rows.total(), abs=0.4 * len(hops))
    assert told.usage.calls == pytest.approx(simulated.calls.total(), rel=0.3)
    assert told.rows.keys() <= {"correct", "retrieval", "reasoning", "decomposition"}


def _sampled() -> list[Question]:
    from trailforge.pipelines.sources import read_questions

    return [each for each in read_questions(SAMPLE) if isinstance(each, Question)]


def test_the_demo_comes_out_as_it_was_measured() -> None:
    """The run whose trees were counted: the same questions by the same preset, with the embedded model."""
    measured = read_counted("embedded").readings[0].outcome
    told = estimate(RunInputs(dataset="mcts_trajectories", files=(SAMPLE,)), read_preset("demo"))
    assert told.items == told.sampled == measured.questions
    assert told.usage.calls == pytest.approx(measured.calls, rel=0.3)
    assert sum(told.rows.values()) == pytest.approx(sum(measured.rows.values()), rel=0.4)


@pytest.mark.parametrize("check", checks(), ids=lambda check: check.name)
def test_a_recorded_run_is_foretold_by_what_was_counted_in_the_others(check: Check) -> None:
    """Nine of ten sets of as many questions, each in a world that the counts allow for, lie around it: it has too few
    questions to tell more of rows. Calls are as recorded on the average, too, and most rows are correct ones."""
    _, sets = foretell(check, questions=1, sets=20, seed=0)
    for simulated, recorded in (
        (lambda each: each.calls.total(), check.outcome.calls),
        (lambda each: each.rows.total(), sum(check.outcome.rows.values())),
    ):
        low, high = within(sets, simulated)
        assert low <= recorded / check.outcome.questions <= high
    assert sum(each.calls.total() for each in sets) / len(sets) == pytest.approx(check.outcome.calls, rel=0.25)
    assert sum((each.rows for each in sets), Counter[str]()).most_common(1)[0][0] == "correct"


def test_the_papers_preset_gives_rows_on_the_policys_own_plans() -> None:
    given = read_preset("msearcher")
    found, _ = asyncio.run(search_all(given, behaviour_of(given), usual_hops(45), seed=2))
    assert found.rows.total() > 20 and found.origins["policy"] >= 0.8 * found.rows.total()


def test_gold_decompositions_are_worded_as_the_policy_would_as_often_as_was_counted() -> None:
    alike = with_shares(SURE, alike=0.4)
    hops = [hop for number in range(200) for hop in make_question(number, 0, 3, alike).decomposition]
    assert sum(hop.question.startswith("What") for hop in hops) / 600 == pytest.approx(0.4, abs=0.07)
    assert not any(hop.question.startswith("What") for hop in make_question(0, 0, 3).decomposition)


def test_every_count_is_some_of_as_many_or_more() -> None:
    for model in ("strong", "strong_corpus", "embedded"):
        for reading in read_counted(model).readings:
            shares = {each.name: getattr(reading.behaviour, each.name) for each in fields(Behaviour)}
            assert all(0 <= some <= of for some, of in shares.values()), shares
    both = COUNTED.behaviour()
    assert both.unstable == (4, 20) and both.unvaried == (28, 34)
    first, second = (reading.behaviour for reading in COUNTED.readings)
    assert both.found == (first.found[0] + second.found[0], first.found[1] + second.found[1])


async def test_a_repeated_draw_says_the_same_but_for_the_counted_share() -> None:
    made = make_question(0, 0, 2)
    prompt = f"Question: {made.decomposition[0].question}\nPassages:\n1. (x) Nothing.\n"

    async def differing(behaviour: Behaviour) -> float:
        model = ChainModel(behaviour, made)
        said = [await _ask(model, prompt, sample) for sample in range(400)]
        return sum(each != said[0] for each in said[1:]) / 399

    assert await differing(SURE) == 0
    assert await differing(with_shares(SURE, unstable=1.0, redrawn=0.25)) == pytest.approx(0.25, abs=0.07)


async def _ask(model: ChainModel, prompt: str, sample: int) -> str:
    request = Request(
        prompt=prompt, model="m", sampling=Sampling(max_tokens=9), purpose="answer", seed=0, sample=sample
    )  # fmt: skip
    return (await model.complete(request)).text


async def test_wordings_lose_and_find_passages_as_was_counted() -> None:
    rng = random.Random(0)

    async def found(behaviour: Behaviour, wording: str) -> float:
        hits = []
        for number in range(400):
            made = make_question(number, rng.randrange(10**6), 2)
            asked = read_question(made.decomposition[0].question)
            query = wording.format(thing=asked.relations[0], of=asked.subject)
            hits.append(made.decomposition[0].answer in str(await Engine(made, behaviour, 0).retrieve(query, 2)))
        return sum(hits) / 400

    plain, other = "Who or what is the {thing} of {of}?", "{of} {thing} name"
    counted = COUNTED.behaviour()
    assert await found(counted, plain) == pytest.approx(share_of(counted.found), abs=0.06)
    assert await found(SURE, plain) == await found(SURE, other) == 1
    assert await found(with_shares(SURE, lost=0.5), other) == pytest.approx(0.5, abs=0.1)
    assert await found(with_shares(SURE, found=0.0, found_reworded=0.3), other) == pytest.approx(0.3, abs=0.1)


async def test_wordings_are_usable_as_often_as_was_counted() -> None:
    prompt = "Write 4 other search queries\nQuery: What is the patron of Mobatuve?\nTried already:\n- x"
    usable = []
    for number in range(200):
        model = ChainModel(with_shares(SURE, wordings=0.6), make_question(number, 0, 2))
        request = Request(
            prompt=prompt, model="m", sampling=Sampling(max_tokens=9), purpose="rephrase", seed=number, sample=0
        )  # fmt: skip
        lines = (await model.complete(request)).text.splitlines()
        usable += [is_usable_query(line, "What is the patron of Mobatuve?") for line in lines]
    assert sum(usable) / len(usable) == pytest.approx(0.6, abs=0.08)
