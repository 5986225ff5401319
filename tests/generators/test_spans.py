"""Spans: what each marked part of a turn says, for every kind of row, and after a fix."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rows import AGAIN, FIRST, MISLED, PLAN, SECOND, step, trajectory
from trailforge.generators.mcts_trajectories.fix import refit
from trailforge.generators.mcts_trajectories.telling.spans import (
    Sentence,
    moved_spans,
    span_problem,
    texts_of,
    write_turn,
)
from trailforge.generators.mcts_trajectories.telling.story import narrate, sft_row, story_of
from trailforge.schemas import InvalidInput, Message, TextSpan, Trajectory

OTHER_PLAN = ("Who directed Metropolis?", "In which city did #1 die?")
WRONG_TURN = step(1, "In which city did Fritz Lang die?", "Beverly Hills", "1", plan=OTHER_PLAN, is_mistake=True)
ANSWERS = st.sampled_from(["Beverly Hills", "Salzburg", "U.S.", "7", "St. Pölten", "no"])


@st.composite
def rows(draw: st.DrawFn) -> Trajectory:
    """A row of any kind with any mistake, told under any seed."""
    kind = draw(st.sampled_from(["correct", "single", "retrieval", "reasoning", "reread", "decomposition"]))
    wrong = replace(SECOND, answer=draw(ANSWERS), is_mistake=True)
    if kind == "single":
        row = trajectory(replace(SECOND, index=0), plan=("In which city was Fritz Lang born?",))
    elif kind == "correct":
        row = trajectory()
    elif kind == "retrieval":
        row = trajectory(FIRST, replace(MISLED, answer=wrong.answer), AGAIN, error=kind)
    elif kind == "decomposition":
        wrong = replace(WRONG_TURN, answer=wrong.answer)
        row = trajectory(FIRST, wrong, SECOND, error=kind, first_plan=OTHER_PLAN)
    else:
        row = trajectory(FIRST, wrong, SECOND, error="reasoning")
    story = story_of(row, "reread" if kind == "reread" else "search")
    messages, spans = narrate(story, seed=str(draw(st.integers(0, 9999))))
    return replace(row, messages=messages, spans=spans)


@given(rows())
@settings(max_examples=150, deadline=None)
def test_each_span_says_what_its_kind_says(row: Trajectory) -> None:
    assert span_problem(row) == ""
    searched = [m.content.split("<search>")[1].split("</search>")[0] for m in row.messages if "<search>" in m.content]
    assert texts_of(row, "query") == searched[1:]  # the first is the rules' own
    assert texts_of(row, "answer") == [row.final_answer]
    assert all(sub_question in texts_of(row, "plan")[-1] for sub_question in row.plan if len(row.plan) > 1)
    claims = zip(row.steps, texts_of(row, "claim", "mistake"), strict=True)
    assert all(each.answer.rstrip(".") in text for each, text in claims)
    assert len(texts_of(row, "mistake")) == len(texts_of(row, "mend")) == sum(each.is_mistake for each in row.steps)
    assert not any("search>" in text or "think>" in text for text in texts_of(row, "plan", "claim", "mistake", "mend"))


@given(rows())
@settings(max_examples=80, deadline=None)
def test_spans_stand_in_order_in_the_agents_turns_and_do_not_overlap(row: Trajectory) -> None:
    assert {span.message for span in row.spans} == {n for n, m in enumerate(row.messages) if m.role == "assistant"}
    for one, other in pairwise(row.spans):
        assert (one.message, one.start) < (one.message, one.end) <= (other.message, other.start)
    assert sft_row(row).spans == row.spans


REASONING = trajectory(FIRST, replace(SECOND, answer="Beverly Hills", is_mistake=True), SECOND, error="reasoning")


def _with(number: int, **changes: object) -> Trajectory:
    spans = list(REASONING.spans)
    spans[number] = replace(spans[number], **changes)  # type: ignore[arg-type]
    return replace(REASONING, spans=tuple(spans))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (replace(REASONING, spans=()), "query or answer"),
        (replace(REASONING, spans=REASONING.spans[1:]), "marked as plans"),
        (replace(REASONING, spans=REASONING.spans[::-1]), "overlap"),
        (_with(0, message=1), "not the agent's"),
        (_with(0, end=99_999), "leaves its text"),
        (_with(0, end=7), "empty"),
        (_with(1, start=REASONING.spans[1].start - 1), "query or answer"),
        (_with(0, end=REASONING.spans[1].start), "leaves the thought"),
        (_with(0, kind="claim"), "claims and takes back"),
        (_with(-1, kind="query"), "query or answer"),
        (_with(2, end=REASONING.spans[2].start + 2), "is marked as claiming"),
        (replace(REASONING, steps=(FIRST, SECOND)), "claims and takes back"),
    ],
)
def test_spans_that_are_not_those_of_the_conversation_are_found(row: Trajectory, problem: str) -> None:
    assert problem in span_problem(row)


def _reworded(row: Trajectory, number: int, old: str, new: str) -> Trajectory:
    content = row.messages[number].content
    assert old in content
    turn = Message(role="assistant", content=content.replace(old, new, 1), train=True)
    fixed = replace(row, messages=(*row.messages[:number], turn, *row.messages[number + 1 :]))
    return refit(fixed, row)


def test_a_fix_keeps_the_spans_right() -> None:
    row = _reworded(REASONING, 2, "<think>", "<think>Let me see. ")
    assert span_problem(row) == "" and texts_of(row, "plan") == texts_of(REASONING, "plan")
    row = _reworded(row, 6, texts_of(row, "mend")[0], "Hm. It died there, and I was asked for births.")
    assert span_problem(row) == "" and texts_of(row, "mistake") == texts_of(REASONING, "mistake")
    answered = refit(replace(row, final_answer="the city of Vienna"), row)
    assert span_problem(answered) == "" and texts_of(answered, "answer") == ["the city of Vienna"]
    assert texts_of(answered, "claim") == texts_of(row, "claim")
    asked = refit(replace(row, question="Where was the director of Metropolis born?"), row)
    assert asked.spans == row.spans


def test_a_fix_that_leaves_nothing_of_a_part_is_refused() -> None:
    with pytest.raises(InvalidInput, match="claims and takes back"):
        _reworded(REASONING, 6, texts_of(REASONING, "mend")[0], "")


words = st.lists(st.sampled_from(["Vienna", "it", "is", "I", "read", ".", "that", "born"]), min_size=1, max_size=12)


@given(st.lists(words, min_size=2, max_size=4), words, st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=100, deadline=None)
def test_moved_spans_never_overlap(parts: list[list[str]], new: list[str], first: int, length: int) -> None:
    message, spans = write_turn(0, [Sentence(" ".join(part), "claim") for part in parts], query="q")
    at = min(first + 7, message.content.index("</think>"))
    end = min(at + length, message.content.index("</think>"))
    content = message.content[:at] + " ".join(new) + message.content[end:]
    moved = moved_spans(spans, [message], [replace(message, content=content)])
    assert all(one.end <= other.start for one, other in pairwise(moved))
    assert all(0 <= span.start < span.end <= len(content) for span in moved)
    assert isinstance(moved[-1], TextSpan) and content[moved[-1].start : moved[-1].end] == "q"


def test_plans_are_those_of_the_row() -> None:
    row = trajectory(FIRST, WRONG_TURN, SECOND, error="decomposition", first_plan=OTHER_PLAN)
    first, second = texts_of(row, "plan")
    assert OTHER_PLAN[1] in first and PLAN[1] in second
