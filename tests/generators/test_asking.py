"""Garbled gold sub-questions in the model's words: what is taken of a reply, and what is not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.rows import QUESTION
from tests.support.scripted import ScriptedModel
from trailforge.generators.mcts_trajectories.asking import prepare_question, with_words
from trailforge.generators.mcts_trajectories.generate import Context, GeneratorConfig
from trailforge.inference import Prices
from trailforge.mcts.plan import gold_plan, plan_problem, references
from trailforge.mcts.policy import PolicyConfig
from trailforge.retrieval import RetrievalConfig, open_retrieval
from trailforge.schemas import Hop

GARBLED = replace(
    QUESTION,
    decomposition=(
        replace(QUESTION.decomposition[0], question="The metropolis of the directer is who?"),
        Hop(question="What is the city of the #1 ?", answer="Vienna", support_id="1"),
    ),
)
PLAN = gold_plan(GARBLED.decomposition).sub_questions


def context(model: ScriptedModel, **config: PolicyConfig) -> Context:
    return Context(
        run_id="r",
        model="scripted",
        seed=0,
        prices=Prices(),
        config=GeneratorConfig(**config),  # type: ignore[arg-type]
        client=model,
        retrieval=open_retrieval(RetrievalConfig(kind="bm25")),
    )


@pytest.mark.parametrize(
    ("number", "wording", "taken"),
    [
        (0, "Who is the director of Metropolis?", True),
        (0, "Who is the director of #2?", False),
        (0, "Who is the director, Fritz Lang?", False),
        (0, "Who is the director of Nosferatu?", False),
        (0, "", False),
        (0, "Metropolis >> director", False),
        (1, "In which city was #1 born?", True),
        (1, "In which city was he born?", False),
        (1, "Was #1 born in Vienna?", False),
        (1, "In which city was #1 born?\nAnd when?", False),
    ],
)
def test_other_words_are_taken_where_they_ask_for_the_same(number: int, wording: str, taken: bool) -> None:
    words = [wording if at == number else text for at, text in enumerate(PLAN)]
    worded = with_words(GARBLED, words)
    assert gold_plan(worded.decomposition).sub_questions[number] == (wording if taken else PLAN[number])
    assert [hop.answer for hop in worded.decomposition] == [hop.answer for hop in GARBLED.decomposition]


@given(st.lists(st.text(alphabet="ab #12?\n>M", max_size=20), min_size=2, max_size=2))
def test_no_words_break_a_plan_or_change_what_it_refers_to(words: list[str]) -> None:
    plan = gold_plan(with_words(GARBLED, words).decomposition)
    assert plan_problem(plan) is None
    assert [set(references(text)) for text in plan.sub_questions] == [set(references(text)) for text in PLAN]


@pytest.mark.parametrize(
    ("replies", "kept", "reason", "calls"),
    [
        ('{"clear": true, "sub_questions": ["Who directed Metropolis?", "In which city was #1 born?"]}', True, "", 1),
        ('{"clear": false, "sub_questions": ["Who directed Metropolis?", "Where was #1 born?"]}', False,
         "garbled_question", 1),
        ('{"clear": true, "sub_questions": ["Who directed Metropolis?"]}', True, "", 2),
        ("I cannot say.", True, "", 2),
    ],
)  # fmt: skip
async def test_a_garbled_question_takes_one_call(replies: str, kept: bool, reason: str, calls: int) -> None:
    model = ScriptedModel(lambda request: replies)
    asked, usage = await prepare_question(GARBLED, context(model), own_paragraphs=True)
    assert (asked.verdict.keep, usage.calls) == (kept, calls)
    assert kept or asked.verdict.reason == reason
    assert {request.purpose for request in model.requests} == {"word"}
    is_worded = gold_plan(asked.question.decomposition).sub_questions != PLAN
    assert is_worded is (calls == 1)


async def test_no_call_is_made_for_a_plain_question_or_by_a_model_that_words_nothing() -> None:
    model = ScriptedModel(lambda request: json.dumps({"clear": False, "sub_questions": []}))
    asked, usage = await prepare_question(QUESTION, context(model), own_paragraphs=True)
    assert asked.question == QUESTION and asked.verdict.keep and usage.calls == 0
    unstated = replace(GARBLED, answer="Oslo", answer_aliases=())
    asked, usage = await prepare_question(unstated, context(model), own_paragraphs=True)
    assert asked.verdict.reason == "gold_not_stated" and usage.calls == 0
    ruled = context(model, policy=PolicyConfig(kind="rules"))
    asked, usage = await prepare_question(GARBLED, ruled, own_paragraphs=True)
    assert asked.verdict.keep and usage.calls == 0 and not model.requests
