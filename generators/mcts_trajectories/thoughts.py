"""The thoughts of a finished trajectory, written by the model in one reply and held against the steps by code.

The model is shown the steps alone, turn by turn: no gold answer, filter or reward. It returns each part of each thought
as a field of its own, so that the parts' spans are known. Where a reply does not hold, the model is told why and asked
again (`ThoughtsConfig.tries`); where none does, the whole row keeps the sentences from fixed pools. Beside what it
writes the model says by true and false whether the passages state each claim, a mistake's too, whether a search serves
its purpose, and whether the reason for a reflection is true. What it denies, or grants a mistake, is a doubt, and a row
with a doubt is no row (`DOUBTS`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from trailforge.filters import trajectories
from trailforge.filters.base import count_faults
from trailforge.filters.grounding import bears_out, given_answers, is_computed
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
from trailforge.schemas.errors import check_least
from trailforge.schemas.text import count_conversation

PURPOSE = "thoughts"

_TRUE_OR_FALSE = "true or false"
DoubtReason = Literal["unsupported_claim", "mistake_is_stated", "unfit_query", "untrue_reflection"]
DOUBTS: tuple[str, ...] = get_args(DoubtReason)
"""Reasons to reject a row that the model which tells it gives."""
ThoughtsReply = Mapping[str, Mapping[str, str | bool]]
"""By turn and field; `stated`, `fits` and `sound` are booleans, all else is text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtsConfig:
    """Who words the thoughts, and how the model is asked."""

    source: ThoughtSource = "templates"
    max_tokens: int = 4096
    temperature: float = 0.0
    top_p: float = 1.0
    max_words: int = 150
    """Of the agent's own in one turn."""
    tries: int = 1
    """Replies until one can be used; with the second one the model is told what was wrong with the first."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for no room, or no reply."""
        check_least(self, 1, "max_tokens", "max_words", "tries")


_Question = Literal["stated", "fits", "sound"]
"""What the model answers by true or false: is a claim stated, does a search fit its purpose, is a reflection's reason
true?"""
_Name = PartName | Literal["quote"] | _Question
_QUESTIONS: tuple[str, ...] = get_args(_Question)


