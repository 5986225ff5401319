"""The thoughts of a finished trajectory, written by the model in one call and held against the steps by code.

The model is shown the steps alone, turn by turn: no gold answer, filter or reward. It returns each part of each thought
as a field of its own, so that the parts' spans are known. What does not hold keeps the sentences from fixed pools, the
whole row. Before each accepted claim the model says whether the passages state it; a row with one that they do not is
no row (`unsupported_claim`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from trailforge.filters import trajectories
from trailforge.filters.base import count_faults
from trailforge.filters.thoughts import quotes, unfounded_thoughts
from trailforge.generators.mcts_trajectories.spans import Sentence, span_problem
from trailforge.generators.mcts_trajectories.story import (
    PartName,
    Story,
    ThoughtPart,
    conversation,
    list_plan,
    outline,
    stands_in_passages,
)
from trailforge.inference import Sampling
from trailforge.inference.asker import Asker, fill
from trailforge.inference.structured import object_schema
from trailforge.mcts.plan import resolve
from trailforge.protocols.base import passage_lines
from trailforge.rewards import normalize_answer, states
from trailforge.schemas import MalformedReply, Step, ThoughtSource, Trajectory, Verdict
from trailforge.schemas.text import count_conversation

PURPOSE = "thoughts"

_TRUE_OR_FALSE = "true or false"
UNSUPPORTED = "unsupported_claim"
ThoughtsReply = Mapping[str, Mapping[str, str | bool]]
"""By turn and field; `stated` is a boolean, all else is text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtsConfig:
    """Who words the thoughts, and how the model is asked."""

    source: ThoughtSource = "templates"
    max_tokens: int = 4096
    temperature: float = 0.0
    top_p: float = 1.0
    max_words: int = 150
    """Of the agent's own in one turn."""


