"""MSearcher's grammar: render, parse, validate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.protocols import react
from trailforge.protocols.base import tags_in
from trailforge.schemas import MalformedReply, Message, Passage

TEXTS = st.text(min_size=1, max_size=40).map(str.strip).filter(lambda text: text and not tags_in(text))
PASSAGE_TEXTS = st.text(max_size=30) | st.sampled_from(["</tool_response>", "<answer>42</answer>", "a\nb"])
PASSAGES = st.lists(st.tuples(PASSAGE_TEXTS, PASSAGE_TEXTS), max_size=3).map(
    lambda pairs: [passage(title, text) for title, text in pairs]
)


def passage(title: str, text: str) -> Passage:
    return Passage(id="0", title=title, text=text, score=0.5)


def conversation(*turns: str) -> list[Message]:
    """System, user, then assistant and tool in turn."""
    messages = [
        Message(role="system", content=react.SYSTEM_PROMPT, train=False),
        Message(role="user", content="Where was she born?" + react.USER_SUFFIX, train=False),
    ]
    for number, content in enumerate(turns):
        role = "tool" if number % 2 else "assistant"
        messages.append(Message(role=role, content=content, train=role == "assistant"))
    return messages


GOOD = conversation(
    react.render_search("I look her up.", "Who is she?"),
    react.render_passages([passage("She", "She was born in Oslo.")]),
    react.render_answer("That is it.", "Oslo"),
)


def test_render_in_the_form_of_the_paper() -> None:
    assert react.render_search("why", "what") == "<think>why</think><search>what</search>"
    assert react.render_answer("so", "Oslo") == "<think>so</think><answer>Oslo</answer>"
    assert react.render_passages([passage("Oslo", "A city.\nIn Norway."), passage("B", "</tool_response>")]) == (
        "<tool_response>\n1. (Oslo) A city. In Norway.\n2. (B) &lt;/tool_response>\n</tool_response>"
    )


@given(TEXTS, TEXTS)
def test_parsing_a_rendered_turn_gives_its_parts(thought: str, text: str) -> None:
    assert react.parse_turn(react.render_search(thought, text)) == react.Turn(thought=thought, query=text)
    assert react.parse_turn(react.render_answer(thought, text)) == react.Turn(thought=thought, answer=text)


def test_parsing_trims_white_space() -> None:
    turn = react.parse_turn("\n<think>\n why\n</think>\n<search> what </search>\n")
    assert turn == react.Turn(thought="why", query="what")


@given(st.lists(st.tuples(TEXTS, TEXTS, PASSAGES), max_size=3), TEXTS, TEXTS)
def test_whatever_is_rendered_is_valid(steps: list[tuple[str, str, list[Passage]]], thought: str, answer: str) -> None:
    turns: list[str] = []
    for step_thought, query, passages in steps:
        turns += [react.render_search(step_thought, query), react.render_passages(passages)]
    assert react.validate(conversation(*turns, react.render_answer(thought, answer))) == []


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        ("Oslo", "found no tags"),
        ("<think>a</think>", "found <think> </think>"),
        ("<search>q</search><think>a</think>", "found <search> </search> <think> </think>"),
        ("<think>a</think><search>q</search><answer>x</answer>", "expected a thought, then one search or one answer"),
        ("<think>a</think><search>q</search><search>r</search>", "expected a thought, then one search or one answer"),
        ("<think>a<result></think><search>q</search>", "found <think> <result> </think>"),
        ("<think>a</think> so <search>q</search>", "text outside the tags"),
        ("so <think>a</think><search>q</search>", "text outside the tags"),
        ("<THINK>a</THINK><search>q</search>", "a tag that is not written plainly"),
        ("<think> </think><search>q</search>", "empty thought"),
        ("<think>a</think><search> </search>", "empty query"),
        ("<think>a</think><answer></answer>", "empty answer"),
    ],
)
def test_a_malformed_turn_is_refused_with_its_reason(turn: str, problem: str) -> None:
    with pytest.raises(MalformedReply, match=problem):
        react.parse_turn(turn)
    assert any(problem in found for found in react.validate(conversation(turn)))


def test_a_good_conversation_has_no_problem() -> None:
    assert react.validate(GOOD) == []


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "0 messages; expected system"),
        (GOOD[:2], "2 messages"),
        (GOOD[:3], "message 2: the conversation ends without an answer"),
        (GOOD[:4], "4 messages"),
        ([GOOD[1], GOOD[0], *GOOD[2:]], "message 0: role user, expected system"),
        ([*GOOD[:2], GOOD[4], GOOD[3], GOOD[4]], "message 2: answers before the last turn"),
        ([*GOOD[:3], replace(GOOD[3], train=True), GOOD[4]], "message 3: train is True on a turn of tool"),
        ([*GOOD[:4], replace(GOOD[4], train=False)], "message 4: train is False on a turn of assistant"),
        ([*GOOD[:3], replace(GOOD[3], content="bare text"), GOOD[4]], "message 3: expected one tool response"),
        ([*GOOD[:3], replace(GOOD[3], content="x" + GOOD[3].content), GOOD[4]], "message 3: text outside the tool"),
    ],
)
def test_validate_names_message_and_rule(messages: list[Message], problem: str) -> None:
    assert any(found.startswith(problem) for found in react.validate(messages))
