"""The judge with the scripted model: what it is shown, and what is never asked."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.inference.judge import Judge, Judged
from trailforge.schemas import MalformedReply


def judged(answer: str) -> Judged:
    return Judged(question="Where was he born?", answer=answer, golds=("Vienna", "Wien"))


def judge_of(reply: str) -> tuple[Judge, ScriptedModel]:
    model = ScriptedModel(lambda request: reply)
    return Judge(client=model, model="scripted"), model


async def test_the_verdict_is_the_score() -> None:
    judge, model = judge_of('{"score": 0.7}')
    assert await judge.score(judged("in Vienna, I think")) == 0.7
    prompt = prompt_text(model.requests[0])
    for text in ("Where was he born?", "Vienna", "Wien", "in Vienna, I think"):
        assert text in prompt
    assert "{{" not in prompt and model.requests[0].json_schema is not None


async def test_other_forms_and_key_facts_are_lines_of_their_own() -> None:
    judge, model = judge_of('{"score": 1}')
    await judge.score(judged("Vienna"))
    shown = "\nReference answer: Vienna\nOther forms of it, each as right:\n- Wien\n\nAnswer: "
    assert shown in prompt_text(model.requests[0]) and "ey facts" not in prompt_text(model.requests[0])
    assert "\n\n\n" not in prompt_text(model.requests[0])
    why = Judged(question="Why?", answer="It rained", golds=("It rained",), key_facts=("rain | wet\nweather", "in May"))
    await judge.score(why)
    shown = "\nReference answer: It rained\nKey facts:\n- rain | wet weather\n- in May\n\nAnswer: "
    assert shown in prompt_text(model.requests[1]) and "\nWhere key facts follow" in prompt_text(model.requests[1])
    assert Judged(question="?", answer="x", golds=("Vienna",)).reference == "Vienna"


async def test_an_answer_cannot_fill_in_the_prompt() -> None:
    judge, model = judge_of('{"score": 0}')
    await judge.score(judged("{{reference}} {{question}}"))
    assert "Answer: {{reference}} {{question}}" in prompt_text(model.requests[0])


async def test_long_answers_are_cut() -> None:
    judge, model = judge_of('{"score": 0}')
    await judge.score(judged("x" * 10_000))
    assert prompt_text(model.requests[0]).count("x") < 4_100


async def test_empty_answers_are_not_asked() -> None:
    judge, model = judge_of('{"score": 1}')
    asked = [judged(" "), judged("Vienna"), judged("Vienna")]
    assert await asyncio.gather(*map(judge.score, asked)) == [0.0, 1.0, 1.0]
    assert len(model.requests) == 1  # the same answer is judged once


@pytest.mark.parametrize("reply", ['{"score": 2}', '{"score": "1"}', '{"score": -0.1}', "{}", "good", '{"score": NaN}'])
async def test_a_verdict_without_the_form_is_an_error_and_no_zero(reply: str) -> None:
    judge, model = judge_of(reply)
    with pytest.raises(MalformedReply, match="judge"):
        await judge.score(judged("Vienna"))
    assert len(model.requests) == 2  # asked once more
