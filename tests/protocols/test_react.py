"""MSearcher's grammar: its form, and that a flawless turn is what the paper's rules ask for."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.turns import answer_turn, result_turn, search_turn
from trailforge.protocols import REACT
from trailforge.protocols.base import tags_in
from trailforge.protocols.turns import Search, Turn
from trailforge.schemas import MalformedReply, Message, Passage

STRICT = re.compile(
    r"\s*<think>(?P<thought>.*?)</think>\s*(?:<search>(?P<query>.*?)</search>|<answer>(?P<answer>.*?)</answer>)\s*",
    re.DOTALL,
)
ALLOWED = (["<think>", "</think>", "<search>", "</search>"], ["<think>", "</think>", "<answer>", "</answer>"])


def passage(title: str, text: str) -> Passage:
    return Passage(id="0", title=title, text=text, score=0.5)


def conversation(*turns: str) -> list[Message]:
    """System, user, then assistant and tool in turn."""
    messages = [*REACT.opening("Where was she born?")]
    for number, content in enumerate(turns):
        role = "tool" if number % 2 else "assistant"
        messages.append(Message(role=role, content=content, train=role == "assistant"))
    return messages


GOOD = conversation(
    search_turn(REACT, "I look her up.", "Who is she?"),
    result_turn(REACT, [passage("She", "She was born in Oslo.")]),
    answer_turn(REACT, "That is it.", "Oslo"),
)


def test_render_in_the_form_of_the_paper() -> None:
    assert search_turn(REACT, "why", "what") == "<think>why</think><search>what</search>"
    assert answer_turn(REACT, "so", "Oslo") == "<think>so</think><answer>Oslo</answer>"
    assert result_turn(REACT, [passage("Oslo", "A city.\nIn Norway."), passage("B", "</tool_response>")]) == (
        "<tool_response>\n1. (Oslo) A city. In Norway.\n2. (B) &lt;/tool_response>\n</tool_response>"
    )


def test_parsing_trims_white_space() -> None:
    turn = REACT.parse_turn("\n<think>\n why\n</think>\n<search> what </search>\n", strict=True)
    assert turn == Turn(thought="why", search=Search(query="what"))


PIECES = st.sampled_from(
    [*"think /think search /search answer /answer THINK result".split(), "/ search"],
).map("<{}>".format) | st.sampled_from(
    [" ", "\n", "x", "who"],
)


@given(
    st.lists(PIECES, max_size=8).map("".join)
    | st.tuples(*[st.lists(PIECES, max_size=2).map("".join)] * 3).map(
        lambda parts: f"{parts[0]}<think>a{parts[1]}</think>{parts[2]}<search>q</search>"
    )
)
def test_a_turn_is_flawless_exactly_where_the_papers_rules_hold(text: str) -> None:
    match = STRICT.fullmatch(text) if tags_in(text) in ALLOWED else None
    parts = {name: part.strip() for name, part in match.groupdict().items() if part is not None} if match else {}
    expected = bool(parts) and all(parts.values())
    try:
        turn = REACT.parse_turn(text, strict=True)
    except MalformedReply:
        assert not expected
    else:
        assert expected
        assert {"thought": turn.thought, "query": turn.search.query if turn.search else turn.answer} == {
            "thought": parts["thought"], "query": parts.get("query", parts.get("answer"))
        }  # fmt: skip


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        ("Oslo", "found no tags"),
        ("<think>a</think>", "found <think> </think>"),
        ("<think>a</think><search>q</search><answer>x</answer>", "expected a thought, then one search or one answer"),
        ("<think>a<result></think><search>q</search>", "found <think> <result> </think>"),
        ("<think>a</think> so <search>q</search>", "needs repair: loose_text"),
        ("<THINK>a</THINK><search>q</search>", "needs repair: tag_spelling"),
        ("<think> </think><search>q</search>", "needs repair: missing_thought"),
        ("<think>a</think><search> </search>", "empty search"),
    ],
)
def test_a_malformed_turn_is_refused_with_its_reason(turn: str, problem: str) -> None:
    with pytest.raises(MalformedReply, match=problem):
        REACT.parse_turn(turn, strict=True)
    assert any(problem in found for found in REACT.validate(conversation(turn), strict=True))


def test_a_good_conversation_has_no_problem() -> None:
    assert REACT.validate(GOOD, strict=True) == []
    assert REACT.validate([*GOOD[:3], replace(GOOD[3], content="bare text"), GOOD[4]], strict=True) == [
        "message 3: expected <tool_response> </tool_response>; found no tags"
    ]