@dataclass(frozen=True, slots=True)
class Doubt:
    """What the model that tells a row does not hold with."""

    reason: DoubtReason
    step: Step


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of the reply."""

    turn: int
    name: str
    part: ThoughtPart
    holds: Literal["quote", "thought"] | _Question


async def write_thoughts(
    row: Trajectory, story: Story, asker: Asker, prompt: str, again: str, config: ThoughtsConfig
) -> tuple[Trajectory, list[Doubt]]:
    """The row with the model's thoughts, and its doubts about the row.

    `again` is put behind the prompt where a reply could not be used, with the reason. The row is as it was where no
    thoughts hold, there is a doubt, or the model breaks the form, twice; a broken form says nothing about the row.
    Either way the calls are among those that the row rests on.
    """
    sampling = Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_tokens)
    text = fill(prompt, question=story.question, turns=describe(story), form=form(story))
    before, asked, doubts, told = set(asker.meter.keys), text, [], None
    for _ in range(config.tries):
        try:
            reply = await asker.json(asked, reply_schema(story), purpose=PURPOSE, sampling=sampling)
        except MalformedReply:
            break
        if doubts := doubts_of(story, reply):
            break
        reworded = with_thoughts(row, story, reply)
        problem = thought_problem(reworded, story, reply, config.max_words)
        if not problem:
            told = reworded
            break
        asked = f"{text}\n\n{fill(again, problem=problem)}"
    keys = tuple(key for key in asker.meter.keys if key not in before)
    provenance = replace(row.provenance, call_keys=(*row.provenance.call_keys, *keys))
    return replace(told or row, provenance=provenance), doubts


def doubts_of(story: Story, reply: ThoughtsReply) -> list[Doubt]:
    """What a reply denies, the mistakes that it says are stated, and the claims for which it cites what does not bear
    them out; what it does not answer is no doubt."""
    doubts: list[Doubt] = []
    for field in _fields(story):
        said = reply.get(f"turn_{field.turn}", {}).get(field.name)
        step = story.steps[field.part.step]
        if field.holds == "stated" and step.is_mistake:
            doubts += [Doubt("mistake_is_stated", step)] if said is True else []
        elif field.holds == "quote" and isinstance(said, str):
            doubts += [] if _is_borne_out(story, field.part.step, said) else [Doubt("unsupported_claim", step)]
        elif field.holds in _REASONS and said is False:
            doubts.append(Doubt(_REASONS[field.holds], step))
    return doubts


def _is_borne_out(story: Story, position: int, quote: str) -> bool:
    """Whoever says that a claim is stated has to show the words: see `grounding.bears_out`. Not of a mistake, nor of
    what follows from earlier answers."""
    step, earlier = story.steps[position], [each for each in story.steps[:position] if not each.is_mistake]
    if step.is_mistake or not step.answer or is_computed(step, earlier):
        return True
    citing = (passage for passage in step.passages if quotes(f"{passage.title}. {passage.text}", quote))
    given = given_answers(step, earlier)
    return any(bears_out(passage, quote, step.query, step.answer, given) for passage in citing)


def doubtful(row: Trajectory, doubts: Sequence[Doubt]) -> Verdict:
    """The first reason for which the model's own word speaks against a row. Score: how many of its steps it is about.

    `doubts`: of this row or of another one of its question. A query that serves no purpose serves none in any row; a
    claim counts by its query and answer, and so does a mistake.
    """
    for reason in get_args(DoubtReason):
        known = [doubt.step for doubt in doubts if doubt.reason == reason]
        verdict = count_faults(
            reason,
            [s for s in row.steps if _is_meant(s, reason, known)],
            lambda step, said=_DETAILS[reason]: said.format(step),
        )
        if not verdict.keep:
            return verdict
    return Verdict(keep=True, reason="unsupported_claim", score=0.0)


def _is_meant(step: Step, reason: DoubtReason, doubted: Sequence[Step]) -> bool:
    if reason == "unfit_query":
        return any(step.query == other.query for other in doubted)
    if step.is_mistake == (reason == "unsupported_claim"):
        return False
    same = (other for other in doubted if other.query == step.query)
    return any(normalize_answer(other.answer) == normalize_answer(step.answer) for other in same)


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
        kind = "boolean" if field.holds in _QUESTIONS else "string"
        turns.setdefault(f"turn_{field.turn}", {})[field.name] = {"type": kind}
    return object_schema({name: object_schema(fields) for name, fields in turns.items()})


def form(story: Story) -> str:
    """An empty reply, as the prompt shows it."""
    turns: dict[str, dict[str, str]] = {}
    for field in _fields(story):
        turns.setdefault(f"turn_{field.turn}", {})[field.name] = _TRUE_OR_FALSE if field.holds in _QUESTIONS else "…"
    return json.dumps(turns, ensure_ascii=False).replace(f'"{_TRUE_OR_FALSE}"', _TRUE_OR_FALSE)


def _fields(story: Story) -> Iterator[_Field]:
    """Of each turn, in their order; a claim comes with the sentence that it rests on, and what the model is asked comes
    with what it is about. A second one is named so."""
    for number, turn in enumerate(outline(story), start=1):
        names: list[str] = []
        for part in turn.parts:
            which = "second_" if part.name in names else ""
            names.append(part.name)
            for name in _names(story, part):
                holds = name if name in ("quote", "stated", "fits", "sound") else "thought"
                yield _Field(number, f"{which}{name}", part, holds)


def _names(story: Story, part: ThoughtPart) -> tuple[_Name, ...]:
    """The answer to a sub-question that should not have been asked may well be stated: the plan was at fault."""
    if part.name == "next":
        return ("next", "fits")
    if part.name == "reflection":
        return ("reflection", "sound")
    if part.name != "claim":
        return (part.name,)
    if not story.steps[part.step].answer:
        return ("stated", "claim")
    is_blameless = story.steps[part.step].is_mistake and story.error == "decomposition"
    return ("quote", "claim") if is_blameless else ("quote", "stated", "claim")


def _text(reply: ThoughtsReply, field: _Field) -> str:
    return " ".join(str(reply[f"turn_{field.turn}"][field.name]).split())


def _wanted(story: Story, field: _Field) -> str:
    step = story.steps[field.part.step]
    if field.holds == "stated" and not step.answer:
        return (
            "true or false: do these passages, or what was found before, really say or imply the answer to "
            f"{_asked(story, field.part.step)!r}?"
        )
    if field.holds == "stated":
        source = "do these passages" if step.is_mistake else "does that sentence"
        return (
            f"true or false: {source}, or what was found before, really say or imply that the answer to "
            f"{_asked(story, field.part.step)!r} is {step.answer}?"
        )
    if field.holds == "fits":
        asked = _asked(story, field.part.step)
        sense = "" if step.query == asked else f"does it make sense to ask {asked!r}, and "
        return (
            f"true or false: {sense}is {step.query!r} what one would type to find that, knowing what is known by then?"
        )
    if field.holds == "sound":
        return "true or false: is that reason true of the question and these passages?"
    if field.holds == "quote":
        if step.is_mistake and not stands_in_passages(step):
            return "empty, for the passages do not say what it concludes"
        return "the one sentence of these passages that this rests on, copied word for word"
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


def _asked(story: Story, position: int) -> str:
    """The sub-question of a step, with the answers that the steps before it found."""
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


_REASONS: Mapping[str, DoubtReason] = {
    "stated": "unsupported_claim",
    "fits": "unfit_query",
    "sound": "untrue_reflection",
}
_DETAILS: Mapping[DoubtReason, str] = {
    "unsupported_claim": "{0.query!r} is answered with {0.answer!r}, which is not stated",
    "mistake_is_stated": "{0.query!r} is answered with {0.answer!r}, which is taken back though the answer is stated",
    "unfit_query": "{0.query!r} is not what one would search for there",
    "untrue_reflection": "the reason for which {0.answer!r} is taken back is not true",
}
_AGAIN: Mapping[PartName, str] = {"plan": "", "new_plan": "anew "}
_WHY = {
    "retrieval": "that what it concluded does not hold, by what these passages say and do not say, and that another "
    "search is needed.",
    "reasoning": "that what it concluded does not hold, by what the question asks and these passages say, and that it "
    "has to read them with more care.",
    "decomposition": "that what it concluded does not lead to what the question asks, and that its plan was at fault.",
}
