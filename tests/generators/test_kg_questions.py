"""Questions of a chain by a scripted model and by rule: a sound one is kept, each flawed one rejected for its flaw."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.cut_replies import CutModel
from tests.support.graph_questions import context
from tests.support.kg_worlds import DUST
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.filters.kg.questions import KgQuestionFilterConfig, judge_question
from trailforge.generators.kg_questions.generate import (
    KgQuestionWork,
    KgWriterConfig,
    check_prompt,
    with_scores,
    writer_prompt,
)
from trailforge.generators.kg_questions.selection import question_of
from trailforge.inference import Prices
from trailforge.inference.asker import Style
from trailforge.schemas import FactChain, Hop, MalformedReply, Question

SOUND: dict[str, Any] = {
    "question": "In which city was the director of the film Red Dust born?",
    "sub_questions": ["Who directed the film Red Dust?", "In which city was X1 born?"],
}
CHECKED = {"other_answers": ["Firton"], "doubtful": " ", "unclear": ""}


def work(draft: Any, *, knows: bool = False, chain: FactChain = DUST) -> KgQuestionWork:
    """A model that writes this draft, and may know the answer."""

    def reply(request: Any) -> str:
        if prompt_text(request).startswith("Write one question"):
            return json.dumps(draft)
        if prompt_text(request).startswith("Check a question"):
            return json.dumps(CHECKED)
        return "Elmton, I think" if knows else "UNKNOWN"

    return KgQuestionWork(item=chain, context=context(client=ScriptedModel(reply), config=KgWriterConfig()))


async def test_a_sound_question_is_kept_with_what_was_measured() -> None:
    task = work(SOUND)
    row = await task.write()
    verdicts = await judge_question(row, task, KgQuestionFilterConfig(closed_book_samples=2))
    sealed = with_scores(row, verdicts, task.meter.keys)
    assert all(score.passed for score in sealed.filters) and len(sealed.filters) == 9
    assert len(sealed.provenance.call_keys) == task.meter.calls == 1 + 2
    assert (sealed.writer, sealed.as_of, sealed.preset) == ("model", "2021-05-01", "test")
    assert (sealed.hops, sealed.shape, sealed.num_answers, sealed.fewest_left) == (2, "chain", 1, 9)
    assert sealed.path == ("Red Dust | director | Cy Cedar", "Cy Cedar | place of birth | Elmton")
    assert sealed.entities == ("red dust", "cy cedar", "elmton")
    assert sealed.provenance.source_id == "g:c"
    assert question_of(sealed) == Question(
        id=row.uid,
        question=SOUND["question"],
        answer="Elmton",
        answer_aliases=("Elm City",),
        decomposition=(
            Hop(question="Who directed the film Red Dust?", answer="Cy Cedar"),
            Hop(question="In which city was #1 born?", answer="Elmton"),
        ),
        dataset="kg_questions",
    )


@pytest.mark.parametrize(
    ("draft", "knows", "reason"),
    [
        (SOUND | {"question": "Was the director of Red Dust born in Elmton?"}, False, "answer_named"),
        (SOUND | {"question": "In which city was Cy Cedar, who made Red Dust, born?"}, False, "bridge_named"),
        (SOUND | {"question": "In which city was X1, who made Red Dust, born?"}, False, "malformed_question"),
        (SOUND | {"question": "The birthplace of the director of Red Dust"}, False, "malformed_question"),
        (SOUND | {"sub_questions": ["Who directed Red Dust?", "Where was Cy Cedar born?"]}, False,
         "malformed_question"),
        (SOUND | {"question": "In which city was the Oscar-winning director of Red Dust born?"}, False,
         "ungrounded_name"),
        (SOUND | {"question": "In which city was the director born?"}, False, "start_missing"),
        (SOUND, True, "right_from_memory"),
    ],
)  # fmt: skip
async def test_each_flaw_is_rejected_for_itself_alone(draft: dict[str, Any], knows: bool, reason: str) -> None:
    task = work(draft, knows=knows)
    row = await task.write()
    verdicts = await judge_question(row, task, KgQuestionFilterConfig())
    assert [verdict.reason for verdict in verdicts if not verdict.keep] == [reason]


@pytest.mark.parametrize("draft", [{"question": "Who?"}, SOUND | {"sub_questions": ["Who?"]}, "Who?"])
async def test_a_reply_without_the_form_twice_is_an_error(draft: Any) -> None:
    with pytest.raises(MalformedReply):
        await work(draft).write()


def test_the_writer_is_not_told_what_it_must_not_name() -> None:
    prompt = writer_prompt(DUST)
    assert "Cedar" not in prompt and "Elm" not in prompt
    assert "X1: person, film director\nANSWER: city\nRed Dust: film" in prompt
    assert "- Red Dust | director | X1\n- X1 | place of birth (also: born in) | ANSWER" in prompt
    assert "in the order X1, ANSWER" in prompt


def test_a_kind_that_the_graph_lacks_follows_from_the_relation() -> None:
    bare = replace(
        DUST, bridges=(replace(DUST.bridges[0], kind="", role=""),), starts=(replace(DUST.starts[0], kind=""),)
    )
    assert "X1: person\nANSWER: city\nRed Dust: kind not known" in writer_prompt(bare)


async def test_rules_ask_no_model_and_say_so() -> None:
    task = KgQuestionWork(item=DUST, context=context())
    row = await task.write()
    assert row.writer == "templates" and task.meter.calls == 0
    assert [verdict.keep for verdict in await judge_question(row, task, KgQuestionFilterConfig())] == [True] * 9
    assert task.meter.calls == 4


async def test_a_completion_is_read_up_to_its_short_answer() -> None:
    model = ScriptedModel(lambda request: " Elmton\n\nQuestion: Where?")
    config = KgWriterConfig(kind="templates", style="completion", stop=("\n",))
    task = KgQuestionWork(item=DUST, context=context(client=model, config=config))
    row = await task.write()
    assert await task.answer(row, 3) == "Elmton"
    (request,) = model.requests
    assert (
        isinstance(request.prompt, str) and request.prompt.endswith(f"{row.question}\nAnswer:") and request.sample == 3
    )


async def test_a_check_shows_the_facts_and_names_what_else_fits() -> None:
    task = work(SOUND)
    row = await task.write()
    verdicts = await judge_question(row, task, KgQuestionFilterConfig(closed_book_samples=1, check=True))
    model: Any = task.context.client
    assert [(v.reason, v.detail) for v in verdicts if not v.keep] == [("ambiguous_question", "also 'Firton'")]
    prompt = check_prompt(row)
    assert row.question in prompt and "graph of 2021-05-01." in prompt
    assert "Answer by the graph: Elmton\nAlso called: Elm City\n" in prompt
    assert "- Red Dust | director | Cy Cedar\n- Cy Cedar | place of birth | Elmton" in prompt
    assert [request.purpose for request in model.requests] == ["write", "closed_book", "check"]


def test_the_version_follows_the_prompts_in_use() -> None:
    kinds = KgWriterConfig(), KgWriterConfig(kind="templates"), KgWriterConfig(style="completion")
    assert len({config.prompt_version for config in kinds}) == 3


async def test_other_words_or_facts_are_another_row() -> None:
    first, other = await work(SOUND).write(), await work(SOUND | {"question": "Where?"}).write()
    moved = await work(SOUND, chain=replace(DUST, id="d")).write()
    assert len({first.uid, other.uid, moved.uid}) == 3


@pytest.mark.parametrize("style", ["chat", "completion"])
async def test_a_draw_that_was_cut_is_no_answer(style: Style) -> None:
    config = KgWriterConfig(kind="templates", style=style)
    task = KgQuestionWork(item=DUST, context=context(client=CutModel(lambda _: "Elm City"), config=config))
    row = await task.write()
    assert await task.answer(row, 0) is None
    assert task.meter.usage(Prices()).cut_replies == 1
