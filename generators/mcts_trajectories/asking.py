"""Prepare a question for the tree search: decide whether it can be asked, and reword its gold sub-questions.

What code can tell, it tells before any call. Where it finds marks of garbled text, and there alone, the model is asked
once: whether anybody can tell what the question asks, and how its gold sub-questions read in plain words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trailforge.filters import (
    can_be_asked,
    find_unseen_names,
    garbled_places,
    golds_of_hops,
    mentions_any,
    searched_texts,
)
from trailforge.generators.mcts_trajectories.generate import Context, asker_for
from trailforge.generators.mcts_trajectories.telling.story import PROMPTS
from trailforge.inference import Asker, Meter, Sampling, fill, list_schema, object_schema
from trailforge.mcts import PolicyConfig, gold_plan, plan_problem, references
from trailforge.schemas import MalformedReply, Plan, Question, Verdict

PURPOSE = "word"
UNCLEAR = "garbled_question"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuestion:
    """A question as it will be searched, or the reason why it will not be."""

    question: Question
    """The question, with its gold sub-questions in the model's words where the model was asked for them."""
    verdict: Verdict
    """The verdict on whether the question can be asked."""
    call_keys: tuple[str, ...] = field(default=())
    """Keys of the calls behind the question's words."""


async def prepare_question(
    question: Question, context: Context, *, own_paragraphs: bool
) -> tuple[PreparedQuestion, Meter]:
    """Return the question as it will be searched, or why it will not be, and the calls made for that: none or one.

    `own_paragraphs` says that the question's own paragraphs are searched. A model that does not word questions freely
    is not asked.
    """
    config, verdict = context.config, can_be_asked(question, own_paragraphs=own_paragraphs)
    texts = searched_texts(question, own_paragraphs=own_paragraphs)
    if not verdict.keep or config.policy.kind != "model" or not garbled_places(question, texts):
        return PreparedQuestion(question=question, verdict=verdict), Meter()
    meter = Meter()
    prompt, asker = PROMPTS.text(config.prompts.word), asker_for(question, context, meter, 1)
    return await word_question(question, asker, prompt, config.policy), meter


async def word_question(question: Question, asker: Asker, prompt: str, config: PolicyConfig) -> PreparedQuestion:
    """Have a model reword the gold sub-questions in one call, and drop the question where the model calls it unclear.

    A sub-question keeps its words where the new ones refer to other answers, add a name or say an answer; all keep
    theirs where the model breaks the reply's form twice.
    """
    plan = gold_plan(question.decomposition).sub_questions
    listed = "\n".join(f"{number}. {asked}" for number, asked in enumerate(plan, start=1))
    sampling = Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.judge_max_tokens)
    text = fill(prompt, question=question.question, sub_questions=listed or "(none)")
    kept = Verdict(keep=True, reason=UNCLEAR, score=0.0)
    try:
        reply = await asker.json(text, reply_schema(len(plan)), purpose=PURPOSE, sampling=sampling)
    except MalformedReply:
        return PreparedQuestion(question=question, verdict=kept, call_keys=_keys(asker.meter))
    verdict = kept
    if not reply["clear"]:
        verdict = Verdict(keep=False, reason=UNCLEAR, score=1.0, detail=f"by the model's word: {question.question!r}")
    worded = with_words(question, reply["sub_questions"])
    return PreparedQuestion(question=worded, verdict=verdict, call_keys=_keys(asker.meter))


def reply_schema(hops: int) -> dict[str, Any]:
    """Return the JSON schema of a reply on a question with this number of gold hops."""
    texts = list_schema({"type": "string"}, minItems=hops, maxItems=hops)
    return object_schema(clear={"type": "boolean"}, sub_questions=texts)


def with_words(question: Question, wordings: Sequence[str]) -> Question:
    """Return the question with its gold sub-questions reworded, `wordings` having one for each in order. A sub-question
    keeps its words where the new ones refer to other answers, add a name or say an answer.
    """
    hops = question.decomposition
    plan = gold_plan(hops).sub_questions
    texts = [
        wording if _may_be_worded(question, number, wording) else asked
        for number, (asked, wording) in enumerate(zip(plan, wordings, strict=True))
    ]
    if hops and plan_problem(Plan(sub_questions=tuple(texts))):
        return question
    return replace(
        question, decomposition=tuple(replace(hop, question=text) for hop, text in zip(hops, texts, strict=True))
    )


def _may_be_worded(question: Question, number: int, wording: str) -> bool:
    asked = gold_plan(question.decomposition).sub_questions[number]
    known = [question.question, *gold_plan(question.decomposition).sub_questions]
    golds = [gold for gold in golds_of_hops(question)[number] if not mentions_any(f"{known[0]} {asked}", [gold])]
    return (
        any(letter.isalpha() for letter in wording)
        and "\n" not in wording.strip()
        and ">>" not in wording
        and set(references(wording)) == set(references(asked))
        and len(wording) <= 2 * len(asked) + len(question.question)
        and not mentions_any(wording, golds)
        and not any(find_unseen_names(wording, known))
    )


def _keys(meter: Meter) -> tuple[str, ...]:
    return tuple(dict.fromkeys(meter.keys))
