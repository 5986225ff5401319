"""Collect the objections of the model that words a trajectory, and find the rows of its question that these concern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from trailforge.filters import bears_out, count_faults, given_answers, is_computed, quotes
from trailforge.generators.mcts_trajectories.telling.form import ThoughtsReply, fields_of, sub_question_of
from trailforge.generators.mcts_trajectories.telling.story import Story
from trailforge.rewards import mentions, normalize_answer, states
from trailforge.schemas import Step, Trajectory, Verdict

DoubtReason = Literal[
    "unsupported_claim",
    "mistake_is_stated",
    "ambiguous_passages",
    "unfit_query",
    "needless_search",
    "untrue_reflection",
]
DOUBTS: tuple[str, ...] = get_args(DoubtReason)
"""Reasons for rejecting a row that the model which tells it gives."""
_REASONS: Mapping[str, DoubtReason] = {
    "stated": "unsupported_claim",
    "fits": "unfit_query",
    "missing": "needless_search",
    "sound": "untrue_reflection",
}
_DETAILS: Mapping[DoubtReason, str] = {
    "unsupported_claim": "{0.query!r} is answered with {0.answer!r}, which is not stated",
    "ambiguous_passages": "{0.query!r} is answered with {0.answer!r}, and the passages have another answer",
    "mistake_is_stated": "{0.query!r} is answered with {0.answer!r}, which is taken back though the answer is stated",
    "unfit_query": "{0.query!r} is not what one would search for there",
    "needless_search": "{0.query!r} is searched for, and what was found before says it",
    "untrue_reflection": "the reason for which {0.answer!r} is taken back is not true",
}
_OF_CLAIMS = ("unsupported_claim", "ambiguous_passages")


@dataclass(frozen=True, slots=True)
class Doubt:
    """One objection to a row by the model that words it."""

    reason: DoubtReason
    step: Step
    after: tuple[str, ...] = ()
    """Queries of the steps before it: what is needless after some searches may be needed without them."""


def doubts_of(story: Story, reply: ThoughtsReply) -> list[Doubt]:
    """Return the objections in a reply: what it denies, mistakes that it says are stated, and claims whose cited
    sentence does not support them. What it does not answer is no objection.
    """
    doubts: list[Doubt] = []
    for field in fields_of(story):
        said = reply.get(f"turn_{field.turn}", {}).get(field.name)
        step = story.steps[field.part.step]
        if field.holds == "stated" and step.is_mistake:
            doubts += [Doubt("mistake_is_stated", step)] if said is True else []
        elif field.holds == "quote" and isinstance(said, str):
            doubts += [] if _is_borne_out(story, field.part.step, said) else [Doubt("unsupported_claim", step)]
        elif field.holds == "others" and isinstance(said, str):
            doubts += [Doubt("ambiguous_passages", step)] if _rivals(story, field.part.step, said) else []
        elif field.holds in _REASONS and said is False:
            doubts.append(Doubt(_REASONS[field.holds], step, _queries(story.steps[: field.part.step])))
    return doubts


def _queries(steps: Sequence[Step]) -> tuple[str, ...]:
    return tuple(step.query for step in steps)


def _rivals(story: Story, position: int, said: str) -> list[str]:
    """Of the names that the model gives for other answers those that the passages have, that the question does not name
    itself, and that are not the answer in other words."""
    names = [name.strip(" .\"'“”") for name in said.split(";")]
    return [name for name in names if _is_rival(story, position, name)]


def _is_rival(story: Story, position: int, name: str) -> bool:
    step = story.steps[position]
    if not normalize_answer(name) or _is_same(name, step.answer):
        return False
    is_shown = any(states(f"{passage.title}. {passage.text}", name) for passage in step.passages)
    asked = (story.question, step.query, sub_question_of(story, position))
    return is_shown and not any(mentions(text, name) for text in asked)


def _is_same(name: str, answer: str) -> bool:
    """Whether one of two has the words of the other."""
    return mentions(name, answer) or mentions(answer, name)


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
    """Reject a row for the first reason that the model's objections give. Score: the number of its steps that they
    concern.

    `doubts` are objections to this row or to another row of its question. An objection concerns a step: a query without
    a purpose in any row that has it, a query for what is known in rows with the same searches before it, a claim or a
    mistake in rows with the same query and answer. A mistake that the passages state counts as another answer for a row
    that concludes something else there.
    """
    for reason in get_args(DoubtReason):
        meant = [
            step
            for at, step in enumerate(row.steps)
            if any(_is_meant(row.steps, at, reason, doubt) for doubt in doubts)
        ]
        verdict = count_faults(reason, meant, lambda step, said=_DETAILS[reason]: said.format(step))
        if not verdict.keep:
            return verdict
    return Verdict(keep=True, reason="unsupported_claim", score=0.0)


def _is_meant(steps: Sequence[Step], at: int, reason: DoubtReason, doubt: Doubt) -> bool:
    step, other = steps[at], doubt.step
    if step.query != other.query:
        return False
    if reason == "ambiguous_passages" and doubt.reason == "mistake_is_stated":
        return not step.is_mistake and bool(other.answer) and not _is_same(other.answer, step.answer)
    if reason != doubt.reason:
        return False
    if reason == "unfit_query":
        return True
    if reason == "needless_search":
        return _queries(steps[:at]) == doubt.after
    if step.is_mistake == (reason in _OF_CLAIMS):
        return False
    return normalize_answer(other.answer) == normalize_answer(step.answer)
