"""Mark with character offsets what each part of an agent's turn does, while the turn is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import NamedTuple

from trailforge.protocols import REACT, Search, Turn
from trailforge.rewards import normalize_answer, states
from trailforge.schemas import MalformedReply, Message, SpanKind, Step, TextSpan, Trajectory

_OPENING = len("<think>")
_PIECE = re.compile(r"\w+|\W")


class Sentence(NamedTuple):
    """One or more sentences of a thought, with the role that they have in it."""

    text: str
    kind: SpanKind | None = None
    """What the sentences do; None: they only lead on."""


def write_turn(
    message: int, sentences: Sequence[Sentence], *, query: str | None = None, answer: str = ""
) -> tuple[Message, tuple[TextSpan, ...]]:
    """Write a turn that thinks and then searches, or answers where there is no query; returns it with its spans."""
    thought = " ".join(part.text for part in sentences)
    turn = Turn(thought=thought, answer=answer) if query is None else Turn(thought=thought, search=Search(query=query))
    content = REACT.render_turn(turn)
    spans = []
    at = _OPENING
    for part in sentences:
        if part.kind is not None:
            spans.append(TextSpan(message=message, kind=part.kind, start=at, end=at + len(part.text)))
        at += len(part.text) + 1
    spans.append(_action_span(message, content, answer if query is None else query, is_answer=query is None))
    return Message(role="assistant", content=content, train=True), tuple(spans)


def _action_span(message: int, content: str, text: str, *, is_answer: bool) -> TextSpan:
    """Of the query or answer that a turn ends in."""
    end = len(content) - len(f"</{'answer' if is_answer else REACT.search_tag}>")
    return TextSpan(message=message, kind="answer" if is_answer else "query", start=end - len(text), end=end)


def texts_of(row: Trajectory, *kinds: SpanKind) -> list[str]:
    """Return the texts of a row's spans of these kinds, in the order of the conversation."""
    return [row.messages[s.message].content[s.start : s.end] for s in row.spans if s.kind in kinds]


def span_problem(row: Trajectory) -> str:
    """Return what is wrong with a row's spans in one line; empty when every turn is marked as it should be."""
    return next(_span_problems(row), "")


def _span_problems(row: Trajectory) -> Iterator[str]:
    turns = {number for number, message in enumerate(row.messages) if message.role == "assistant"}
    for span in row.spans:
        if span.message not in turns:
            yield f"a span ({span.kind}) lies in message {span.message}, which is not the agent's"
            return
        if not 0 <= span.start < span.end <= len(row.messages[span.message].content):
            yield f"a span ({span.kind}) of message {span.message} is empty or leaves its text"
    for one, other in pairwise(row.spans):
        if (one.message, one.end) > (other.message, other.start):
            yield f"spans of message {other.message} overlap, or stand in another order"
    for number in sorted(turns):
        yield from _action_problems(row, number)
    yield from _claim_problems(row)
    plans = int(len(row.wrong_plan or row.plan) > 1) + int(row.reflection_error == "decomposition")
    if len(texts_of(row, "plan")) != plans:
        yield f"{len(texts_of(row, 'plan'))} spans are marked as plans, the row has {plans}"


def _action_problems(row: Trajectory, number: int) -> Iterator[str]:
    """The last span of a turn, and no other, is its query or its answer."""
    content = row.messages[number].content
    own = [span for span in row.spans if span.message == number]
    actions = [span for span in own if span.kind in ("query", "answer")]
    try:
        turn = REACT.parse_turn(content)
    except MalformedReply as error:
        yield f"message {number}: {error}"
        return
    text = turn.answer or "" if turn.search is None else turn.search.query
    if actions != [_action_span(number, content, text, is_answer=turn.search is None)] or own[-1:] != actions:
        yield f"message {number}: its query or answer is not the span that is marked"
    if any(content.find("</think>") < span.end for span in own[:-1]):
        yield f"message {number}: a span of its thought leaves the thought"


def _claim_problems(row: Trajectory) -> Iterator[str]:
    """Each step's answer is claimed once, in the order of the steps, and taken back where it is a mistake."""
    found = [span.kind for span in row.spans if span.kind in ("claim", "mistake", "mend")]
    expected = [kind for step in row.steps for kind in _kinds_of(step)]
    if found != expected:
        yield f"it claims and takes back {', '.join(found) or 'nothing'}; its steps say {', '.join(expected)}"
        return
    for step, text in zip(row.steps, texts_of(row, "claim", "mistake"), strict=True):
        if normalize_answer(step.answer) and not states(text, step.answer):
            yield f"{text!r} is marked as claiming {step.answer!r}"


def _kinds_of(step: Step) -> tuple[SpanKind, ...]:
    """The spans that tell of a step. That a search found nothing is claimed, and holds."""
    if not step.is_mistake:
        return ("claim",)
    return ("mistake" if step.answer else "claim", "mend")


def moved_spans(spans: Sequence[TextSpan], old: Sequence[Message], new: Sequence[Message]) -> tuple[TextSpan, ...]:
    """Return the spans of a conversation after some of its turns were reworded.

    A span reaches from its first to its last word that remains, so two never overlap; a span of which nothing remains
    is dropped. Query and answer are found where they stand now.
    """
    return tuple(
        moved for span in spans for moved in _moved(span, old[span.message].content, new[span.message].content)
    )


def _moved(span: TextSpan, old: str, new: str) -> Iterator[TextSpan]:
    if old == new:
        yield span
    elif span.kind in ("query", "answer"):
        turn = REACT.parse_turn(new)
        text = turn.answer or "" if turn.search is None else turn.search.query
        yield _action_span(span.message, new, text, is_answer=turn.search is None)
    elif kept := _kept(old, new, span.start, span.end):
        yield TextSpan(message=span.message, kind=span.kind, start=kept[0], end=kept[1])


def _kept(old: str, new: str, start: int, end: int) -> tuple[int, int] | None:
    """Where what is left of a part of a text stands now."""
    pieces, others = _PIECE.findall(old), _PIECE.findall(new)
    at, other_at = ([0, *accumulate(map(len, each))] for each in (pieces, others))
    found = [
        (other_at[block.b + n], other_at[block.b + n + 1])
        for block in SequenceMatcher(None, pieces, others, autojunk=False).get_matching_blocks()
        for n in range(block.size)
        if start <= at[block.a + n] and at[block.a + n + 1] <= end and not pieces[block.a + n].isspace()
    ]
    return (found[0][0], found[-1][1]) if found else None
