"""Define the reply of the model that words a trajectory: its fields for each turn, and what each has to contain.

Beside the thoughts it says by true and false whether the passages state each claim, a mistake's too, whether a search
serves its purpose and looks for what is still missing, and whether the reason for a reflection is true; and it names
what else the passages say in answer to a sub-question.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trailforge.generators.mcts_trajectories.telling.story import (
    PartName,
    Story,
    ThoughtPart,
    list_plan,
    outline,
    stands_in_passages,
)
from trailforge.inference import object_schema
from trailforge.mcts import resolve
from trailforge.protocols import passage_lines
from trailforge.schemas import Step

_TRUE_OR_FALSE = "true or false"
ThoughtsReply = Mapping[str, Mapping[str, str | bool]]
"""By turn and field; `stated`, `fits` and `sound` are booleans, all else is text."""


_Question = Literal["stated", "fits", "missing", "sound"]
"""What the model answers by true or false: is a claim stated, does a search fit its purpose, is what it looks for still
missing, is a reflection's reason true?"""
_Name = PartName | Literal["quote", "others"] | _Question
_QUESTIONS: tuple[str, ...] = get_args(_Question)


@dataclass(frozen=True, slots=True)
class ReplyField:
    """One field of the reply, with a description of its content."""

    turn: int
    name: str
    part: ThoughtPart
    holds: Literal["quote", "others", "thought"] | _Question


def describe(story: Story) -> str:
    """Describe the turns for the prompt: what was seen before each, what is to be written, and what was done then."""
    lines: list[str] = []
    fields = list(fields_of(story))
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
    """Return the JSON schema of a reply: an object for each turn, its fields in the order in which they should be
    thought of.
    """
    turns: dict[str, dict[str, Any]] = {}
    for field in fields_of(story):
        kind = "boolean" if field.holds in _QUESTIONS else "string"
        turns.setdefault(f"turn_{field.turn}", {})[field.name] = {"type": kind}
    return object_schema({name: object_schema(fields) for name, fields in turns.items()})


def form(story: Story) -> str:
    """Return a reply with all fields empty, as the prompt shows it."""
    turns: dict[str, dict[str, str]] = {}
    for field in fields_of(story):
        turns.setdefault(f"turn_{field.turn}", {})[field.name] = _TRUE_OR_FALSE if field.holds in _QUESTIONS else "…"
    return json.dumps(turns, ensure_ascii=False).replace(f'"{_TRUE_OR_FALSE}"', _TRUE_OR_FALSE)


def fields_of(story: Story) -> Iterator[ReplyField]:
    """Yield the fields of each turn in the order in which they stand in the reply: each with what the thought says, and
    with it the sentence that a claim cites or the questions that are answered by true or false. The second field of one
    kind in a turn has `second_` before its name.
    """
    for number, turn in enumerate(outline(story), start=1):
        names: list[str] = []
        for part in turn.parts:
            which = "second_" if part.name in names else ""
            names.append(part.name)
            for name in _names(story, part):
                holds = name if name in ("quote", "others", "stated", "fits", "missing", "sound") else "thought"
                yield ReplyField(number, f"{which}{name}", part, holds)


def _names(story: Story, part: ThoughtPart) -> tuple[_Name, ...]:
    """The answer to a sub-question that should not have been asked may well be stated: the plan was at fault."""
    if part.name == "next":
        before = story.steps[part.step - 1] if part.step else None
        is_first = before is None or (before.is_mistake and story.error != "decomposition")
        return ("next", "fits") if is_first else ("missing", "next", "fits")
    if part.name == "reflection":
        return ("reflection", "sound")
    if part.name != "claim":
        return (part.name,)
    if not story.steps[part.step].answer:
        return ("stated", "claim")
    if not story.steps[part.step].is_mistake:
        return ("quote", "stated", "others", "claim")
    return ("quote", "claim") if story.error == "decomposition" else ("quote", "stated", "claim")


def text_of(reply: ThoughtsReply, field: ReplyField) -> str:
    """Return the text of a field in a reply, on one line."""
    return " ".join(str(reply[f"turn_{field.turn}"][field.name]).split())


def _wanted(story: Story, field: ReplyField) -> str:
    step = story.steps[field.part.step]
    if field.holds == "stated" and not step.answer:
        return (
            "true or false: do these passages, or what was found before, really say or imply the answer to "
            f"{sub_question_of(story, field.part.step)!r}?"
        )
    if field.holds == "stated":
        source = "do these passages" if step.is_mistake else "does that sentence"
        return (
            f"true or false: {source}, or what was found before, really say or imply that the answer to "
            f"{sub_question_of(story, field.part.step)!r} is {step.answer}?"
        )
    if field.holds == "fits":
        asked = sub_question_of(story, field.part.step)
        sense = "" if step.query == asked else f"does it make sense to ask {asked!r}, and "
        return (
            f"true or false: {sense}is {step.query!r} what one would type to find that, knowing what is known by then?"
        )
    if field.holds == "others":
        asked = sub_question_of(story, field.part.step)
        return f"what else these passages say as plainly in answer to {asked!r}; empty where there is nothing"
    if field.holds == "missing":
        asked = sub_question_of(story, field.part.step)
        return f"true or false: is the answer to {asked!r} still missing from what stands above?"
    if field.holds == "sound":
        return "true or false: is that reason true of the question and these passages?"
    if field.holds == "quote":
        if step.is_mistake and not stands_in_passages(step):
            return "empty, for the passages do not say what it concludes"
        return (
            "the sentence of these passages that this rests on, copied word for word; two of one passage with … between"
        )
    if field.part.name == "claim":
        return _wanted_claim(step)
    if field.part.name == "reflection" and not step.answer:
        return "why another search is needed, and what other words might find. It does not know the answer yet."
    if field.part.name == "reflection":
        return f"{_WHY[story.error or 'reasoning']} It does not know the right answer yet and does not name it."
    if field.part.name == "next":
        return _wanted_next(story, field.part.step)
    if field.part.name == "end":
        return "in one sentence, how what it found before led there; not the answer again, which it has just concluded"
    plan = story.first_plan if field.part.name == "plan" else story.plan
    if len(plan) == 1:
        return "that the question can be looked up as it stands"
    return f"how it takes the question {_AGAIN[field.part.name]}apart: {list_plan(plan)}"


def sub_question_of(story: Story, position: int) -> str:
    """Return the sub-question of a step, with the answers that the steps before it found."""
    found = {step.index + 1: step.answer for step in story.steps[:position] if not step.is_mistake}
    return resolve(story.steps[position].sub_question, found)


def _wanted_claim(step: Step) -> str:
    if not step.answer:
        return "that these passages do not say it, and what they speak of instead"
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