_Name = PartName | Literal["quote", "stated"]


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of the reply."""

    turn: int
    name: str
    part: ThoughtPart
    holds: Literal["quote", "stated", "thought"]


async def write_thoughts(
    row: Trajectory, story: Story, asker: Asker, prompt: str, config: ThoughtsConfig
) -> tuple[Trajectory, list[Step]]:
    """The row with the model's thoughts, and its `unsupported_steps` by the reply.

    The row is as it was where its thoughts do not hold, a claim is unsupported, or the model breaks the form, twice; a
    broken form says nothing about the claims. Either way the call is among those that the row rests on.
    """
    sampling = Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_tokens)
    text = fill(prompt, question=story.question, turns=describe(story), form=form(story))
    before = asker.meter.keys
    try:
        reply = await asker.json(text, reply_schema(story), purpose=PURPOSE, sampling=sampling)
    except MalformedReply:
        reply = None
    keys = tuple(key for key in asker.meter.keys if key not in before)
    row = replace(row, provenance=replace(row.provenance, call_keys=(*row.provenance.call_keys, *keys)))
    unsupported = unsupported_steps(story, reply or {})
    if reply is None or unsupported:
        return row, unsupported
    reworded = with_thoughts(row, story, reply)
    return (row if thought_problem(reworded, story, reply, config.max_words) else reworded), []


def unsupported_steps(story: Story, reply: ThoughtsReply) -> list[Step]:
    """The accepted steps of which the reply says that no passage states what they conclude."""
    return [
        story.steps[field.part.step]
        for field in _fields(story)
        if field.holds == "stated" and reply.get(f"turn_{field.turn}", {}).get(field.name) is False
    ]


def unsupported_claim(row: Trajectory, unsupported: Sequence[Step]) -> Verdict:
    """By the model's own word, no passage states what an accepted step concludes. Score: how many steps' answers.

    `unsupported`: steps of which that was said, of this row or of another one of its question.
    """
    known = {(step.query, normalize_answer(step.answer)) for step in unsupported}
    steps = [s for s in row.steps if not s.is_mistake and (s.query, normalize_answer(s.answer)) in known]
    return count_faults(
        UNSUPPORTED, steps, lambda step: f"{step.query!r} is answered with {step.answer!r}, which is not stated"
    )


def with_thoughts(row: Trajectory, story: Story, reply: ThoughtsReply) -> Trajectory:
    """The row told by a reply that follows the schema; nothing of it is checked."""
    texts = {(field.turn, field.part): _text(reply, field) for field in _fields(story) if field.holds == "thought"}
    thoughts = [
        [Sentence(texts[number, part], part.kind) for part in turn.parts]
        for number, turn in enumerate(outline(story), start=1)
    ]
    messages, spans = conversation(story, thoughts)
    tokens = count_conversation(messages)
    return replace(row, messages=messages, spans=spans, thoughts="model", token_estimate=tokens)


def thought_problem(row: Trajectory, story: Story, reply: ThoughtsReply, max_words: int) -> str:
    """Why a row may not be told so, in one line; empty when it may."""
    for field in _fields(story):
        if field.holds == "quote" and (problem := quote_problem(story.steps[field.part.step], _text(reply, field))):
            return f"turn {field.turn}: {problem}"
        if field.holds == "thought" and not _text(reply, field):
            return f"turn {field.turn}: {field.name} is empty"
    problem = span_problem(row)
    verdicts = [trajectories.malformed_tags(row), unfounded_thoughts(row, max_words=max_words)]
    return problem or next((verdict.detail for verdict in verdicts if not verdict.keep), "")


def quote_problem(step: Step, quote: str) -> str:
    """A cited sentence has to stand in a passage of its step, one that has the answer where any has it."""
    if not quote:
        return "" if not stands_in_passages(step) or step.is_mistake else "no sentence is cited"
    citing = [passage for passage in step.passages if quotes(f"{passage.title}. {passage.text}", quote)]
    if not citing:
        return f"no passage says {quote!r}"
    having = [p for p in step.passages if states(f"{p.title}. {p.text}", step.answer)]
    if having and not any(passage in having for passage in citing):
        return f"the passage that says {quote!r} does not have {step.answer!r}"
    return ""


# What is asked


def describe(story: Story) -> str:
    """The turns as the prompt tells them: what was seen before each, what is to be written, what was done then."""
    lines: list[str] = []
    fields = list(_fields(story))
    for number, turn in enumerate(outline(story), start=1):
        lines.append(f"Turn {number}")
        for field in fields:
            if field.turn == number:
                lines.append(f'- "{field.name}": {_wanted(story, field)}')
        if turn.search is not None:
            step = story.steps[turn.search]
            lines += [f"It searches: {step.query}", "and is shown:", *passage_lines(step.passages), ""]
        else:
            lines.append(f"It answers: {story.answer}")
    return "\n".join(lines)


def reply_schema(story: Story) -> dict[str, Any]:
    """JSON schema of a reply: an object for each turn, its fields in the order in which they are thought."""
    turns: dict[str, dict[str, Any]] = {}
    for field in _fields(story):
        kind = "boolean" if field.holds == "stated" else "string"
        turns.setdefault(f"turn_{field.turn}", {})[field.name] = {"type": kind}
    return object_schema({name: object_schema(fields) for name, fields in turns.items()})


def form(story: Story) -> str:
    """An empty reply, as the prompt shows it."""
    turns: dict[str, dict[str, str]] = {}
    for field in _fields(story):
        turns.setdefault(f"turn_{field.turn}", {})[field.name] = _TRUE_OR_FALSE if field.holds == "stated" else "…"
    return json.dumps(turns, ensure_ascii=False).replace(f'"{_TRUE_OR_FALSE}"', _TRUE_OR_FALSE)


def _fields(story: Story) -> Iterator[_Field]:
    """Of each turn, in their order; a claim comes with the sentence that it rests on, and an accepted one with whether
    it is stated. A second one is named so."""
    for number, turn in enumerate(outline(story), start=1):
        names: list[str] = []
        for part in turn.parts:
            which = "second_" if part.name in names else ""
            names.append(part.name)
            for name in _names(story, part):
                yield _Field(number, f"{which}{name}", part, name if name in ("quote", "stated") else "thought")


def _names(story: Story, part: ThoughtPart) -> tuple[_Name, ...]:
    if part.name != "claim":
        return (part.name,)
    return ("quote", "claim") if story.steps[part.step].is_mistake else ("quote", "stated", "claim")


def _text(reply: ThoughtsReply, field: _Field) -> str:
    return " ".join(str(reply[f"turn_{field.turn}"][field.name]).split())


def _wanted(story: Story, field: _Field) -> str:
    step = story.steps[field.part.step]
    if field.holds == "stated":
        return (
            "true or false: does that sentence, or what was found before, really say or imply that the answer to "
            f"{_asked(story, field.part.step)!r} is {step.answer}?"
        )
    if field.holds == "quote":
        if step.is_mistake and not stands_in_passages(step):
            return "empty, for the passages do not say what it concludes"
        return "the one sentence of these passages that this rests on, copied word for word"
    if field.part.name == "claim":
        return _wanted_claim(step)
    if field.part.name == "reflection":
        return f"{_WHY[story.error or 'reasoning']} It does not know the right answer yet and does not name it."
    if field.part.name == "next":
        return _wanted_next(story, field.part.step)
    if field.part.name == "end":
        return f"how what it found answers the question: {story.answer}"
    plan = story.first_plan if field.part.name == "plan" else story.plan
    if len(plan) == 1:
        return "that the question can be looked up as it stands"
    return f"how it takes the question {_AGAIN[field.part.name]}apart: {list_plan(plan)}"


def _asked(story: Story, position: int) -> str:
    """The sub-question of a step, with the answers that the steps before it found."""
    found = {step.index + 1: step.answer for step in story.steps[:position] if not step.is_mistake}
    return resolve(story.steps[position].sub_question, found)


def _wanted_claim(step: Step) -> str:
    if not step.is_mistake:
        return f"what it concludes from that sentence, and why; it uses these words for it: {step.answer}"
    if stands_in_passages(step):
        return f"what it concludes, wrongly but without a doubt yet; it uses these words for it: {step.answer}"
    return f"what it concludes from memory, and that it does so from memory, without a doubt yet: {step.answer}"


def _wanted_next(story: Story, position: int) -> str:
    step, before = story.steps[position], story.steps[position - 1] if position else None
    if before is None or not before.is_mistake or story.error == "decomposition":
        return f"what it looks for now and why (sub-question: {step.sub_question})"
    return "why it searches " + ("for the same once more" if step.query == before.query else "in other words now")


_AGAIN: Mapping[PartName, str] = {"plan": "", "new_plan": "anew "}
_WHY = {
    "retrieval": "that what it concluded does not hold, by what these passages say and do not say, and that another "
    "search is needed.",
    "reasoning": "that what it concluded does not hold, by what the question asks and these passages say, and that it "
    "has to read them with more care.",
    "decomposition": "that what it concluded does not lead to what the question asks, and that its plan was at fault.",
}
